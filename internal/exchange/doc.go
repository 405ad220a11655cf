// Package exchange tells stores and remotes of each other's records: [Push] puts the sessions of
// a store into lines of a remote, with the objects that they need; [Fetch] and [Import] bring
// lines into a store, where their records get numbers of their own.
//
// What was pushed is derived: the remote's lines are the truth, and a store that has lost its
// note of them finds out by reading. Two processes do not push one store to one remote at once.
//
// docs/reference/format-remote.md has the bytes; package lines writes them.
package exchange
