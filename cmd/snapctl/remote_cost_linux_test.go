package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

var costTurns = flag.Int("remote-turns", 0, "measure so many turns with a remote beside as many without one")

// A door counts the requests that go through it to a server.
type door struct {
	*httptest.Server
	asked, put, got atomic.Int64 // put and got are bytes
	listed          atomic.Int64 // how many of those that were asked for are LIST
}

func newDoor(t *testing.T, server *remotetest.Server) *door {
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	d := new(door)
	proxy := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0), // of a server that was killed
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = at.Scheme, at.Host, r.In.Host // which is signed
		},
		ModifyResponse: func(r *http.Response) error {
			d.got.Add(max(r.ContentLength, 0))
			return nil
		},
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.asked.Add(1)
		if r.URL.Query().Has("list-type") {
			d.listed.Add(1)
		}
		d.put.Add(max(r.ContentLength, 0))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// processTime is the processor time of a process so far, of all its threads.
func processTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil { // clock_getcpuclockid(3)
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// A costed is an engine of whose turns the ends are measured.
type costed struct {
	*runner
	pid     int
	session *client.Session
	wall    []time.Duration
	cpu     []time.Duration // of the engine, while the client waits
	spans   [][2]time.Time  // in which a client has waited
}

func newCosted(t *testing.T, env []string, prepare func(*runner)) *costed {
	t.Helper()
	e := &costed{runner: newRunner(t)}
	e.env = env
	e.must("snapshot", "--session", "s1")
	prepare(e.runner)
	cmd := e.command("serve", "--idle", "0", "--quiet")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	e.pid = cmd.Process.Pid
	var c *client.Client
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if c, err = client.Dial(t.Context(), e.storeDir()); err == nil {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { c.Close() })
	var err error
	e.session, _, err = c.Open(t.Context(), &client.Initialize{CWD: e.project, SessionID: "s1", OwnLog: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// turn changes ten files, and measures how the end of the turn is waited for.
func (e *costed) turn(n int) {
	e.t.Helper()
	ctx := context.Background()
	if _, err := e.session.OnTurnStart(ctx, nil); err != nil {
		e.t.Fatal(err)
	}
	for i := range 10 {
		e.write(fmt.Sprintf("d%d/f%d", i%9, i), strings.Repeat(fmt.Sprintln("turn", n, i), 300))
	}
	cpu, begun := processTime(e.t, e.pid), time.Now()
	if _, err := e.session.OnTurnEnd(ctx, nil); err != nil {
		e.t.Fatal(err)
	}
	ended := time.Now()
	e.cpu = append(e.cpu, processTime(e.t, e.pid)-cpu)
	e.wall = append(e.wall, ended.Sub(begun))
	e.spans = append(e.spans, [2]time.Time{begun, ended})
}

// in returns what is below a share of the values.
func in(list []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(float64(len(sorted))*share), len(sorted)-1)]
}

// TestRemoteTurnCost measures the ends of turns, as a client waits for them, of an engine that pushes to a remote
// behind them, turn by turn beside one of a project without a remote: the engine's processor time, the time, and its
// system calls. It counts what a turn asks of the remote.
func TestRemoteTurnCost(t *testing.T) {
	if *costTurns == 0 {
		t.Skip("SKIPPED: it measures; run with -remote-turns 300")
	}
	server := remotetest.Versity(t)
	d := newDoor(t, server)
	link := "s3://" + server.Bucket + "/x"
	on := newCosted(t, append(server.Env(), "AWS_ENDPOINT_URL="+d.URL), func(r *runner) {
		r.must("remote", "init", link)
		r.must("remote", "add", "team", link)
		r.must("remote", "push")
	})
	off := newCosted(t, nil, func(*runner) {})
	both := []*costed{on, off}
	run := func(turns int) {
		for n := range turns {
			for i := range both {
				both[(n+i)%2].turn(n)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	run(20)
	for _, e := range both {
		e.wall, e.cpu, e.spans = nil, nil, nil
	}
	before := d.asked.Load()
	run(*costTurns)
	for _, share := range []float64{0.5, 0.99} {
		t.Logf("%v of %d ends of turns: with a remote %v of processor time, %v; without %v, %v; %.3f x and %.3f x",
			share, *costTurns, in(on.cpu, share), in(on.wall, share), in(off.cpu, share), in(off.wall, share),
			float64(in(on.cpu, share))/float64(in(off.cpu, share)),
			float64(in(on.wall, share))/float64(in(off.wall, share)))
	}
	t.Logf("%d requests meanwhile; status: %s", d.asked.Load()-before, on.must("remote", "status"))
	on.calls(off, run)
	on.requests(d)
}

var tracedCall = regexp.MustCompile(`^\d+ +(\d+)\.(\d{6}) (\w+)\(`)

// calls counts system calls in the ends of turns.
func (e *costed) calls(off *costed, run func(int)) {
	const turns = 60
	strace, err := exec.LookPath("strace")
	if err != nil {
		e.t.Log("there is no strace")
		return
	}
	both := []*costed{e, off}
	var files []string
	var traces []*exec.Cmd
	for i, x := range both {
		x.spans = nil
		files = append(files, filepath.Join(e.t.TempDir(), fmt.Sprint(i)))
		c := exec.Command(strace, "-f", "-qq", "-ttt", "-e", "signal=none", "-e", "trace=%file,%desc,%network",
			"-o", files[i], "-p", fmt.Sprint(x.pid))
		if err := c.Start(); err != nil {
			e.t.Fatal(err)
		}
		traces = append(traces, c)
	}
	time.Sleep(2 * time.Second)
	run(turns)
	for _, c := range traces {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	}
	for i, x := range both {
		text, err := os.ReadFile(files[i])
		if err != nil {
			e.t.Fatal(err)
		}
		all, syncs := make([]int, len(x.spans)), make([]int, len(x.spans))
		for line := range strings.Lines(string(text)) {
			m := tracedCall.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			sec, _ := strconv.ParseInt(m[1], 10, 64)
			usec, _ := strconv.ParseInt(m[2], 10, 64)
			at := time.UnixMicro(sec*1e6 + usec)
			for n, span := range x.spans {
				if at.Before(span[0]) || at.After(span[1]) || m[3] == "epoll_pwait" {
					continue
				}
				all[n]++
				if strings.Contains(m[3], "sync") {
					syncs[n]++
				}
			}
		}
		slices.Sort(all)
		slices.Sort(syncs)
		e.t.Logf("%s a remote: calls in the end of a turn %d (%d to %d), syncs %d (%d to %d), of %d turns",
			[]string{"with", "without"}[i], all[turns/2], all[0], all[turns-1], syncs[turns/2], syncs[0],
			syncs[turns-1], turns)
	}
}

// requests counts what the engine asks of the remote for a turn that comes alone.
func (e *costed) requests(d *door) {
	for n := range 3 {
		e.must("remote", "wait")
		time.Sleep(3 * time.Second)
		before := d.asked.Load()
		e.turn(-n)
		time.Sleep(6 * time.Second)
		e.t.Logf("a turn that comes alone: %d requests", d.asked.Load()-before)
	}
}

// TestCloneAsks counts what the start of a sandbox asks of a remote: LIST costs twelve times as much as other reads.
func TestCloneAsks(t *testing.T) {
	server := remotetest.Versity(t)
	d := newDoor(t, server)
	link := "s3://" + server.Bucket + "/x"
	env := append(server.Env(), "AWS_ENDPOINT_URL="+d.URL)
	u := &remoteUser{t, t.TempDir(), env}
	dir := filepath.Join(u.home, "p")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 15 { // more than an entry has room for, and one pack
		b := make([]byte, 400_000)
		noise.Read(b)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.must(dir, "snapshot", "--session", "s1")
	u.must(dir, "remote", "init", link)
	u.must(dir, "remote", "add", "team", link)
	u.must(dir, "remote", "push")
	other := &remoteUser{t, t.TempDir(),
		append(env, "BOO_IDENTITY="+filepath.Join(u.home, ".config", "snapctl", "identity.age"))}
	for _, c := range []struct {
		flags         string
		asked, listed int64
	}{
		{"--session=s1", 9, 3},
		{"--lazy", 13, 3},
		{"--base=" + filepath.Join(other.home, "base"), 13, 3}, // which it makes
		{"--base=" + filepath.Join(other.home, "base"), 12, 3},
	} {
		asked, listed := d.asked.Load(), d.listed.Load()
		other.must(other.home, "clone", "-q", link, filepath.Join(t.TempDir(), "w"), c.flags)
		asked, listed = d.asked.Load()-asked, d.listed.Load()-listed
		if asked != c.asked || listed != c.listed {
			t.Errorf("clone %s asks %d times, and %d of these are LIST: want %d and %d", c.flags, asked, listed,
				c.asked, c.listed)
		}
	}
}

// TestPusherAsks counts what an engine asks of a remote for each turn: it looks whether it is still that remote, puts
// an entry, and looks for prunes.
func TestPusherAsks(t *testing.T) {
	server := remotetest.Versity(t)
	d := newDoor(t, server)
	link := "s3://" + server.Bucket + "/x"
	u := &remoteUser{t, t.TempDir(), append(server.Env(), "AWS_ENDPOINT_URL="+d.URL)}
	dir := filepath.Join(u.home, "p")
	step := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		u.must(dir, "snapshot", "--session", "s1")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	step("first")
	u.must(dir, "remote", "init", link)
	u.must(dir, "remote", "add", "team", link)
	p := openPusher(u, dir)
	if !p.push(t.Context()) {
		t.Fatal("a push has failed")
	}
	push := func(want int64) {
		t.Helper()
		before := d.asked.Load()
		if !p.push(t.Context()) {
			t.Error("a push has failed")
		}
		if n := d.asked.Load() - before; n != want {
			t.Errorf("a push asks %d times, want %d", n, want)
		}
	}
	step("second")
	push(3)
	push(0)
	u.must(dir, "remote", "rotate")
	step("third")
	if !p.push(t.Context()) {
		t.Error("a push behind a rotation has failed")
	}
	step("fourth")
	push(3)
	server.Kill()
	step("fifth")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if p.push(ctx) {
		t.Error("a push to a dead server was done")
	}
	server.Start(t)
	if !p.push(t.Context()) {
		t.Error("a push has failed")
	}
	if said := u.must(dir, "remote", "check", "--data"); !strings.Contains(said, "5 entries, 5 records") {
		t.Errorf("check says %s", said)
	}
}
