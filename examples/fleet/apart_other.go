//go:build !linux

package main

import (
	"errors"
	"os/exec"
)

// setApart has a process be in namespaces of its own, which Linux has.
func setApart(*exec.Cmd) bool { return false }

func bind(string, string) error { return errors.ErrUnsupported }
