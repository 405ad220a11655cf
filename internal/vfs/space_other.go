//go:build !linux && !darwin && !windows

package vfs

import "errors"

// Space returns an error that matches [errors.ErrUnsupported].
func Space(path string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
