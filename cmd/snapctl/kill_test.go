//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var crashRounds = flag.Int("crash.rounds", 5, "how often a command is killed")

// A runner runs the command as a process, in a project and a home of its own.
type runner struct {
	t       *testing.T
	home    string
	project string
	env     []string // besides, of its commands
}

func newRunner(t *testing.T) *runner {
	r := &runner{t: t, home: t.TempDir(), project: filepath.Join(t.TempDir(), "p")}
	for i := range 120 {
		name := filepath.Join(r.project, fmt.Sprintf("d%d/f%d", i%9, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintln(i), 50)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *runner) command(args ...string) *exec.Cmd {
	cmd := exec.Command("snapctl", append([]string{"--root", r.project}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+r.home, "BOO_STORE=", "BOO_SESSION=", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, r.env...)
	return cmd
}

// must runs a command that has to succeed.
func (r *runner) must(args ...string) string {
	r.t.Helper()
	var stderr bytes.Buffer
	cmd := r.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("snapctl %q: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// state is everything in the project.
func (r *runner) state(dir string) string {
	r.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(p)
		fmt.Fprintf(&b, "%s %q\n", strings.TrimPrefix(p, dir), content)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// TestKill kills the command at random points. Every snapshot that it had
// acknowledged comes back, nothing is damaged, and no lock is left.
func TestKill(t *testing.T) {
	r := newRunner(t)
	acked := make(map[string]string) // tree → state
	for i := range *crashRounds {
		for range 1 + rand.IntN(5) {
			name := filepath.Join(r.project, fmt.Sprintf("d%d/f%d", rand.IntN(9), rand.IntN(200)))
			if err := os.WriteFile(name, fmt.Appendf(nil, "%d %d", i, rand.Uint64()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := r.command("snapshot", "--json")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rand.IntN(40_000))*time.Microsecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		var answer snapshotAnswer
		if json.Unmarshal(out.Bytes(), &answer) == nil {
			acked[answer.SnapshotTreeHash.String()] = r.state(r.project)
		}
	}
	r.must("snapshot") // at once: nobody holds a lock
	r.must("check", "--read-data")
	for tree, want := range acked {
		dir := filepath.Join(t.TempDir(), "out")
		r.must("export", tree, dir)
		if got := r.state(dir); got != want {
			t.Errorf("snapshot %s comes back as\n%s\nwas\n%s", tree, got, want)
		}
	}
	t.Logf("%d of %d snapshots acknowledged", len(acked), *crashRounds)
}

// TestAtOnce: ten processes that snapshot one project at once agree, and
// store it once.
func TestAtOnce(t *testing.T) {
	r := newRunner(t)
	const n = 10
	answers := make([]snapshotAnswer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			out, err := r.command("snapshot", "--json").Output()
			if err == nil {
				err = json.Unmarshal(out, &answers[i])
			}
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	stored := 0
	for _, a := range answers {
		if a.SnapshotTreeHash != answers[0].SnapshotTreeHash {
			t.Errorf("trees %s and %s of one directory", a.SnapshotTreeHash, answers[0].SnapshotTreeHash)
		}
		if a.Counts.NewObjects > 0 {
			stored++
		}
	}
	if stored != 1 {
		t.Errorf("%d processes stored something, want 1", stored)
	}
	if lines := strings.Count(r.must("log"), "\n"); lines != 1 {
		t.Errorf("%d snapshots, want 1", lines)
	}
	r.must("check", "--read-data")
}

// TestPatchAtOnce: four processes that edit one file at once lose no edit.
func TestPatchAtOnce(t *testing.T) {
	r := newRunner(t)
	const n, rounds = 4, 5
	path := filepath.Join(r.project, "shared")
	if err := os.WriteFile(path, []byte("a 0\nb 0\nc 0\nd 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for round := range rounds {
				old, new := fmt.Sprintf("%c %d\n", 'a'+i, round), fmt.Sprintf("%c %d\n", 'a'+i, round+1)
				if out, err := r.command("patch", "apply", "--path", "shared", "--old", old,
					"--new", new).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", old, err, out)
				}
			}
		})
	}
	wg.Wait()
	if got, err := os.ReadFile(path); err != nil || string(got) != "a 5\nb 5\nc 5\nd 5\n" {
		t.Errorf("%q, %v", got, err)
	}
	if lines := strings.Count(r.must("patch", "log", "--json"), "\n"); lines != n*rounds {
		t.Errorf("%d edits, want %d", lines, n*rounds)
	}
	r.must("check", "--read-data")
}

// TestPatchKilled: an edit of many files that is killed is whole, or is taken
// back by the next command that writes.
func TestPatchKilled(t *testing.T) {
	r := newRunner(t)
	const files = 200
	var input strings.Builder
	input.WriteString("*** Begin Patch\n")
	for i := range files {
		if err := os.WriteFile(filepath.Join(r.project, fmt.Sprint("edited", i)),
			[]byte("before\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&input, "*** Update File: edited%d\n@@\n-before\n+after\n", i)
	}
	input.WriteString("*** End Patch\n")
	state := func() (n int) {
		for i := range files {
			b, err := os.ReadFile(filepath.Join(r.project, fmt.Sprint("edited", i)))
			if err != nil {
				t.Fatal(err)
			}
			if string(b) == "after\n" {
				n++
			}
		}
		return n
	}
	killed := 0
	for range *crashRounds {
		cmd := r.command("patch", "apply")
		cmd.Stdin = strings.NewReader(input.String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
		cmd.Process.Kill()
		err := cmd.Wait()
		half := state()
		r.must("snapshot")
		n := state()
		if n != 0 && n != files {
			t.Fatalf("killed (%v): %d of %d files are edited, after the next command %d", err, half, files, n)
		}
		if half != n {
			killed++
		}
		if n == files {
			r.must("patch", "undo", strings.Fields(r.must("patch", "log", "-n", "1"))[0])
		}
	}
	t.Logf("%d of %d edits were taken back", killed, *crashRounds)
	r.must("check", "--read-data")
}

// TestManyRuns: many runs that each change a file leave few packs.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes thousands of runs")
	}
	r := newRunner(t)
	runs := 10 * *crashRounds
	for i := range runs {
		if err := os.WriteFile(filepath.Join(r.project, "d0/f0"), fmt.Append(nil, i), 0o644); err != nil {
			t.Fatal(err)
		}
		r.must("snapshot", "-q")
	}
	packs, err := filepath.Glob(filepath.Join(r.home, ".boo/file-store/*/packs/*.pack"))
	if err != nil || len(packs) > 3 {
		t.Errorf("%d packs after %d runs (%v), want a few", len(packs), runs, err)
	}
	if lines := strings.Count(r.must("log", "--limit", fmt.Sprint(runs+1)), "\n"); lines != runs {
		t.Errorf("%d snapshots after %d runs", lines, runs)
	}
}
