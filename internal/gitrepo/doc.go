// Package gitrepo reads what a user's git repository says about itself: where
// it is, its configuration, its index, its HEAD. It never writes, locks or
// starts git, and reads no environment: what git would take from there the
// caller hands in as an [Env].
//
// Start with [Find]. A Repo may be used by several goroutines at once; each
// method reads the files anew.
//
// [Index.Sparse] tells what git sparse-checkout has taken out of the working
// tree.
//
// Repositories are other people's data. Only regular files are read, none
// above a size that its kind never has in good faith (see the constants in
// file.go), and damage is an error, not a panic. Where git takes a device or a
// pipe for an empty file, as in "excludesFile = /dev/null", so do we, without
// opening it.
//
// What we do otherwise than git:
//
//   - Find takes the directory that has the .git for the root, even where
//     core.worktree names another; it does not stop at mount points, nor at
//     repositories that other users own (nothing from them is executed).
//   - The variables GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE and GIT_CONFIG_COUNT
//     are not known here.
//   - includeIf "hasconfig:…" never holds, and "%(prefix)/" in a path is not
//     expanded.
//   - The checksum of the index is not verified; git does not do that either
//     when it reads one.
//   - HEAD of a repository whose refs are in a reftable is an error.
package gitrepo
