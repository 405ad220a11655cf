package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/version"
)

// driversName is the program that has the drivers of databases: see package dbpipe.
const driversName = "snapctl-checkpoints"

var errNoDrivers = errors.New("is not installed")

// findDrivers returns the path of the program that has the drivers: beside this one, or in PATH.
func findDrivers() (string, error) {
	name := driversName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if found, err := exec.LookPath(beside); err == nil {
			return found, nil
		}
	}
	if found, err := exec.LookPath(name); err == nil {
		return found, nil
	}
	return "", &failure{exitEnvironment, fmt.Errorf("%s %w, and databases need it", driversName, errNoDrivers),
		"'" + version.Install(driversName) + "', or put the one of the same release beside snapctl"}
}

// driversEndWithin is how long the program may take to take back what it does when it is to end.
const driversEndWithin = 10 * time.Second

// A driversProgram runs. It has the environment of this process, where drivers look for
// passwords, and its standard error.
type driversProgram struct {
	in   io.WriteCloser
	out  *os.File
	wait func() error // until it has ended; again it returns the same
}

func startDrivers(program string) (io.ReadWriteCloser, error) {
	cmd := exec.Command(program, "pipe")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	wait := sync.OnceValue(func() error {
		late := time.AfterFunc(driversEndWithin, func() { cmd.Process.Kill() })
		defer late.Stop()
		return cmd.Wait()
	})
	return &driversProgram{in, out, wait}, nil
}

func (p *driversProgram) Write(b []byte) (int, error) { return p.in.Write(b) }

// Read reads answers to their end, also when the program has ended before: so a statement
// that was done is told as done.
func (p *driversProgram) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if err != nil {
		p.out.Close()
	}
	return n, err
}

// Close has the program end, and waits until it has.
func (p *driversProgram) Close() error {
	p.in.Close()
	if err := p.wait(); err != nil {
		return fmt.Errorf("%s: %w", driversName, err)
	}
	return nil
}
