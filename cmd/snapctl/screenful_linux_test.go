package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A terminal gets a screenful of what a restore did, and how much more there is; -v and a
// program get all.
func TestScreenful(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	const files = 40
	getenv := func(string) string { return "" }
	var none bytes.Buffer
	snapshot := func() {
		if code := run(t.Context(), []string{"--store", stores, "--root", dir, "snapshot"}, nil,
			&none, &none, getenv); code != exitDone {
			t.Fatalf("snapshot: exit code %d\n%s", code, &none)
		}
	}
	for _, content := range []string{"one", "two"} {
		for i := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d", i)), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		snapshot()
	}
	for _, tt := range []struct {
		rows     uint16
		terminal bool
		flag     string
		lines    int
	}{
		{rows: 12, terminal: true, lines: 8},
		{rows: 0, terminal: true, lines: 20}, // it does not say how large it is
		{rows: 100, terminal: true, lines: files},
		{rows: 12, terminal: true, flag: "-v", lines: files},
		{rows: 12, lines: files},
	} {
		user, program := terminal(t)
		if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ,
			&unix.Winsize{Col: 80, Row: tt.rows}); err != nil {
			t.Skip(err)
		}
		args := []string{"--store", stores, "--root", dir, "restore", "-n", "@~1"}
		if tt.flag != "" {
			args = append(args, tt.flag)
		}
		var piped bytes.Buffer
		out := io.Writer(&piped)
		if tt.terminal {
			out = program
		}
		code := run(t.Context(), args, program, out, &none, getenv)
		program.Close()
		b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
		text := string(b) + piped.String()
		if got := strings.Count(text, " f"); code != exitDone || got != tt.lines {
			t.Errorf("%+v: exit code %d, %d lines\n%s", tt, code, got, text)
		}
		more := fmt.Sprintf("… would restore %d more (-v lists them)", files-tt.lines)
		if strings.Contains(text, more) != (tt.lines < files) {
			t.Errorf("%+v: want %q if lines are left out\n%s", tt, more, text)
		}
	}
}
