// Package pickaxe finds among changes those by which a text came or went: the number of
// places at which it occurs in a file is another one after than it was before. Git's log -S
// does the same, and its log -G what [Lines] does.
//
// A [Search] reads each content once, however many changes have it, with all processors,
// and answers in the order in which it is asked. It knows no records and no sessions:
// callers bring changes and say how contents are read.
package pickaxe
