package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pickedScreen is what a program has printed on a terminal.
type pickedScreen struct {
	mu   sync.Mutex
	text []byte
	user *os.File
	t    *testing.T
}

func (s *pickedScreen) read() {
	b := make([]byte, 4096)
	for {
		n, err := s.user.Read(b)
		s.mu.Lock()
		s.text = append(s.text, b[:n]...)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// types types keys, and waits until something is printed after that.
func (s *pickedScreen) types(keys, until string) {
	s.t.Helper()
	s.mu.Lock()
	s.text = nil
	s.mu.Unlock()
	if _, err := s.user.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	s.waits(until)
}

func (s *pickedScreen) waits(until string) {
	s.t.Helper()
	for range 3000 {
		s.mu.Lock()
		isThere := bytes.Contains(s.text, []byte(until))
		s.mu.Unlock()
		if isThere {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("no %q on the screen: %q", until, s.text)
}

// One hunk is marked, looked at, taken back, and brought back, byte for byte.
func TestPick(t *testing.T) {
	t.Parallel()
	dir, stores := t.TempDir(), t.TempDir()
	getenv := func(name string) string {
		return map[string]string{"BOO_ENGINE": "off", "TERM": "xterm-256color", "HOME": stores}[name]
	}
	file := filepath.Join(dir, "a")
	one := "1\n2\n3\n4\n5\n6\n7\n8\n9\r\n\xff"
	two, half := strings.NewReplacer("1", "one", "9", "nine").Replace(one), strings.Replace(one, "9", "nine", 1)
	for _, text := range []string{one, two} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"--store", stores, "--root", dir, "snapshot"}
		if code := run(t.Context(), args, nil, new(bytes.Buffer), new(bytes.Buffer), getenv); code != exitDone {
			t.Fatalf("snapshot: exit code %d", code)
		}
	}
	holds := func(when, want string) {
		t.Helper()
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("%s a holds %q, %v, want %q", when, got, err, want)
		}
	}
	user, program := terminal(t)
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24}); err != nil {
		t.Skip(err)
	}
	ended := make(chan int)
	go func() {
		ended <- run(t.Context(), []string{"--store", stores, "--root", dir, "pick"}, program, program, program, getenv)
	}()
	s := &pickedScreen{user: user, t: t}
	go s.read()
	s.waits("nine")
	s.types("\tj ", "marked:")
	s.types("\r", "merge")
	holds("before it is done,", two)
	s.types("\r", "takes")
	holds("when the first hunk is taken back,", half)
	s.types("u", "undo")
	holds("after u", two)
	s.types("r", "takes")
	holds("after r", half)

	// What is shown is done, also to a file that would be merged before it was edited, and after.
	edit := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(text, []byte(from), []byte(to), 1), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit("5", "mine")
	s.types("h\r", "merge")
	edit("6", "mine, too")
	s.types("\r", "meanwhile")
	s.types("\r", "takes")
	holds("after a preview that was shown again,",
		strings.NewReplacer("5", "mine", "6", "mine, too").Replace(one))
	s.types("q", "\x1b[?1049l")
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// Where there is no terminal it says so.
func TestPickNowhere(t *testing.T) {
	var said bytes.Buffer
	code := run(t.Context(), []string{"--store", t.TempDir(), "pick"}, nil, new(bytes.Buffer), &said, os.Getenv)
	if code != exitUsage || !strings.Contains(said.String(), "takes the whole screen of a terminal") {
		t.Errorf("exit code %d, says %q", code, said.String())
	}
}
