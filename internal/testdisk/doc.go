// Package testdisk has the tests work in memory where Linux has a file system there:
// a sync costs nothing then, and most tests wait for syncs. What a power cut leaves
// is asked of vfstest.Mem in any case. Import it for its effect. TMPDIR wins: TMPDIR=/tmp
// is how the long targets of the Makefile work on a disk; benchmarks always do.
package testdisk
