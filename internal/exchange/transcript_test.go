package exchange

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/store"
)

// TestLogParts has a log go along piece by piece, also where it was written anew.
func TestLogParts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.jsonl")
	p := &Pusher{result: new(PushResult)}
	records := []*store.Snapshot{{Log: file}}
	f := new(Fetched)
	l := new(FetchedLine)
	at := new(logAt)
	push := func(want string) {
		t.Helper()
		e := new(lines.Entry)
		at = p.transcript(at, e, records)
		l.Entries = append(l.Entries, e)
		f.Lines = []*FetchedLine{l}
		if got := f.Log(l); string(got) != want {
			t.Errorf("after %d entries the log is %q, want %q", len(l.Entries), got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	push("") // it is not there yet
	write("one\n")
	push("one\n")
	push("one\n")
	if e := l.Entries[2]; e.Log != nil {
		t.Errorf("nothing new is %q", e.Log.Text)
	}
	write("one\ntwo\n")
	push("one\ntwo\n")
	if e := l.Entries[3]; string(e.Log.Text) != "two\n" {
		t.Errorf("what is new is %q", e.Log.Text)
	}
	write("another\n")
	push("another\n")
	write("an") // it was cut off
	push("an")
	p.NoLog = true
	write("secret")
	push("an")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.NoLog = false
	push("an")
	if len(p.result.Unread) > 0 {
		t.Errorf("told: %q", p.result.Unread)
	}
	records[0].Log = filepath.Dir(file)
	push("an")
	if len(p.result.Unread) != 1 {
		t.Errorf("told of a directory: %q", p.result.Unread)
	}
}

// TestTranscript has the log of a session come along with a clone.
func TestTranscript(t *testing.T) {
	a, b := newMachine(t), remotetest.NewMem()
	log := filepath.Join(a.root, "pi.jsonl")
	a.log = log
	text := []byte(`{"type":"session","version":3,"id":"s1","timestamp":"2026-11-26T00:00:00Z","cwd":"/p"}` + "\n")
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "one", func() { a.write("f", "one") })
	a.mustPush(b)
	repo, err := openRepo(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fetch(t.Context(), repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	goOn, _ := f.Newest()
	if got := f.Log(goOn[0]); !bytes.Equal(got, text) {
		t.Errorf("log %q, want %q", got, text)
	}
}
