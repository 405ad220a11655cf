// Package textdiff compares two texts line by line and writes what it finds as a
// unified diff that git apply and GNU patch accept.
//
// Start with [Edits], the line ranges that differ, [Stat], their number, or
// [AppendUnified], the diff of two files. [LineWords] narrows the changed lines of an
// edit down to what changed in them. For merges, [CompareNumbers] and [Slide] find the
// edits that git would find.
//
// Texts are bytes, of any encoding or none; a line ends with "\n", which belongs to
// it, and the last line may lack it. A carriage return is a byte like any other. All
// functions are pure and may be called from any number of goroutines.
package textdiff
