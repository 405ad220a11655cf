// Package trees is the format of trees and of what captures left out, and all that
// compares and reads them without looking at a disk.
//
// [Put] and [Patch] store trees. [Entries], [Walk] and [Lookup] read them, [Export]
// writes one into an empty directory. [Diff] yields where two trees differ, at a cost
// that follows the difference; [Compare] also goes by what the captures left out,
// which [Coverage] yields. [PageReader] and [PageWriter] are the pages of which
// directories are made.
//
// Trees are immutable, and everything that reads them may be called from many
// goroutines.
//
// docs/reference/format.md §6 has trees, §7 coverage.
package trees
