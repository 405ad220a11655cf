//go:build unix

package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// otherPrograms are those that tests run beside snapctl.
var otherPrograms = map[string]func(){"soaker": soakerMain}

func cmdFifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}
