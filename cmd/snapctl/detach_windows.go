package main

import "syscall"

// detached are the attributes of a process that outlives its terminal.
func detached() *syscall.SysProcAttr {
	const detachedProcess = 0x8
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
