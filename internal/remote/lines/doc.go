// Package lines is what is in a remote: lines of sealed entries, which only ever get longer,
// and packs of objects that entries rely on. A [Repo] reads and writes them, over any
// [remote.Backend]; docs/reference/format-remote.md has the bytes.
//
// A line has one writer. Another who wants to put an entry at the same place is a rival, and
// [Repo.Append] says so: that one opens a line of its own, which goes on from the last entry
// that both have. So nobody is refused, and nothing is replaced.
//
// It does not know what the records mean, nor where they come from.
package lines
