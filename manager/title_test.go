package manager

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/retain"
)

// titled runs a turn that says what it is for.
func (b *bench) titled(m *FileSnapshotManager, turn *Turn, fn func()) {
	b.Helper()
	if _, err := m.OnTurnStart(b.Context(), turn); err != nil {
		b.Fatal(err)
	}
	fn()
	if _, err := m.OnTurnEnd(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
}

// titles lists what the turns of the session were for, newest first.
func (b *bench) titles(m *FileSnapshotManager) (list []string) {
	b.Helper()
	for mo, err := range m.Timeline(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		if mo.TurnIndex >= 0 {
			list = append(list, strings.Join([]string{mo.Title, mo.Agent, mo.Model}, "|"))
		}
	}
	return list
}

// openOnce returns a manager for who closes it before the test has ended.
func (b *bench) openOnce(session string) *FileSnapshotManager {
	b.Helper()
	m, err := Open(b.Context(), b.dir, &Options{StoreRoot: b.stores, Session: session})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) wantTitles(m *FileSnapshotManager, want ...string) {
	b.Helper()
	if got := b.titles(m); strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.Errorf("titles %q, want %q", got, want)
	}
}

// What a turn is for is kept with it, whether it changed something, was cut off or went
// on, and stays as long as its record does.
func TestTitle(t *testing.T) {
	b := newBench(t)
	m := b.openOnce("s")
	b.initialize(m)
	b.titled(m, &Turn{Title: " make a\nand more ", Agent: "claude", Model: "m-1"}, func() { b.write("a", "1") })
	b.titled(m, &Turn{Title: "look around"}, func() {})
	b.titled(m, &Turn{Title: "make b", Agent: "pi"}, func() { b.write("b", "1") })
	b.titled(m, &Turn{Continues: true}, func() { b.write("b", "2") })
	if _, err := m.OnTurnStart(t.Context(), &Turn{Title: "never ended"}); err != nil {
		t.Fatal(err)
	}
	b.write("c", "1")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = b.open("s")
	b.titled(m, nil, func() { b.write("d", "1") })
	want := []string{"||", "never ended||", "make b|pi|", "make b|pi|", "look around||", "make a\nand more|claude|m-1"}
	b.wantTitles(m, want...)
	list, err := m.Sessions(t.Context(), false)
	if err != nil || len(list) != 1 || list[0].Title != "make a\nand more" || list[0].Agent != "claude" {
		t.Errorf("Sessions = %+v, %v", list, err)
	}
	d, err := m.TurnDiff(t.Context(), "turn:0")
	if err != nil || d.Title != "make a\nand more" || d.Model != "m-1" {
		t.Errorf("TurnDiff = %+v, %v", d, err)
	}
	touch, err := m.WhereIs(t.Context(), "b")
	if err != nil || touch.Title != "make b" || touch.Agent != "pi" {
		t.Errorf("WhereIs = %+v, %v", touch, err)
	}

	// A prune keeps it with its record, and takes it along.
	b.prune(m.store, &retain.Retention{KeepLast: 4})
	b.wantTitles(m, "||", "never ended||", "make b|pi|", "|pi|", "||", "|claude|m-1")
	if list, err = m.Sessions(t.Context(), false); err != nil || list[0].Title != "" {
		t.Errorf("Sessions after a prune = %+v, %v", list, err)
	}
}

func TestTitleCut(t *testing.T) {
	long := strings.Repeat("x", maxTitle-1) + "ä"
	for _, c := range []struct{ in, want string }{
		{"", ""}, {" a\n", "a"}, {"a\xffb", "a\uFFFDb"},
		{long, long[:maxTitle-1]}, {strings.Repeat("y", maxTitle+1), strings.Repeat("y", maxTitle)},
	} {
		if got := cut(c.in, maxTitle); got != c.want {
			t.Errorf("cut(%.20q) has %d bytes, want %d", c.in, len(got), len(c.want))
		}
	}
}

func TestNoPrompts(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.NoPrompts = true })
	b.initialize(m)
	b.titled(m, &Turn{Title: "the secret", Agent: "claude"}, func() { b.write("a", "1") })
	b.wantTitles(m, "|claude|")
	if files := b.filesWith("the secret"); len(files) > 0 {
		t.Errorf("it is in %q", files)
	}
}

// A title that is lost is said, and costs nothing else; one that is forgotten leaves no
// trace, also in what is said of a turn that is open.
func TestTitleLost(t *testing.T) {
	b := newBench(t)
	var said strings.Builder
	m := b.open("s", func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	b.initialize(m)
	b.titled(m, &Turn{Title: "secret, the first"}, func() { b.write("a", "1") })
	b.titled(m, &Turn{Title: "secret, the other"}, func() { b.write("a", "2") })
	other := b.openOnce("other")
	b.initialize(other)
	b.titled(other, &Turn{Title: "of the other session"}, func() { b.write("b", "2") })
	if err := other.Close(); err != nil { // it appends to a pack of its own
		t.Fatal(err)
	}
	if _, err := m.OnTurnStart(t.Context(), &Turn{Title: "secret, of the open turn"}); err != nil {
		t.Fatal(err)
	}
	if _, err := retain.PlanForget(t.Context(), m.store,
		&retain.ForgetOptions{Prompts: true, Session: "nobody"}); !errors.Is(err, retain.ErrNothingToForget) {
		t.Errorf("forget prompts of nobody: %v", err)
	}
	plan := b.forget(m, &retain.ForgetOptions{Prompts: true, Session: "s"})
	if len(plan.Blobs) != 2 || plan.Blobs[0].Turns != 1 {
		t.Errorf("forgets %+v", plan.Blobs)
	}
	if files := b.filesWith("secret,"); len(files) > 0 {
		t.Errorf("it is in %q", files)
	}
	b.wantTitles(m, "||", "||")
	b.wantTitles(b.open("other"), "of the other session||")
	b.write("a", "3")
	b.end(m)
	b.wantTitles(m, "||", "||", "||")
	if said.Len() > 0 {
		t.Errorf("said of what was forgotten: %s", said.String())
	}

	b.titled(m, &Turn{Title: "to be lost"}, func() { b.write("a", "4") })
	head, err := m.records.Newest("s")
	if err != nil {
		t.Fatal(err)
	}
	head.Note = object.Hash(object.Blob, []byte("no such"))
	if got := m.title(t.Context(), head); got != "" || !strings.Contains(said.String(), "what turn 3 was for is lost") {
		t.Errorf("title %q, said %s", got, said.String())
	}
	problems, err := audit.NewChecker(m.store).Snapshot(t.Context(), head.Snapshot)
	if err != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].Err.Error(), "what its turn was for: ") {
		t.Errorf("problems %v, %v", problems, err)
	}
}

// What a crash has left of a file of open turns may have a piece of a title: it is forgotten, too.
func TestForgetTitlesSpoilt(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	if _, err := m.OnTurnStart(t.Context(), &Turn{Title: "the secret"}); err != nil {
		t.Fatal(err)
	}
	turns := filepath.Join(m.StoreDir(), m.place().Turns())
	text, err := os.ReadFile(turns)
	if err != nil {
		t.Fatal(err)
	}
	text = append([]byte("{}"), text...) // as where a longer text was being replaced
	for _, name := range []string{turns + ".new",
		filepath.Join(m.StoreDir(), "quarantine", "turns-"+m.project.Worktree+"-00"), turns} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		b.forget(m, &retain.ForgetOptions{Prompts: true, Session: "s"})
		if files := b.filesWith("secret"); len(files) > 0 {
			t.Errorf("%s: it is in %q", filepath.Base(name), files)
		}
	}
	if list, _, err := m.readTurns(); err != nil || list.Of(history.Nobody) == nil {
		t.Errorf("open turns are %+v, %v: want one of nobody", list, err)
	}
}
