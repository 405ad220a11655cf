//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/cmd/snapctl/internal/rpc"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
)

// storeDir returns where the store of the project is.
func (r *runner) storeDir() string {
	r.t.Helper()
	project, err := capture.FindProject(r.project)
	if err != nil {
		r.t.Fatal(err)
	}
	return filepath.Join(r.home, ".boo", "file-store", project.Hash())
}

// serveDetached starts an engine and returns its process.
func (r *runner) serveDetached() int {
	r.t.Helper()
	r.must("serve", "--detach")
	b, err := os.ReadFile(filepath.Join(r.storeDir(), "locks", "serve"))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { // only where the test has failed: else it has ended
		syscall.Kill(pid, syscall.SIGCONT)
		r.command("serve", "--stop").Run()
	})
	return pid
}

// say runs a command and returns its exit code, and what it prints.
func (r *runner) say(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	cmd := r.command(args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// openTurns returns the sessions of the project that have an open turn.
func (r *runner) openTurns() []string {
	r.t.Helper()
	m, err := manager.Open(r.t.Context(), r.project,
		&manager.Options{StoreRoot: filepath.Dir(r.storeDir()), ReadOnly: true})
	if err != nil {
		r.t.Fatal(err)
	}
	defer m.Close()
	list, err := m.OpenTurns()
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *runner) signal(pid int, s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		r.t.Fatal(err)
	}
}

// TestEngineStopped: what an engine was to do that is stopped is done without it,
// which is said, and it does not do it again when it goes on.
func TestEngineStopped(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	pid := r.serveDetached()
	r.must("--session", "s", "snapshot", "--label", "zero")
	r.signal(pid, syscall.SIGSTOP)
	for { // until all of it has stopped
		c, err := client.Dial(t.Context(), r.storeDir())
		if errors.Is(err, wire.ErrHung) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	r.write("f", "one")
	entries := make(map[string]string) // by label
	told := fmt.Sprintf("the engine does not answer: process %d: done "+
		"without it ('kill -CONT %d' wakes it if it was stopped;", pid, pid)
	for _, args := range [][]string{{"status"}, {"diff"}, {"--session", "s", "snapshot", "--label", "one"}} {
		code, out, said := r.say(args...)
		if code != 0 || out == "" || strings.Count(said, told) != 1 {
			t.Errorf("%q beside a stopped engine: exit code %d, prints %q, says %q, want %q once", args, code,
				out, said, told)
		}
		entries["one"], _, _ = strings.Cut(out, " ")
	}
	if out := r.hookSays(nil, agents.Prompt, "", ""); !strings.Contains(out,
		fmt.Sprintf("process %d. What the agent does to files is recorded without the engine", pid)) {
		t.Errorf("a hook beside a stopped engine says %q", out)
	}
	r.hook(nil, agents.Prompt, "", "") // not again
	if open := r.openTurns(); !slices.Equal(open, []string{"s"}) {
		t.Errorf("after a hook beside a stopped engine turns of %q are open", open)
	}
	if log := r.hookLog(); log != "" {
		t.Errorf("hook.log: %s", log)
	}
	for _, args := range [][]string{{"serve", "--stop"}, {"serve", "--detach"}} {
		if code, _, said := r.say(args...); code != exitEnvironment ||
			!strings.Contains(said, fmt.Sprintf("process %d\nhint: 'kill -CONT %d'", pid, pid)) {
			t.Errorf("%q: exit code %d, says %q", args, code, said)
		}
	}
	r.signal(pid, syscall.SIGCONT)
	for { // until it answers
		if c, err := client.Dial(t.Context(), r.storeDir()); err == nil {
			c.Close()
			break
		}
	}
	r.write("f", "two")
	code, out, said := r.say("--session", "s2", "snapshot", "--label", "two")
	if code != 0 || strings.Contains(said, "engine") {
		t.Errorf("snapshot by an engine that goes on: exit code %d, says %q", code, said)
	}
	entries["two"], _, _ = strings.Cut(out, " ")
	log := r.must("log", "--all")
	for label, entry := range entries {
		if n := strings.Count(log, " "+label+"\n"); n != 1 {
			t.Errorf("label %q is there %d times:\n%s", label, n, log)
		}
		if got := r.must("cat", entry, "f"); got != label {
			t.Errorf("cat %s f: %q", label, got)
		}
	}
	r.must("check", "--read-data")
	r.must("serve", "--stop")
}

// TestEngineStops stops an engine at random points of turns, and has it go on
// beside or behind a capture without it.
func TestEngineStops(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	pid := r.serveDetached()
	acked := make(map[string]string)
	var mu sync.Mutex // guards acked
	var sessions sync.WaitGroup
	conn, err := client.Dial(t.Context(), r.storeDir())
	if err != nil {
		t.Fatal(err)
	}
	sessions.Go(func() {
		r.session(conn, "s0", 0, func(hash, state string) {
			mu.Lock()
			defer mu.Unlock()
			acked[hash] = state
		})
	})
	rounds := 4
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		r.signal(pid, syscall.SIGSTOP)
		r.write("f", fmt.Sprint(i))
		cmd := r.command("--session", "here", "snapshot")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It may wait for a lock that the engine has.
		goOn := time.AfterFunc(time.Duration(rand.IntN(5000))*time.Millisecond,
			func() { syscall.Kill(pid, syscall.SIGCONT) })
		err := cmd.Wait()
		if goOn.Stop() {
			r.signal(pid, syscall.SIGCONT)
		}
		if err != nil {
			t.Errorf("snapshot beside an engine that is stopped: %v", err)
		}
	}
	conn.Close()
	sessions.Wait()
	r.must("serve", "--stop")
	r.must("check", "--read-data")
	for hash, want := range acked {
		dir := filepath.Join(t.TempDir(), "out")
		r.must("export", hash, dir)
		if got := "s0" + r.state(filepath.Join(dir, "s0")); got != want {
			t.Errorf("turn %s comes back as\n%s\nwas\n%s", hash, got, want)
		}
	}
	if len(acked) == 0 {
		t.Error("no turn was acknowledged")
	}
}

// pings serves the store by a process that is there, and does nothing.
func (r *runner) pings() (asked <-chan string) {
	r.t.Helper()
	if _, err := rpc.Listen(r.storeDir()); err != nil { // for its locks
		r.t.Fatal(err)
	}
	path := filepath.Join(r.storeDir(), wire.SocketName)
	if err := os.Remove(path); err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	requests := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in := bufio.NewReader(c)
				for {
					line, err := in.ReadString('\n')
					switch {
					case err != nil:
						return
					case strings.Contains(line, `"ping"`):
						var q struct{ ID json.RawMessage }
						json.Unmarshal([]byte(line), &q)
						fmt.Fprintf(c, "{\"id\":%s,\"type\":\"response\",\"success\":true}\n", q.ID)
					case !strings.Contains(line, `"cancel"`):
						requests <- line
					}
				}
			}()
		}
	}()
	return requests
}

// TestEngineSilent: who has asked an engine that then falls silent gives it up, or
// ends with the first signal.
func TestEngineSilent(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	r.must("snapshot")
	asked := r.pings()
	for _, args := range [][]string{{"snapshot"}, {"diff"}, {"serve", "--stop"}, {"stats"}} {
		cmd := r.command(args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		r.signal(cmd.Process.Pid, syscall.SIGTERM)
		dead := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
		if dead.Stop(); cmd.ProcessState.ExitCode() < 0 {
			t.Errorf("%q goes on after SIGTERM", args)
		} else if args[0] != "stats" && cmd.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("%q, ended: exit code %d, says %q", args, cmd.ProcessState.ExitCode(), said.String())
		}
	}
	code, _, said := r.say("status")
	if code != exitEnvironment || !strings.Contains(said,
		"the engine has been silent for 10s: it is not known whether it has done this") {
		t.Errorf("status: exit code %d, says %q", code, said)
	}
}

// TestEngineAtWork: an engine whose work takes long says that it is at it.
func TestEngineAtWork(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	r.serveDetached()
	r.must("snapshot")
	locks, err := filepath.Glob(filepath.Join(r.storeDir(), "worktrees", "*", "turns.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks %q, %v", locks, err)
	}
	lock, err := vfs.OS(filepath.Dir(locks[0])).OpenFile("turns.lock", os.O_RDWR, 0)
	if err == nil {
		err = vfs.Lock(t.Context(), lock, vfs.Exclusive) // somebody else is at work
	}
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(t.Context(), r.storeDir())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q := &struct {
		Type string `json:"type"`
		cliRequest
	}{"cli", cliRequest{ID: 1, Build: build(), CWD: []byte(r.project), Args: [][]byte{[]byte("snapshot")},
		Env: map[string]string{"HOME": r.home}}}
	for _, name := range sameEnvironment[1:] {
		q.Env[name] = os.Getenv(name)
	}
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "%s\n", line)
	in := bufio.NewReader(conn)
	for range 2 {
		if line, err := in.ReadString('\n'); err != nil || line != "{\"id\":1,\"type\":\"alive\"}\n" {
			t.Fatalf("while it waits it says %q, %v", line, err)
		}
	}
	lock.Close()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"exitCode":0`) {
			break
		}
	}
	r.must("serve", "--stop")
}
