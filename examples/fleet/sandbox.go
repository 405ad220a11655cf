package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sandboxArg has this program be a sandbox.
const sandboxArg = "sandbox"

// orders are what a sandbox is told, as JSON, on its stdin. It answers a report, on its stdout.
type orders struct {
	fleet
	Number int
	Apart  bool
}

// start runs a sandbox, in namespaces of its own if it may.
func (f *fleet) start(number int) (r report, err error) {
	for _, apart := range []bool{true, false} {
		if r, err = f.startIn(number, apart); !errors.Is(err, errNotApart) {
			break
		}
	}
	return r, err
}

// errNotApart: this user, or this system, has no namespaces.
var errNotApart = errors.New("no namespaces")

func (f *fleet) startIn(number int, apart bool) (r report, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	told, err := json.Marshal(orders{*f, number, apart})
	if err != nil {
		return r, err
	}
	c := exec.Command(self, sandboxArg)
	if apart && !setApart(c) {
		return r, errNotApart
	}
	in, err := c.StdinPipe()
	if err != nil {
		return r, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return r, err
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		if apart {
			return r, errNotApart
		}
		return r, err
	}
	_, err = in.Write(told)
	err = errors.Join(err, in.Close(), json.NewDecoder(out).Decode(&r))
	return r, errors.Join(err, c.Wait())
}

// runSandbox is what a sandbox does.
func runSandbox() error {
	var o orders
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	u := &user{&o.fleet, filepath.Join(o.Dir, fmt.Sprint("home", o.Number)), fmt.Sprint("sandbox", o.Number),
		filepath.Join(o.Dir, "owner", ".config", "snapctl", "identity.age")}
	if err := os.MkdirAll(u.home, 0o700); err != nil {
		return err
	}
	work := filepath.Join(u.home, "work")
	if o.Apart { // its project is at the path at which all have theirs
		if err := os.Mkdir(work, 0o700); err != nil {
			return err
		}
		if err := bind(work, o.Work); err != nil {
			return err
		}
		work = o.Work
	}
	r, err := u.work(filepath.Join(work, "project"), o.Number)
	if err != nil {
		return err
	}
	r.Apart = o.Apart
	return json.NewEncoder(os.Stdout).Encode(r)
}

// work begins from the base, and takes some turns while an engine pushes them.
func (u *user) work(dir string, number int) (r report, err error) {
	began := time.Now()
	if _, err := u.snapctl("/", u.cloneArgs(dir)...); err != nil {
		return r, err
	}
	r.Start = time.Since(began)
	if _, err := u.snapctl(dir, "serve", "--detach", "-q"); err != nil {
		return r, err
	}
	defer u.snapctl(dir, "serve", "--stop", "-q")
	for turn := range u.Turns {
		for _, name := range []string{"state", fmt.Sprintf("d0/%d-%d", number, turn)} {
			if err := os.WriteFile(filepath.Join(dir, name), text(number, turn), 0o600); err != nil {
				return r, err
			}
		}
		began := time.Now()
		if _, err := u.snapctl(dir, "snapshot", "-q", "-m", title(number, turn)); err != nil {
			return r, err
		}
		r.Turns = append(r.Turns, time.Since(began))
	}
	began = time.Now()
	_, err = u.snapctl(dir, "remote", "wait", "-q", "--timeout", "5m")
	r.Wait = time.Since(began)
	return r, err
}
