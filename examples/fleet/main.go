// Command fleet has many sandboxes work on one machine, and share one remote: each is a process
// with a home, an identity and, where that is allowed, namespaces of its own. They begin from one
// base, work for some turns while an engine pushes behind them, and are gone. Then somebody
// looks whether each turn of each is in the remote, once, and has the bytes that were written.
//
//	go run ./examples/fleet -n 50 -turns 20                       a new directory
//	go run ./examples/fleet -n 50 -turns 20 -remote s3://BUCKET/PREFIX
//
// With a bucket: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY as ever. snapctl
// has to be in PATH.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A fleet is what all sandboxes have in common.
type fleet struct {
	N, Turns int
	Remote   string
	Dir      string // of the fleet: homes are in it
	Cache    string // near cache; "": none
	Base     string // base directory; "": none
	Work     string // path at which each sandbox has its project
	Endpoint string // of the bucket, by way of the proxy that counts; "": it is a directory
}

// A report is what a sandbox has measured.
type report struct {
	Start time.Duration   // until its files are there
	Turns []time.Duration // each until it is recorded
	Wait  time.Duration   // at the end, until all is in the remote
	Apart bool            // it had namespaces of its own
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == sandboxArg {
		exit(runSandbox())
	}
	var f fleet
	flag.IntVar(&f.N, "n", 5, "sandboxes")
	flag.IntVar(&f.Turns, "turns", 4, "turns of each")
	flag.StringVar(&f.Remote, "remote", "", "the remote; default a new directory")
	near := flag.Bool("cache", true, "keep packs on the machine: clone --cache")
	base := flag.Bool("base", true, "take files from a base: clone --base")
	flag.Parse()
	exit(f.run(*near, *base))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (f *fleet) run(near, base bool) (err error) {
	if f.Dir, err = os.MkdirTemp("", "fleet-"); err != nil {
		return err
	}
	defer exec.Command("sh", "-c", `chmod -R u+w "$0"; rm -rf "$0"`, f.Dir).Run()
	if near {
		f.Cache = filepath.Join(f.Dir, "cache")
	}
	if base {
		f.Base = filepath.Join(f.Dir, "files")
	}
	f.Work = filepath.Join(f.Dir, "work")
	f.Remote = cmp.Or(f.Remote, filepath.Join(f.Dir, "remote"))
	var counter *counter
	if strings.HasPrefix(f.Remote, "s3://") {
		if counter, err = count(os.Getenv("AWS_ENDPOINT_URL")); err != nil {
			return err
		}
		defer counter.Close()
		f.Endpoint = counter.url
	}
	owner := &user{fleet: f, home: filepath.Join(f.Dir, "owner")}
	if err := owner.begin(); err != nil {
		return err
	}
	counter.say("the first project, and the first clone")
	began := time.Now()
	reports, err := f.sandboxes()
	if err != nil {
		return err
	}
	f.say(reports, time.Since(began))
	counter.say(fmt.Sprintf("%d sandboxes", f.N))
	if err := owner.verify(); err != nil {
		return err
	}
	fmt.Printf("%d sandboxes, %d turns each: all are in %s, once, with the bytes that were written\n", f.N, f.Turns,
		f.Remote)
	return nil
}

// sandboxes runs all of them at once.
func (f *fleet) sandboxes() ([]report, error) {
	var all sync.WaitGroup
	reports, errs := make([]report, f.N), make([]error, f.N)
	for i := range f.N {
		all.Go(func() { reports[i], errs[i] = f.start(i) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("sandbox %d: %w", i, err)
		}
	}
	return reports, nil
}

// say prints what sandboxes have measured.
func (f *fleet) say(reports []report, took time.Duration) {
	var starts, turns, waits []time.Duration
	apart := 0
	for _, r := range reports {
		starts, turns, waits = append(starts, r.Start), append(turns, r.Turns...), append(waits, r.Wait)
		if r.Apart {
			apart++
		}
	}
	fmt.Printf("%d sandboxes, %d in namespaces of their own, %.1f s\n", f.N, apart, took.Seconds())
	for _, x := range []struct {
		what string
		list []time.Duration
	}{{"start", starts}, {"end of a turn", turns}, {"end: all is in the remote", waits}} {
		slices.Sort(x.list)
		at := func(percent int) string {
			d := x.list[(len(x.list)-1)*percent/100]
			return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
		}
		fmt.Printf("  %-26s p50 %10s   p99 %10s   of %d\n", x.what, at(50), at(99), len(x.list))
	}
}

// A user has a home on the machine.
type user struct {
	*fleet
	home     string
	session  string
	identity string // file with it; "": its own
}

// snapctl runs a command in a directory, and returns what it prints.
func (u *user) snapctl(dir string, args ...string) ([]byte, error) {
	c := exec.Command("snapctl", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+u.home, "XDG_CONFIG_HOME=", "BOO_STORE=", "BOO_SESSION="+u.session,
		"BOO_CACHE="+u.Cache, "BOO_IDENTITY="+u.identity)
	if u.Endpoint != "" {
		c.Env = append(c.Env, "AWS_ENDPOINT_URL="+u.Endpoint)
	}
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("snapctl %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return out, err
}

// each runs commands in a directory.
func (u *user) each(dir string, commands ...[]string) error {
	for _, args := range commands {
		if _, err := u.snapctl(dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// begin makes what all sandboxes begin from, pushes it, and has the first clone fill the cache and make the base.
func (u *user) begin() error {
	project := filepath.Join(u.home, "project")
	for _, dir := range []string{project, u.Work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	rng := rand.NewChaCha8([32]byte{1})
	for d := range 20 {
		dir := filepath.Join(project, fmt.Sprint("d", d))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for i := range 20 {
			b := make([]byte, 20_000)
			rng.Read(b)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), b, 0o600); err != nil {
				return err
			}
		}
	}
	if !strings.HasPrefix(u.Remote, "s3://") {
		if err := os.MkdirAll(u.Remote, 0o700); err != nil {
			return err
		}
	}
	// The identity is made in this home: all are given it.
	return u.each(project, []string{"snapshot", "-q", "--session", "base", "-m", "base"},
		[]string{"remote", "init", "-q", u.Remote},
		[]string{"remote", "add", "-q", "origin", u.Remote}, []string{"remote", "push", "-q"},
		u.cloneArgs(filepath.Join(u.home, "first")))
}

// cloneArgs is the command by which a sandbox begins.
func (u *user) cloneArgs(dir string) []string {
	args := []string{"clone", "-q", u.Remote, dir, "--session", "base"}
	if u.Base != "" {
		return append(args, "--base", u.Base)
	}
	return append(args, "--lazy")
}

// text is what a turn of a sandbox writes.
func text(sandbox, turn int) []byte {
	b := make([]byte, 3000)
	rand.NewChaCha8([32]byte{2, byte(sandbox), byte(sandbox >> 8), byte(turn), byte(turn >> 8)}).Read(b)
	return b
}

func title(sandbox, turn int) string { return fmt.Sprintf("turn %d of %d", turn, sandbox) }

// verify looks at the remote, when the sandboxes are gone: each turn is there once, with what it has written.
func (u *user) verify() error {
	project := filepath.Join(u.home, "project")
	err := u.each(project, []string{"remote", "pull", "-q"}, []string{"remote", "check", "--data", "-q"})
	if err != nil {
		return err
	}
	for i := range u.N {
		out, err := u.snapctl(project, "log", "--json", "--limit", fmt.Sprint(2*u.Turns+10),
			fmt.Sprint("origin:sandbox", i))
		if err != nil {
			return err
		}
		trees := make(map[string][]string)
		for line := range strings.Lines(string(out)) {
			var r struct{ Label, SnapshotTreeHash string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return err
			}
			trees[r.Label] = append(trees[r.Label], r.SnapshotTreeHash)
		}
		for turn := range u.Turns {
			there := trees[title(i, turn)]
			if len(there) != 1 {
				return fmt.Errorf("turn %d of sandbox %d is there %d times", turn, i, len(there))
			}
			for _, path := range []string{"state", fmt.Sprintf("d0/%d-%d", i, turn)} {
				got, err := u.snapctl(project, "cat", there[0], path)
				if err != nil {
					return err
				}
				if string(got) != string(text(i, turn)) {
					return fmt.Errorf("turn %d of sandbox %d: %s has other bytes than were written", turn, i, path)
				}
			}
		}
	}
	return nil
}
