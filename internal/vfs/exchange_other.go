//go:build !linux

package vfs

import "errors"

func exchange(_, _ string) error { return errors.ErrUnsupported }
