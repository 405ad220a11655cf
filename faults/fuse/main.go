//go:build linux

// Command fuse serves what the tests of package faults need of a file system:
//
//	fuse log IMAGE LOG DIR   the image as the file DIR/disk; what is written to it goes into LOG, too
//	fuse pass SOURCE DIR     SOURCE once more, with the faults that lines on stdin ask for
//
// It prints "ready" when the file system is there, and unmounts it when stdin
// ends. It is a module of its own, so that no user of the library takes go-fuse.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fuse:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var root fs.InodeEmbedder
	var command func(line string) error
	var err error
	switch {
	case len(args) == 4 && args[0] == "log":
		root, err = newImage(args[1], args[2])
		command = func(line string) error { return fmt.Errorf("unknown command %q", line) }
	case len(args) == 3 && args[0] == "pass":
		root, command, err = newPass(args[1])
	default:
		err = fmt.Errorf("usage: fuse log IMAGE LOG DIR | fuse pass SOURCE DIR")
	}
	if err != nil {
		return err
	}
	zero := time.Duration(0) // the kernel remembers nothing
	server, err := fs.Mount(args[len(args)-1], root, &fs.Options{
		AttrTimeout: &zero, EntryTimeout: &zero,
		MountOptions: fuse.MountOptions{DirectMount: true, AllowOther: true, EnableLocks: true, FsName: "faults"},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := command(lines.Text()); err != nil {
			return err
		}
		fmt.Println("done")
	}
	return server.Unmount()
}
