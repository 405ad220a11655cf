package vfs_test

import "testing"

// testDirUnix checks what needs links, fifos and permission bits.
func testDirUnix(*testing.T, dirOpener) {}
