// Package blame tells which change each line of a text comes from, version by version: a
// line that a version has from the one before it keeps its origin, and any other is the
// version's own. What comes of that can be kept in a [File], which is derived: who doubts it
// makes it anew.
//
// It reads texts and files of a store, and knows no records: what an origin means is its
// caller's business, and whose it is comes with it as an [Owner].
package blame
