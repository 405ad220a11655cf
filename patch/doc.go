// Package patch finds the text that somebody means, and puts another there.
//
// [Locate] finds the one place in a text that somebody means who gives it only
// roughly, as models do; [Replace] puts another text there. [Parse] reads a whole
// patch in one of four formats, and [Patch.Apply] does what it says, in memory,
// all of it or nothing. [Merge] does to one text what was done to another of the
// same origin.
//
// The package is not a version control system and reads no disk: callers bring
// names, modes and bytes, or functions that load bytes. Texts are bytes, of any
// encoding or none; a line ends with "\n", which belongs to it, and the last line
// may lack it. CRLF is a line end, too. All functions are pure, but for what they
// are given to call, and may be called from any number of goroutines.
package patch
