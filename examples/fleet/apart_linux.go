package main

import (
	"os"
	"os/exec"
	"syscall"
)

// setApart has a process be root of namespaces of its own, and this user outside of them.
func setApart(c *exec.Cmd) bool {
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return true
}

// bind shows a directory at another path, in this namespace alone.
func bind(dir, at string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount(dir, at, "", syscall.MS_BIND, "")
}
