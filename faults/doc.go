// Package faults has tests only: the command, as a process, on file systems
// that lose their power, fill up, refuse, lie about time, locks and renames.
//
//	go test ./faults           what needs no root, in seconds
//	go test ./faults -faults   all of it, as root on Linux; see docs/testing.md
//
// After each fault the store opens and is sound, every snapshot that was
// acknowledged is read to the byte, and capturing works again when the cause
// is gone.
package faults
