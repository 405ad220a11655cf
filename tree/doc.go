// Package tree has the words for what is in a directory and for what a capture of
// it says: the words that embedders meet in the results and options of the packages
// manager, rollback and checkpoint. It does nothing itself. What captures, reads,
// compares and checks trees is internal.
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
// size limit, and what cannot be read: all of it is listed in the coverage, with the
// reason.
//
// A capture of a directory in use is not a moment: it holds what each file
// was when it was read.
package tree
