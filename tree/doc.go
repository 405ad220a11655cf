// Package tree turns a directory on disk into objects and back. It knows
// directories; sessions, turns and people are the business of the packages
// above.
//
// [FindProject] says where a directory belongs, [Project.Open] prepares it, and
// [Workspace.Capture] stores what is in it and returns the ID of its tree. A
// capture reads only what has changed since the last one.
//
// [Diff] yields where two trees differ, at a cost that follows the difference.
// [Walk], [Entries] and [Lookup] read trees, [NewFS] shows one as an io/fs
// file system, [Export] writes one into an empty directory, [Coverage] yields
// what a capture left out.
//
// # What is captured
//
// Everything below the root: regular files with their content and permission
// bits, symbolic links with their targets, directories with their bits, empty
// ones too. Names are raw bytes. A symbolic link is never followed. Times,
// owners, set-id bits, extended attributes and the sharing of hard links are
// not kept.
//
// Never captured are the insides of version control systems and the store
// itself. Left out are what git ignores and does not track, files above the
// size limit, and what cannot be read; all of it is listed in the coverage.
//
// A capture of a directory in use is not a moment: it holds what each file
// was when it was read.
//
// # Concurrency
//
// A [Workspace] is for one goroutine at a time; a capture uses several. Trees
// are immutable, and everything that reads them may be called from many.
//
// # Format
//
// docs/format.md §6 has trees, §7 coverage, §8 the stat cache.
package tree
