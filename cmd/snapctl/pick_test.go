package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/cmd/snapctl/internal/picker"
)

// newPickSource returns a session with two turns: the first changed three places of a, the second
// another place of it and made b. do runs a command, on a text as its stdin.
func newPickSource(t *testing.T) (s *pickSource, holds func(want string), do func(stdin string, args ...string)) {
	dir, stores := t.TempDir(), t.TempDir()
	getenv := func(name string) string { return map[string]string{"BOO_ENGINE": "off", "HOME": stores}[name] }
	do = func(stdin string, args ...string) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "stdin")
		if err := os.WriteFile(name, []byte(stdin), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var said bytes.Buffer
		args = append([]string{"--store", stores, "--root", dir}, args...)
		if code := run(t.Context(), args, in, new(bytes.Buffer), &said, getenv); code != exitDone {
			t.Fatalf("%q: exit code %d, %s", args, code, &said)
		}
	}
	write := func(name, text string) {
		t.Helper()
		text = strings.ReplaceAll(text, " ", "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "1 2 3 4 5 6 7 8 9")
	do("", "snapshot", "--session", "s")
	write("a", "A 2 3 4 B 6 7 8 C")
	do("", "snapshot", "--session", "s", "--label", "three")
	write("a", "A 2 X 4 B 6 7 8 C")
	write("b", "new")
	do("", "snapshot", "--session", "s")
	a := &app{getenv: getenv, stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	a.flags.store, a.flags.root = stores, dir
	if err := a.prepare(a.rootCommand()); err != nil {
		t.Fatal(err)
	}
	a.flags.store, a.flags.root = stores, dir
	holds = func(want string) {
		t.Helper()
		var got []string
		for _, name := range []string{"a", "b"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			got = append(got, strings.ReplaceAll(string(b), "\n", ""))
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("a and b hold %s, want %s", text, want)
		}
	}
	return &pickSource{app: a, session: "s", isAlone: true}, holds, do
}

// hunkOf returns the ID of the hunk of a turn that has a text.
func hunkOf(t *testing.T, s *pickSource, turn, text string) string {
	t.Helper()
	list, _, err := s.Hunks(t.Context(), turn, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		if strings.Contains(h.Text, text) {
			return h.ID
		}
	}
	t.Fatalf("%s has no hunk with %q: %v", turn, text, list)
	return ""
}

// What is marked is taken back, and nothing else, in one restore that undo takes back.
func TestPickSource(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  func(s *pickSource) *picker.Ask
		want string
	}{
		{"a turn", func(*pickSource) *picker.Ask {
			return &picker.Ask{Do: picker.TakeBack, Marks: []picker.Mark{{Turn: "turn:0"}}}
		}, "12X456789|new"},
		{"turns", func(*pickSource) *picker.Ask {
			return &picker.Ask{Do: picker.TakeBack, Marks: []picker.Mark{{Turn: "turn:1"}, {Turn: "turn:0"}}}
		}, "123456789|"},
		{"a hunk", func(s *pickSource) *picker.Ask {
			marks := []picker.Mark{{Turn: "turn:0", Hunks: []string{hunkOf(t, s, "turn:0", "+B")}}}
			return &picker.Ask{Do: picker.TakeBack, Marks: marks}
		}, "A2X45678C|new"},
		{"a turn, and a hunk of another", func(s *pickSource) *picker.Ask {
			marks := []picker.Mark{{Turn: "turn:1"}, {Turn: "turn:0", Hunks: []string{hunkOf(t, s, "turn:0", "+C")}}}
			return &picker.Ask{Do: picker.TakeBack, Marks: marks}
		}, "A234B6789|"},
		{"hunks of two", func(s *pickSource) *picker.Ask {
			return &picker.Ask{Do: picker.TakeBack, Marks: []picker.Mark{
				{Turn: "turn:1", Hunks: []string{hunkOf(t, s, "turn:1", "+new")}},
				{Turn: "turn:0", Hunks: []string{hunkOf(t, s, "turn:0", "+A"), hunkOf(t, s, "turn:0", "+C")}}}}
		}, "12X4B6789|"},
		{"go back", func(*pickSource) *picker.Ask {
			return &picker.Ask{Do: picker.GoBack, Rev: "turn:0"}
		}, "A234B678C|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, holds, _ := newPickSource(t)
			ask := tt.ask(s)
			ask.Preview = true
			would, err := s.Do(t.Context(), ask)
			isSaid := err == nil && strings.Contains(fmt.Sprint(would.Lines), "would ")
			if !isSaid || would.IsNothing || would.Record != 0 {
				t.Fatalf("preview: %+v, %v", would, err)
			}
			holds("A2X4B678C|new")
			ask.Preview = false
			did, err := s.Do(t.Context(), ask)
			if err != nil || did.Record == 0 {
				t.Fatalf("%+v, %v", did, err)
			}
			holds(tt.want)
			back, err := s.Do(t.Context(), &picker.Ask{Do: picker.Undo})
			if err != nil || back.Undoes != did.Record {
				t.Fatalf("undo: %+v of %d, %v", back, did.Record, err)
			}
			holds("A2X4B678C|new")
			if again, err := s.Do(t.Context(), &picker.Ask{Do: picker.Redo}); err != nil || again.Undoes != back.Record {
				t.Fatalf("redo: %+v of %d, %v", again, back.Record, err)
			}
			holds(tt.want)
		})
	}
}

// A row is what log says of a turn, and of what happened between turns.
func TestPickRows(t *testing.T) {
	s, _, do := newPickSource(t)
	do("", "--session", "s", "revert", "-y", "0")
	var got []string
	for r, err := range s.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		state, _, _ := strings.Cut(r.State, " 2")
		got = append(got, fmt.Sprint(r.Name, "/", r.Text, "/", r.Files, "/", state, "/", r.IsTurn, r.IsBack))
	}
	want := []string{`restore/took back turn 0/1/took back turn 0/false false`, `turn 1//2//true false`,
		`turn 0/"three"/1/taken back/true true`, `start//0//false false`}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// What cannot be done is an error in words, or a turn that has to end first.
func TestPickRefused(t *testing.T) {
	s, holds, do := newPickSource(t)
	for _, tt := range []struct {
		marks []picker.Mark
		want  string
	}{
		{[]picker.Mark{{Turn: "turn:7"}}, "not found"},
		{[]picker.Mark{{Turn: "turn:0", Hunks: []string{"ffffffff"}}, {Turn: "turn:1"}}, "is not in it any more\ntake it off"},
	} {
		_, err := s.Do(t.Context(), &picker.Ask{Do: picker.TakeBack, Marks: tt.marks})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.marks, err, tt.want)
		}
	}
	do(fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"UserPromptSubmit","prompt":"sort it"}`, s.app.flags.root),
		"hook", "claude")
	ask := &picker.Ask{Do: picker.TakeBack, Marks: []picker.Mark{{Turn: "turn:1"}}}
	answer, err := s.Do(t.Context(), ask)
	if err != nil || !strings.Contains(answer.Open, `("sort it") has not ended`) {
		t.Errorf("in a turn: %+v, %v", answer, err)
	}
	holds("A2X4B678C|new")
	ask.EndTurn = true
	if answer, err := s.Do(t.Context(), ask); err != nil || answer.Record == 0 {
		t.Errorf("when the turn ends first: %+v, %v", answer, err)
	}
	holds("A234B678C|")
}

// A turn that has not ended is a row, and can be taken back: also the first one, which no list has.
func TestPickOpenTurn(t *testing.T) {
	s, holds, _ := newPickSource(t)
	root := s.app.flags.root
	hook := func(event, more string) {
		t.Helper()
		text := fmt.Sprintf(`{"session_id":"claude","cwd":%q,"hook_event_name":%q%s}`, root, event, more)
		in := filepath.Join(t.TempDir(), "stdin")
		if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		args := []string{"--store", s.app.flags.store, "hook", "claude"}
		if code := run(t.Context(), args, f, new(bytes.Buffer), new(bytes.Buffer), s.app.getenv); code != exitDone {
			t.Fatalf("%s: exit code %d", event, code)
		}
	}
	hook("SessionStart", `,"source":"startup"`)
	hook("UserPromptSubmit", `,"prompt":"change b"`)
	hook("PreToolUse", `,"tool_name":"Bash","tool_input":{},"tool_use_id":"1"`)
	if err := os.WriteFile(filepath.Join(root, "b"), []byte("agent\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hook("PostToolUse", `,"tool_name":"Bash","tool_input":{},"tool_response":{},"tool_use_id":"1"`)
	s.session = "claude"
	var rows []picker.Row
	for r, err := range s.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if len(rows) != 2 || rows[0].Rev != "turn:0" || rows[0].Text != "change b" || !rows[0].IsTurn ||
		rows[0].State != "has not ended" {
		t.Fatalf("rows: %+v", rows)
	}
	_, _, err := s.Hunks(t.Context(), "turn:0", 3, "")
	if err == nil || !strings.Contains(err.Error(), "not recorded yet") {
		t.Errorf("its hunks: %v", err)
	}
	ask := picker.Ask{Do: picker.TakeBack, Marks: []picker.Mark{{Turn: "turn:0"}}, Preview: true}
	if a, err := s.Do(t.Context(), &ask); err != nil || a.Open == "" {
		t.Errorf("before it ends: %+v, %v", a, err)
	}
	ask.EndTurn = true
	a, err := s.Do(t.Context(), &ask)
	if err != nil || a.IsNothing || !strings.Contains(strings.Join(a.Lines, "\n"), "would restore b") {
		t.Errorf("preview: %+v, %v", a, err)
	}
	holds("A2X4B678C|agent")
	ask.Preview = false
	if a, err := s.Do(t.Context(), &ask); err != nil || a.IsPart {
		t.Errorf("done: %+v, %v", a, err)
	}
	holds("A2X4B678C|new")
}
