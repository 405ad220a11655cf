package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// instead has a script stand in for snapctl.
func instead(t *testing.T, script string) {
	was := snapctl
	snapctl = filepath.Join(t.TempDir(), "snapctl")
	t.Cleanup(func() { snapctl = was })
	if err := os.WriteFile(snapctl, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// asked says what is done when a dialog is open, and how it is answered.
func (a *agent) asked(fn func(title string, options []any) string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = fn
}

// TestPiGarbage: an engine that is none is no harm to pi.
func TestPiGarbage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, script := range map[string]string{
			"text":    "echo usage: hello\nsleep 2\nexit 2\n",
			"null":    "echo null\nsleep 1\nexit 2\n",
			"no data": `while read l; do echo "$l" | sed 's/.*"id":\([0-9]*\).*/{"id":\1,"type":"response","success":true}/'; done` + "\n",
			"old":     `while read l; do echo "$l" | sed 's/.*"id":\([0-9]*\).*/{"id":\1,"type":"response","success":true,"data":{"protocol":0,"version":"old"}}/'; done` + "\n",
		} {
			t.Run(name, func(t *testing.T) {
				instead(t, script)
				a := w.start()
				a.prompt("write a.txt " + name + " ;; fin")
				w.has("a.txt", name+"\n")
				if said := a.said(); !strings.Contains(said, "No file snapshots") {
					t.Errorf("shown: %s", said)
				}
				a.stop()
			})
		}
	})
}

// TestPiHangingEnd: pi ends, whatever the engine does.
func TestPiHangingEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		instead(t, "exec sleep 600\n")
		a := w.start()
		a.begin("write a.txt a ;; fin")
		time.Sleep(time.Second)
		a.stop()
		if state := a.cmd.ProcessState; state.String() == "signal: killed" {
			t.Error("it had to be killed")
		}
	})
}

// TestPiBlocked: what the user does while another extension asks is the user's,
// if the answer is no.
func TestPiBlocked(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		gate, err := filepath.Abs("testdata/gate.ts")
		if err != nil {
			t.Fatal(err)
		}
		w.write("a.txt", "0\n")
		w.write("own.txt", "0\n")
		a := w.start("--extension", gate)
		a.asked(func(string, []any) string {
			w.write("a.txt", "the user's\n")
			w.write("own.txt", "the user's\n")
			return ""
		})
		a.prompt("write a.txt agent ;; bash echo b > b.txt ;; fin")
		w.has("a.txt", "the user's\n", "b.txt", "b\n")
		a.goTo(a.user(1), both)
		w.has("a.txt", "the user's\n", "own.txt", "the user's\n", "b.txt", "-")
	})
}

// TestPiStaleChoice: what the user has chosen for one move is for no other.
func TestPiStaleChoice(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("a.txt", "0\n")
		a := w.start()
		a.prompt("write a.txt one ;; fin")
		first := a.user(1)
		w.write("a.txt", "precious\n")
		started, release := make(chan bool), make(chan bool)
		w.model.onPause(func() { started <- true; <-release })
		a.asked(func(_ string, options []any) string { // another client prompts meanwhile
			go a.send(map[string]any{"id": "other", "type": "prompt", "message": "pause ;; fin"})
			<-started
			for _, o := range options {
				if strings.HasPrefix(fmt.Sprint(o), "Files and conversation, and overwrite my edits") {
					return fmt.Sprint(o)
				}
			}
			return ""
		})
		go a.send(map[string]any{"id": "rewind", "type": "prompt", "message": "/rewind " + first})
		a.hears("the agent is at work")
		close(release)
		a.settle()
		w.has("a.txt", "precious\n")
		a.goTo(first) // it is asked again, and there is no answer
		w.has("a.txt", "precious\n")
	})
}

// TestPiNames: names of files, and what is in them, do not act on the terminal.
func TestPiNames(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt(`bash echo x > "$(printf 'a\nDeleted 999 files: b')"; echo x > "$(printf 'e\033[31mred')" ;; fin`)
		said := a.hears("red")
		if strings.Contains(said, "\nDeleted") || strings.Contains(said, "\x1b") {
			t.Errorf("shown: %q", said)
		}
		a.prompt(`bash printf '\033[31mred' > esc ;; fin`)
		a.slash("/diff esc")
		if said := a.hears("+\\u001b"); strings.Contains(said, "\x1b") {
			t.Errorf("shown: %q", said)
		}
		a.answers("Conv") // no choice goes by this name
		a.slash("/rewind " + a.user(1) + " constructor")
		if entries, err := os.ReadDir(w.dir); err != nil || len(entries) != 3 {
			t.Errorf("%d files are left, %v", len(entries), err)
		}
	})
}
