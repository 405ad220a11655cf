//go:build unix

package main

import "syscall"

// detached are the attributes of a process that outlives its terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
