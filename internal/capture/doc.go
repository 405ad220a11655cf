// Package capture turns a directory on disk into objects.
//
// [FindProject] says where a directory belongs, [Project.Open] prepares it, and
// [Workspace.Capture] stores what is in it and returns the ID of its tree. A
// capture reads only what has changed since the last one: the stat cache knows the
// rest. Package tree says what is captured and what is not.
//
// To read: capture.go is one run, dirjob.go the life of a directory in it, visit.go
// that of a name, rules.go what is ignored, sparse.go what git has taken out, put.go
// what becomes of a directory that was visited. block.go is what the stat cache knows
// of a directory, statcache.go the file of all, trust.go when it is believed. In a
// process that stays, resident.go passes over what the watcher has told nothing of,
// sums.go counts what is passed over, edit.go changes a large directory in place.
//
// Captures of one [Workspace] wait for each other; each uses several goroutines.
//
// docs/reference/format.md §8 has the stat cache.
package capture
