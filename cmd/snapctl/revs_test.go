//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/manager"
)

// TestRevsOfSessions: a REV that names a turn, or goes back from one, says whose it is; a label that was
// given before a session began is there for it. What cannot be is said, with what helps.
func TestRevsOfSessions(t *testing.T) {
	r := &runner{t: t, home: t.TempDir(), project: t.TempDir()}
	r.write("a", "start\n")
	r.must("snapshot", "--label", "named")
	turn := func(session string, texts ...string) (entries []string) {
		t.Helper()
		m, err := manager.Open(t.Context(), r.project, &manager.Options{Session: session,
			StoreRoot: filepath.Join(r.home, ".boo", "file-store")})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, text := range texts {
			_, err := m.OnTurnStart(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.write("a", text)
			end, err := m.OnTurnEnd(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, end.EntryID)
		}
		return entries
	}
	one := turn("one", "one\n", "two\n")
	two := turn("two", "three\n")
	for rev, want := range map[string]string{one[1] + "~": "one\n", one[1] + "~2": "start\n", one[0] + "~": "start\n",
		two[0] + "~": "two\n", "start": "two\n", "named": "start\n"} {
		if got := r.must("cat", rev, "a"); got != want {
			t.Errorf("%s: %q, want %q", rev, got, want)
		}
	}
	if got := r.must("--session", "one", "cat", "named", "a"); got != "start\n" {
		t.Errorf("a label that another session has: %q", got)
	}
	if _, _, said := r.say("restore", "-n", one[1]+"~"); !strings.Contains(said, "session one, of which that is") {
		t.Errorf("restore: %s", said)
	}
	for _, c := range []struct{ args, want, not string }{
		{"ls start~", `"start" is not the end of a turn`, "no snapshots"},
		{"find -e (", "see 'snapctl find --help'", "backslash"},
		{"blame -L 1,1 -L 1,1 a", "-L is there 2 times", ""},
	} {
		code, _, said := r.say(strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(said, c.want) || c.not != "" && strings.Contains(said, c.not) {
			t.Errorf("%s: %d, %s", c.args, code, said)
		}
	}
}

// TestFindContested: of what several turns may have written that is said also while one of them goes on.
func TestFindContested(t *testing.T) {
	r := &runner{t: t, home: t.TempDir(), project: t.TempDir()}
	var managers []*manager.FileSnapshotManager
	for _, session := range []string{"one", "two"} {
		m, err := manager.Open(t.Context(), r.project, &manager.Options{Session: session,
			StoreRoot: filepath.Join(r.home, ".boo", "file-store")})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		managers = append(managers, m)
	}
	r.write("a", "both\n")
	if _, err := managers[1].OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got := r.must("find", "both")
	for _, want := range []string{"  one  goes on  contested  a:1  0 → 1  both",
		"  two  contested  a:1  0 → 1  both"} {
		if !strings.Contains(got, want) {
			t.Errorf("find: %q is not in\n%s", want, got)
		}
	}
}
