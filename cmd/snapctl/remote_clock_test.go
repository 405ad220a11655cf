package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/remote/remotetest"
)

var withClocks = flag.Bool("clocks", false, "build snapctl with a clock that can be set, and use a remote with it")

// clockVar has by how many seconds the clock of such a program is wrong.
const clockVar = "SNAPCTL_TEST_CLOCK"

const wrongClock = `package time

import "syscall"

var wrongBy = func() (n int64) {
	text, _ := syscall.Getenv("` + clockVar + `")
	for _, c := range []byte(text) {
		if c != '-' {
			n = 10*n + int64(c-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		return -n
	}
	return n
}()
`

// buildWithClock builds snapctl with another time.Now, which believes clockVar. How long something takes, and the
// times of files, are not changed by it.
func buildWithClock(t *testing.T) (program string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	was, err := os.ReadFile(filepath.Join(src, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	at := "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(was), at) != 1 {
		t.Fatal("this Go has another time.Now")
	}
	dir := t.TempDir()
	files := map[string]string{
		"time.go":  strings.Replace(string(was), at, at+"\tsec += wrongBy\n", 1),
		"wrong.go": wrongClock,
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range files {
		overlay.Replace[filepath.Join(src, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), doc, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "snapctl")
	c := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return program
}

// A clockMachine is a directory and a store, of a machine with a clock of its own.
type clockMachine struct {
	*clockWorld
	home, dir string
	mine      []string // titles of the turns that it has made, and those that it had when it was cloned
}

// A clockWorld is a remote, and who uses it.
type clockWorld struct {
	t            *testing.T
	program, url string
	env          []string
}

// tenYears is by how much clocks are wrong, in seconds.
const tenYears = 10 * 365 * 86400

// run runs a command on a machine whose clock is wrong by so many times ten years.
func (m *clockMachine) run(clock int, args ...string) (said string, err error) {
	c := exec.Command(m.program, append([]string{"--root", m.dir}, args...)...)
	c.Dir = m.home
	c.Env = append(os.Environ(), "HOME="+m.home, "BOO_ENGINE=off", clockVar+"="+strconv.Itoa(clock*tenYears))
	c.Env = append(c.Env, m.env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (m *clockMachine) must(clock int, args ...string) string {
	m.t.Helper()
	said, err := m.run(clock, args...)
	if err != nil {
		m.t.Fatalf("with a clock that is wrong by %d years, snapctl %q: %v: %s", 10*clock, args, err, said)
	}
	return said
}

func (w *clockWorld) machine() *clockMachine {
	w.t.Helper()
	m := &clockMachine{clockWorld: w, home: w.t.TempDir()}
	m.dir = filepath.Join(m.home, "p")
	for _, d := range []string{m.dir, filepath.Join(m.home, ".config", "snapctl")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	return m
}

// clone makes a machine that has what is in the remote.
func (w *clockWorld) clone(clock int, like *clockMachine) *clockMachine {
	w.t.Helper()
	m := w.machine()
	id, err := os.ReadFile(filepath.Join(like.home, ".config/snapctl/identity.age"))
	if err == nil {
		err = os.WriteFile(filepath.Join(m.home, ".config/snapctl/identity.age"), id, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	m.must(clock, "clone", w.url, m.dir, "--name", "team")
	return m
}

// turn records a turn and pushes it, by one clock and another.
func (m *clockMachine) turn(name string, clock, other int) {
	m.t.Helper()
	title := fmt.Sprintf("%s%d", name, len(m.mine))
	m.must(clock, "run", "--session", "s1", "--", "sh", "-c", "echo "+title+" >p/of-"+name)
	m.must(other, "remote", "push")
	m.mine = append(m.mine, title)
}

var titleInLog = regexp.MustCompile(`"title":"sh -c echo ([abc][0-9]+) `)

// titles returns the turns of the session as a machine tells of them, oldest first.
func (m *clockMachine) titles(clock int) (list []string) {
	m.t.Helper()
	for _, found := range titleInLog.FindAllStringSubmatch(m.must(clock, "log", "--session", "s1", "--json"), -1) {
		list = append(list, found[1])
	}
	slices.Reverse(list)
	return list
}

// TestRemoteClocks: two machines go on with one session, and prune, on a server and in a directory. The clocks of both
// are wrong by ten years from one command to the next, this way and that, and so is the server's to theirs. Each
// turn is there, once, in the order in which it was made, until a prune takes lines for old; those come again with the
// next push of who has made them.
func TestRemoteClocks(t *testing.T) {
	if !*withClocks {
		t.Skip("SKIPPED: it builds all of Go's library; run with -clocks")
	}
	program, server := buildWithClock(t), remotetest.Versity(t)
	for _, w := range []*clockWorld{
		{t, program, "s3://" + server.Bucket + "/x", server.Env()},
		{t, program, filepath.Join(t.TempDir(), "bucket"), nil},
	} {
		a := w.machine()
		a.must(1, "remote", "init", w.url)
		a.must(-1, "snapshot", "--session", "s1")
		a.must(0, "remote", "add", "team", w.url)
		a.turn("a", 1, -1)
		b := w.clone(-1, a)
		b.mine = slices.Clone(a.mine)
		clocks := []int{0, 1, -1}
		for n := range 9 {
			a.turn("a", clocks[n%3], clocks[n/3])
			b.turn("b", clocks[(n+1)%3], clocks[(n/3+1)%3])
			b.must(clocks[(n+2)%3], "remote", "prune")
		}
		w.same(a, b)
		a.must(0, "remote", "check", "--data")

		// Whoever prunes by age believes clocks. What was there comes again with the next push.
		c := w.clone(-1, a)
		c.mine = c.titles(0)
		c.turn("c", -1, -1)
		said := a.must(0, "remote", "prune", "--keep-within", "365d", "-y")
		if !strings.Contains(said, "dropped 1 line") {
			t.Errorf("what is ten years old by its clock stays: %s", said)
		}
		c.turn("c", 0, 0)
		if got := c.titles(0); !slices.Equal(got, c.mine) {
			t.Errorf("%s: a machine has %q, want %q", w.url, got, c.mine)
		}
		a.must(0, "remote", "check", "--data")
		all := w.clone(0, a).must(0, "sessions", "--remote", "team", "--json")
		want := fmt.Sprintf(`"root":"team:%s",.*"turns":%d,`, regexp.QuoteMeta(c.dir), len(c.mine))
		if !regexp.MustCompile(want).MatchString(all) {
			t.Errorf("%s: of %s, which has made %d turns, a clone lists\n%s", w.url, c.dir, len(c.mine), all)
		}
	}
}

// same compares what two machines, and clones by any clock, have with what they have made.
func (w *clockWorld) same(a, b *clockMachine) {
	w.t.Helper()
	for clock := -1; clock <= 1; clock++ {
		for _, m := range []*clockMachine{a, b} {
			if got := m.titles(clock); !slices.Equal(got, m.mine) {
				w.t.Errorf("%s, clock %d: a machine has %q, want %q", w.url, clock, got, m.mine)
			}
		}
		c := w.clone(clock, a)
		all := c.titles(clock)
		if !slices.Equal(all, a.mine) && !slices.Equal(all, b.mine) {
			w.t.Errorf("%s: a clone has %q, want %q or %q", w.url, all, a.mine, b.mine)
		}
		for _, m := range []*clockMachine{a, b} {
			other, err := c.run(clock, "log", "team:s1", "--json")
			if err != nil {
				w.t.Fatalf("log: %s", other)
			}
			last := m.mine[len(m.mine)-1]
			if !slices.Contains(all, last) && !strings.Contains(other, "echo "+last+" ") {
				w.t.Errorf("%s: a clone has no %s: %s\n%s", w.url, last, other, c.must(clock, "sessions"))
			}
		}
	}
}
