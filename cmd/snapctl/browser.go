package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// browserTime is how long a browser may take to begin.
const browserTime = time.Minute

// openBrowser opens an address with a token as the user's desktop does. What a process was started with others of the
// machine can read, so the browser is given a file with the address, which forget removes, after a minute it goes by
// itself. It lies in the home directory: browsers that are snaps read no hidden directory, and no other place.
func (a *app) openBrowser(address string) (forget func(), err error) {
	forget = func() {}
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows": // where only an administrator can read that
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	if runtime.GOOS != "windows" {
		if command[1], err = a.writeAddress(address); err != nil {
			return forget, err
		}
		forget = sync.OnceFunc(func() { os.Remove(command[1]) })
		time.AfterFunc(browserTime, forget)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if err = cmd.Start(); err != nil {
		forget()
		return forget, err
	}
	go cmd.Wait() // it may stay as long as the browser does
	return forget, nil
}

// writeAddress writes a page for this user alone that leads to an address.
func (a *app) writeAddress(address string) (name string, err error) {
	f, err := os.CreateTemp(cmp.Or(a.getenv("HOME"), os.TempDir()), "snapctl-timeline-*.html")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, `<!doctype html><meta name="referrer" content="no-referrer">`+
		`<meta http-equiv="refresh" content="0; url=%s">`+"\n", address)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}
