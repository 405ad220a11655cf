// Package session knows a conversation: entries, and the paths between them.
//
// A session is a [Tree] of entries with a leaf, the entry at the tip of the current
// branch. A runtime that has its entries in memory gives them to the manager as a
// tree. One that has a log in pi's format (session.jsonl, version 3) gives its name,
// and the manager reads it; what it reads there are errors of this package.
//
// A [Tree] may be used from several goroutines at once.
package session
