//go:build !linux

package main

import (
	"errors"
	"io"
	"os"
)

func runFloor(string, []string, io.Writer) error {
	return errors.New("the floors need Linux")
}

// maxRSS is not told: each system counts in another unit, and some not at all.
func maxRSS(*os.ProcessState) int64 { return 0 }
