//go:build linux

package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

var (
	long = flag.Bool("faults", false, "run what needs root and minutes")
	cuts = flag.Int("cuts", 20, "power cuts for each file system")
)

// snapctl is the command, built once.
var snapctl string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "faults")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755) // other users run it, too
		snapctl = filepath.Join(dir, "snapctl")
		c := exec.Command("go", "build", "-ldflags=-s -w", "-o", snapctl, "../cmd/snapctl")
		if out, err := c.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build snapctl: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// needs skips a test, loudly, unless it was asked for and this machine can.
func needs(t *testing.T, root bool, tools ...string) {
	t.Helper()
	if !*long {
		t.Skip("SKIPPED: long; run with -faults")
	}
	if root && os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
}

// sh runs a program that has to succeed.
func sh(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// scratch returns a directory in memory, if there is one.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "faults")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	return dir
}

// A mount is a file system that is there until the test ends.
type mount struct {
	t    *testing.T
	dir  string
	args []string // of mount(8), before the directory
	on   bool
}

// newMount makes a mount; it skips the test where the kernel has no such thing.
func newMount(t *testing.T, args ...string) *mount {
	t.Helper()
	m := &mount{t: t, dir: filepath.Join(scratch(t), "mnt"), args: args}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", append(args, m.dir)...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: mount %q: %v: %s", args, err, out)
	}
	m.on = true
	t.Cleanup(func() {
		if m.on {
			m.umount()
		}
	})
	return m
}

func (m *mount) mount() {
	m.t.Helper()
	sh(m.t, "mount", append(m.args, m.dir)...)
	m.on = true
}

func (m *mount) umount() {
	m.t.Helper()
	var out []byte
	for range 50 {
		var err error
		if out, err = exec.Command("umount", m.dir).CombinedOutput(); err == nil {
			m.on = false
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	exec.Command("umount", "-l", m.dir).Run()
	m.on = false
	m.t.Errorf("umount: %s", out)
}

func (m *mount) path(name string) string { return filepath.Join(m.dir, name) }

// newImage makes a file with a file system: ext4 or xfs.
func newImage(t *testing.T, kind string) string {
	t.Helper()
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	name := filepath.Join(scratch(t), kind+".img")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(imageSize), f.Close()); err != nil {
		t.Fatal(err)
	}
	mkfs(t, kind, name)
	return name
}

const imageSize = 320 << 20 // XFS takes no less than 300 MiB

func mkfs(t *testing.T, kind, name string) {
	t.Helper()
	if kind == "xfs" {
		sh(t, "mkfs.xfs", "-q", "-K", name)
	} else {
		sh(t, "mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0", name)
	}
}

// A world is a project with its store, and what was acknowledged of it.
type world struct {
	t       testing.TB
	home    string
	stores  string // directory with the stores
	project string
	hash    string              // of the project
	wrap    []string            // comes before the command
	cred    *syscall.Credential // of another user
	chown   int                 // to whom files of the project are given; 0: nobody

	mu       sync.Mutex // guards the rest
	acks     []ack
	restored map[string]string // session → its files, since they were restored
	at       func() int64      // where we are, for ack.at
}

// An ack is a snapshot that was acknowledged.
type ack struct {
	tree  string
	dir   string // its part of the project
	state string
	at    int64
}

func newWorld(t testing.TB, stores, project string) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), stores: stores, project: project, restored: make(map[string]string)}
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := capture.FindProject(project)
	if err != nil {
		t.Fatal(err)
	}
	w.hash = p.Hash()
	return w
}

func (w *world) command(args ...string) *exec.Cmd {
	args = append(slices.Clone(w.wrap), append([]string{snapctl, "--root", w.project, "--store", w.stores}, args...)...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "HOME="+w.home, "BOO_STORE=", "BOO_SESSION=")
	if w.cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred}
	}
	return cmd
}

// A result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

func (w *world) run(args ...string) result {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		w.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// must runs a command that has to succeed.
func (w *world) must(args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	if r.code != 0 {
		w.t.Fatalf("snapctl %q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// fails runs a command that has to fail with a code, and say why.
func (w *world) fails(code int, why string, args ...string) {
	w.t.Helper()
	r := w.run(args...)
	w.t.Logf("snapctl %s: %d: %s", strings.Join(args, " "), r.code, r.stderr)
	if r.code != code || !strings.Contains(r.stderr, why) {
		w.t.Errorf("snapctl %q: exit code %d, %q, want %d, %q", args, r.code, r.stderr, code, why)
	}
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := w.tryWrite(name, content); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryWrite(name, content string) error {
	path := filepath.Join(w.project, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
	if w.chown != 0 {
		err = errors.Join(err, os.Chown(filepath.Dir(path), w.chown, w.chown), os.Chown(path, w.chown, w.chown))
	}
	return err
}

// files writes some files that compress badly.
func (w *world) files(n, size int) {
	w.t.Helper()
	of := byte(testseed.Of(w.t))
	for i := range n {
		b := make([]byte, size)
		random := rand.NewChaCha8([32]byte{byte(i), of})
		random.Read(b)
		w.write(fmt.Sprintf("d%d/f%d", i%5, i), string(b))
	}
}

// tryState returns everything below a directory of the project.
func (w *world) tryState(dir string) (string, error) {
	return stateOf(os.DirFS(filepath.Join(w.project, dir)))
}

func (w *world) state(dir string) string {
	w.t.Helper()
	s, err := w.tryState(dir)
	if err != nil {
		w.t.Error(err)
	}
	return s
}

func stateOf(fsys fs.FS) (string, error) {
	var b strings.Builder
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fsys, name)
		fmt.Fprintf(&b, "%s %q\n", name, content)
		return err
	})
	return b.String(), err
}

// differ lists the lines that two states do not share, cut short.
func differ(was, is string) string {
	var b strings.Builder
	for _, side := range []struct{ sign, have, other string }{{"-", was, is}, {"+", is, was}} {
		for line := range strings.Lines(side.have) {
			if !strings.Contains(side.other, line) {
				fmt.Fprintf(&b, "%s %.60q, %d bytes\n", side.sign, line, len(line))
			}
		}
	}
	return b.String()
}

// snapshot records the project, and what it is.
func (w *world) snapshot() error {
	state, err := w.tryState("")
	if err != nil {
		return err
	}
	r := w.run("--session", "commands", "snapshot", "--json")
	if r.code != 0 {
		return fmt.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	var answer struct{ SnapshotTreeHash string }
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil {
		return err
	}
	w.ack(answer.SnapshotTreeHash, "", state)
	return nil
}

func (w *world) ack(tree, dir, state string) {
	a := ack{tree: tree, dir: dir, state: state}
	if w.at != nil {
		a.at = w.at()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, a)
}

func (w *world) storeDir() string { return filepath.Join(w.stores, w.hash) }

// verify checks the store, and reads all that was acknowledged: as the library
// does, and a few as files. Then it takes another snapshot.
func (w *world) verify(acks []ack) {
	w.t.Helper()
	w.must("check", "--read-data")
	w.read(acks)
	for range min(2, len(acks)) {
		a := acks[rand.IntN(len(acks))]
		dir := filepath.Join(w.t.TempDir(), "out")
		w.must("export", a.tree, dir)
		if got, err := stateOf(os.DirFS(filepath.Join(dir, a.dir))); got != a.state || err != nil {
			w.t.Errorf("snapshot %s as it was and is exported: %v\n%s", a.tree, err, differ(a.state, got))
		}
	}
	w.must("--session", "commands", "snapshot") // ends what was cut off
	w.write("again", fmt.Sprint(rand.Uint64()))
	if err := w.snapshot(); err != nil {
		w.t.Error(err)
	}
	w.must("check")
}

func (w *world) read(acks []ack) {
	w.t.Helper()
	if len(acks) == 0 {
		return
	}
	ctx := context.Background()
	s, err := cas.Open(ctx, w.storeDir(), &cas.Options{ReadOnly: true})
	if err != nil {
		w.t.Error(err)
		return
	}
	defer s.Close()
	done := make(map[string]bool)
	for _, a := range acks {
		if done[a.tree+a.dir] {
			continue
		}
		done[a.tree+a.dir] = true
		id, err := store.ParseID(a.tree)
		if err != nil {
			w.t.Fatal(err)
		}
		out := filepath.Join(w.t.TempDir(), "out")
		if _, err := trees.Export(ctx, s, id, out); err != nil {
			w.t.Error(err)
			continue
		}
		if got, err := stateOf(os.DirFS(filepath.Join(out, a.dir))); got != a.state || err != nil {
			w.t.Errorf("snapshot %s as it was and is read: %v\n%s", a.tree, err, differ(a.state, got))
		}
	}
}

// An engine is a resident snapctl with sessions at work.
type engine struct {
	w      *world
	cmd    *exec.Cmd
	stderr said
	dead   atomic.Bool
	work   sync.WaitGroup // the sessions
	exited chan struct{}
}

// serve starts an engine and two sessions that record turns and restore until
// it dies.
func (w *world) serve(turns int) *engine {
	w.t.Helper()
	e := &engine{w: w, cmd: w.command("serve", "--quiet"), exited: make(chan struct{})}
	e.cmd.Stderr = &e.stderr
	if err := e.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		e.cmd.Wait()
		e.dead.Store(true)
		close(e.exited)
	}()
	e.begin(turns)
	return e
}

// begin starts the sessions.
func (e *engine) begin(turns int) {
	dir := e.w.storeDir()
	for i := range 2 {
		e.work.Go(func() {
			for !e.dead.Load() {
				c, err := client.Dial(context.Background(), dir)
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				e.w.session(c, fmt.Sprint("s", i), turns)
				c.Close()
				return
			}
		})
	}
}

func (e *engine) kill() {
	e.cmd.Process.Kill()
	<-e.exited
	e.work.Wait()
}

// session records turns of a session, each of which writes its directory anew,
// until something fails.
func (w *world) session(c *client.Client, id string, turns int) error {
	ctx := context.Background()
	s, _, err := c.Open(ctx, &client.Initialize{CWD: w.project, SessionID: id, OwnLog: true})
	if err != nil {
		return err
	}
	for turn := range turns {
		if _, err := s.OnTurnStart(ctx, nil); err != nil {
			return err
		}
		w.mu.Lock()
		delete(w.restored, id)
		w.mu.Unlock()
		for i := range 5 {
			content := strings.Repeat(fmt.Sprintln(turn, i, rand.Uint64()), 1+rand.IntN(400))
			if err := w.tryWrite(fmt.Sprintf("%s/f%d", id, i), content); err != nil {
				return err
			}
		}
		if err := s.Claim(ctx, id); err != nil {
			return err
		}
		state, err := w.tryState(id)
		if err != nil {
			return err
		}
		end, err := s.OnTurnEnd(ctx, nil)
		if err != nil {
			return err
		}
		w.ack(end.SnapshotTreeHash.String(), id, state)
		if turn%5 != 4 {
			continue
		}
		if err := s.Call(ctx, "restore", &manager.RestoreOptions{Target: "@~2", Force: true}, nil); err != nil {
			return err
		}
		if state, err = w.tryState(id); err != nil {
			return err
		}
		w.mu.Lock()
		w.restored[id] = state
		w.mu.Unlock()
	}
	return nil
}

// A helper is a file system of faults/fuse.
type helper struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
	dir string
}

// buildFuse builds the helper once.
var buildFuse = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(filepath.Dir(snapctl), "fuse")
	out, err := exec.Command("go", "build", "-C", "fuse", "-o", bin, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build faults/fuse: %v: %s", err, out)
	}
	return bin, err
})

// fuse serves a file system: "pass" and the source, or "log", image and log.
func fuse(t *testing.T, args ...string) *helper {
	t.Helper()
	needs(t, true)
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("SKIPPED: %v", err)
	} else {
		f.Close()
	}
	bin, err := buildFuse()
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	h := &helper{t: t, dir: filepath.Join(scratch(t), "mnt")}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.cmd = exec.Command(bin, append(args, h.dir)...)
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.end)
	h.answer("ready")
	return h
}

func (h *helper) answer(want string) {
	h.t.Helper()
	if line, err := h.out.ReadString('\n'); line != want+"\n" {
		h.t.Fatalf("faults/fuse says %q, want %q (%v)", line, want, err)
	}
}

func (h *helper) set(fault string) {
	h.t.Helper()
	fmt.Fprintln(h.in, fault)
	h.answer("done")
}

func (h *helper) end() {
	h.in.Close()
	if h.cmd.Wait() != nil {
		exec.Command("umount", "-l", h.dir).Run()
	}
}

func (w *world) sessions() []string { return slices.Sorted(maps.Keys(w.restored)) }

// said is what a process has said so far.
type said struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
