//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

// A killedRemote is two machines, a remote in a directory, and what was acknowledged.
type killedRemote struct {
	t        *testing.T
	rng      *rand.Rand
	url      string
	machines [2]*runner
	acked    []killedAck
	took     map[string]time.Duration // by command: how long it takes
	killed   map[string]int
}

type killedAck struct {
	by          int // which machine
	tree, state string
}

// TestKillRemote kills pushes, pulls, clones, fetches, evictions and prunes at random points, on two machines that
// share a remote. It is never damaged, nor is a store, and all that was acknowledged comes back from there, and
// from where it was made.
func TestKillRemote(t *testing.T) {
	w := &killedRemote{t: t, rng: testseed.Rand(t), url: filepath.Join(t.TempDir(), "remote"),
		took: make(map[string]time.Duration), killed: make(map[string]int)}
	for i := range w.machines {
		m := newRunner(t)
		m.env = []string{"BOO_ENGINE=off"}
		w.machines[i] = m
	}
	w.machines[0].must("remote", "init", w.url, "--plain")
	for i, m := range w.machines {
		w.work(i, true)
		m.must("remote", "add", "team", w.url)
		m.must("remote", "push")
	}
	for i := range *crashRounds {
		m := w.rng.IntN(2)
		w.work(m, w.rng.IntN(3) == 0)
		w.kill(m)
		if i%5 == 4 {
			w.check(m)
		}
	}
	w.end()
	t.Logf("%d snapshots acknowledged, killed: %v", len(w.acked), w.killed)
}

// work changes files on a machine, and records them.
func (w *killedRemote) work(i int, big bool) {
	w.t.Helper()
	m := w.machines[i]
	files := map[string]int{fmt.Sprintf("d%d/f%d", w.rng.IntN(9), w.rng.IntN(200)): 100}
	if big {
		files["big0"], files["big1"] = 2500<<10, 2500<<10
	}
	for name, n := range files {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(w.rng.Uint32())
		}
		if err := os.WriteFile(filepath.Join(m.project, name), b, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	var answer snapshotAnswer
	out := m.must("snapshot", "--json", "--session", fmt.Sprintf("of%d", i))
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		w.t.Fatal(err)
	}
	w.acked = append(w.acked, killedAck{i, answer.SnapshotTreeHash.String(), digest(w.t, m.project)})
}

// digest is a hash of everything in a directory.
func digest(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		fmt.Fprintf(h, "%s %d\n%s", p[len(dir):], len(b), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// kill begins a command on a machine, and kills it, now and then too late.
func (w *killedRemote) kill(i int) {
	w.t.Helper()
	m := w.machines[i]
	commands := [][]string{
		{"remote", "push"}, {"remote", "push"}, {"remote", "pull"}, {"remote", "evict"}, {"remote", "fetch"},
		{"remote", "prune", "--keep-within", "10y"}, {"remote", "prune", "--session", "none", "--drop-session", "-y"},
		{"clone", w.url, filepath.Join(w.t.TempDir(), "clone"), "--lazy"},
	}
	args := commands[w.rng.IntN(len(commands))]
	name := args[0]
	if name == "remote" {
		name = args[1]
	}
	usual := w.took[name]
	if usual == 0 {
		usual = 300 * time.Millisecond
	}
	cmd := m.command(args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.AfterFunc(time.Duration(w.rng.Int64N(int64(usual*5/4)+1)), func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	exit, isExit := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		w.took[name] = time.Since(begun)
	case isExit && !exit.Exited():
		w.killed[name]++
	default:
		w.t.Errorf("snapctl %q: %v\n%s", args, err, said.Bytes())
	}
}

// check looks for damage, there and on a machine.
func (w *killedRemote) check(i int) {
	w.t.Helper()
	w.machines[i].must("remote", "check", "--data")
	w.machines[i].must("check", "--read-data")
}

// end has everything be pushed, and finds it where it was made, and in a clone.
func (w *killedRemote) end() {
	w.t.Helper()
	for i, m := range w.machines {
		m.must("remote", "push")
		w.check(i)
	}
	there := newRunner(w.t)
	there.env = w.machines[0].env
	there.must("clone", w.url, there.project+"2")
	there.project += "2"
	there.must("remote", "pull")
	for _, ack := range w.acked {
		for _, m := range []*runner{w.machines[ack.by], there} {
			dir := filepath.Join(w.t.TempDir(), "out")
			m.must("export", ack.tree, dir)
			if got := digest(w.t, dir); got != ack.state {
				w.t.Errorf("snapshot %s of machine %d comes back otherwise", ack.tree, ack.by)
			}
		}
	}
}
