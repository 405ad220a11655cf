//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeline starts it, and returns its first line, the process, and what waits for its end.
func (r *runner) timeline(args ...string) (line string, process *os.Process, wait func() error) {
	r.t.Helper()
	cmd := r.command(append([]string{"timeline"}, args...)...)
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cmd.Process.Kill() })
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.t.Fatalf("timeline says %q: %v: %v", line, err, cmd.Wait())
	}
	return strings.TrimSuffix(line, "\n"), cmd.Process, cmd.Wait
}

// TestTimeline: the first line is the address, the token opens it, and SIGTERM ends it at once, also
// while somebody listens.
func TestTimeline(t *testing.T) {
	r := newRunner(t)
	line, process, wait := r.timeline()
	m := regexp.MustCompile(`^(http://127\.0\.0\.1:[0-9]+)/#([A-Z2-7]{26})$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the first line is %q", line)
	}
	q, err := http.NewRequest("GET", m[1]+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+m[2])
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("events: %v, %v", resp, err)
	}
	defer resp.Body.Close()
	if hello, err := bufio.NewReader(resp.Body).ReadString('\n'); !strings.Contains(hello, `"type":"hello"`) {
		t.Errorf("events begin with %q, %v", hello, err)
	}
	other, _, _ := r.timeline("--json")
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(other), &said); err != nil || !strings.HasPrefix(said.URL, "http://127.0.0.1:") ||
		strings.HasSuffix(said.URL, m[2]) {
		t.Errorf("with --json: %q, %v", other, err)
	}
	began := time.Now()
	process.Signal(syscall.SIGTERM)
	if err := wait(); err != nil {
		t.Errorf("it ended: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it has ended after %v", took)
	}
	if list, _ := os.ReadDir(r.home + "/.boo/file-store"); len(list) > 0 {
		t.Errorf("looking has made %v", list)
	}
}

// TestTimelinePort: a port that is named is the one, or an error.
func TestTimelinePort(t *testing.T) {
	r := newRunner(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if code, _, _ := r.say("timeline", "--port", port); code != exitEnvironment {
		t.Errorf("a port that is in use: code %d", code)
	}
	l.Close()
	if line, _, _ := r.timeline("--port", port); !strings.HasPrefix(line, "http://127.0.0.1:"+port+"/#") {
		t.Errorf("port %s: %q", port, line)
	}
	for _, bad := range []string{"-1", "65536", "x"} {
		if code, _, _ := r.say("timeline", "--port", bad); code != exitUsage {
			t.Errorf("port %s: code %d", bad, code)
		}
	}
}

// TestTimelineOpen: no process has the token among its arguments, which every user of the machine can read. The browser
// gets a file that leads to the address, is for this user alone, and goes with the server.
func TestTimelineOpen(t *testing.T) {
	r := newRunner(t)
	bin, said := t.TempDir(), filepath.Join(t.TempDir(), "said")
	for _, name := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + said + ".tmp && mv " + said + ".tmp " + said + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	address, process, wait := r.timeline("--open")
	var args []byte
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if args, err = os.ReadFile(said); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("no browser was opened")
		}
	}
	_, token, _ := strings.Cut(address, "#")
	if strings.Contains(string(args), token) {
		t.Errorf("the token is among the arguments of a process: %s", args)
	}
	name := strings.TrimSuffix(string(args), "\n")
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), address) || st.Mode() != 0o600 {
		t.Errorf("the browser gets %q, %v, mode %v", b, err, st.Mode())
	}
	process.Signal(syscall.SIGTERM)
	if err := wait(); err != nil {
		t.Errorf("it ended: %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}
