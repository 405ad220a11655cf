package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/session"
)

// A manager for one conversation in one directory.
func ExampleOpen() {
	ctx := context.Background()
	p := newProject()
	defer p.close()

	m, err := manager.Open(ctx, p.dir, &manager.Options{
		StoreRoot: p.stores, // for all projects, and in none of them
		Session:   "demo",
	})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	fmt.Println(m.Session())
	// Output: demo
}

// The session is taken up again after the user has worked without it.
func ExampleFileSnapshotManager_Initialize() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n")

	m := p.open("demo")
	first := must(m.Initialize(ctx))
	fmt.Println("new session:", first.Since == nil)
	check(m.Close())

	p.write("a.txt", "two\n")
	m = p.open("demo")
	defer m.Close()
	again := must(m.Initialize(ctx))
	fmt.Println("new session:", again.Since == nil)
	fmt.Println("changed by the user:", again.Offline.Modified)
	// Output:
	// new session: true
	// new session: false
	// changed by the user: [a.txt]
}

// A turn, and the entry that the runtime appends to its log of the session.
func ExampleFileSnapshotManager_OnTurnEnd() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))

	must(m.OnTurnStart(ctx, nil))
	p.write("a.txt", "from the agent\n") // the agent at work
	r, err := m.OnTurnEnd(ctx, func(_ context.Context, data *manager.StepSnapshotData) (string, error) {
		b, err := json.Marshal(data)
		if err != nil {
			return "", err
		}
		fmt.Println("append an entry of type", sessionlog.StepSnapshot, len(b) > 0)
		return "e1", nil // the ID that it got in the log
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.EntryID, r.Data.TurnIndex, r.Data.Diff.Added)
	// Output:
	// append an entry of type step-snapshot true
	// e1 0 [a.txt]
}

// What the user saves while the agent thinks is not booked to the agent.
func ExampleFileSnapshotManager_OnToolStart() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := must(manager.Open(ctx, p.dir, &manager.Options{StoreRoot: p.stores, Session: "demo", ToolWindows: true}))
	defer m.Close()
	must(m.Initialize(ctx))
	must(m.OnTurnStart(ctx, nil))

	must(m.OnToolStart(ctx, "call-1"))
	p.write("agent.txt", "from a tool\n")
	must(m.OnToolEnd(ctx, "call-1"))

	p.write("user.txt", "from an editor\n") // no tool runs

	must(m.OnToolStart(ctx, "call-2"))
	p.write("agent.txt", "from another tool\n")
	must(m.OnToolEnd(ctx, "call-2"))

	r := must(m.OnTurnEnd(ctx, nil))
	fmt.Println(r.Data.Diff.Added)
	// Output: [agent.txt]
}

// Two agents work in one directory at the same time.
func ExampleFileSnapshotManager_Claim() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	alice, bob := p.open("alice"), p.open("bob")
	defer alice.Close()
	defer bob.Close()

	must(alice.OnTurnStart(ctx, nil))
	must(bob.OnTurnStart(ctx, nil))
	check(alice.Claim(ctx, "a.txt"))
	p.write("a.txt", "from alice\n")
	check(bob.Claim(ctx, "b.txt"))
	p.write("b.txt", "from bob\n")
	p.write("build.log", "from either\n") // nobody says who wrote it

	for _, m := range []*manager.FileSnapshotManager{alice, bob} {
		r := must(m.OnTurnEnd(ctx, nil))
		fmt.Println(m.Session(), r.Data.Diff.Added, "contested:", r.Data.Contested.Added)
	}
	// Output:
	// alice [a.txt] contested: [build.log]
	// bob [b.txt] contested: [build.log]
}

// A runtime takes up a session whose entries it has in memory.
func ExampleFileSnapshotManager_RebuildIndex() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	data := p.turn(m, "e3", func() { p.write("a.txt", "from the agent\n") })

	entries := session.NewTree(
		session.Entry{ID: "e1", Type: "message", Role: "user"},
		session.Entry{ID: "e2", ParentID: "e1", Type: "message", Role: "assistant"},
		session.Entry{ID: "e3", ParentID: "e2", Type: "custom", CustomType: sessionlog.StepSnapshot, Data: data},
	)
	check(m.RebuildIndex(ctx, entries))
	fmt.Println(must(m.SnapshotAtEntry(ctx, "e2")).EntryID)

	// The manager sees what the runtime adds to the tree, and its leaf.
	entries.Add(session.Entry{ID: "e4", ParentID: "e3", Type: "message", Role: "user"})
	fmt.Println(must(m.LatestSnapshotOnPath(ctx, "e4")).EntryID)
	// Output:
	// e3
	// e3
}

// The second turn changes nothing: its snapshot is that of the first.
func ExampleFileSnapshotManager_SnapshotAtTurn() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "e1", func() { p.write("a.txt", "one\n") })
	p.turn(m, "", func() {})
	p.turn(m, "e2", func() { p.write("a.txt", "two\n") })

	for n := range 3 {
		fmt.Println(n, must(m.SnapshotAtTurn(ctx, n)).EntryID)
	}
	_, err := m.SnapshotAtTurn(ctx, 3)
	fmt.Println(errors.Is(err, manager.ErrUnknown))
	// Output:
	// 0 e1
	// 1 e1
	// 2 e2
	// true
}

// A message of the agent stands for what its turn left, one of the user for
// what was there when it was said.
func ExampleFileSnapshotManager_SnapshotAtEntry() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	one := p.turn(m, "step-1", func() { p.write("a.txt", "one\n") })
	two := p.turn(m, "step-2", func() { p.write("a.txt", "two\n") })
	check(m.RebuildIndex(ctx, session.NewTree(
		session.Entry{ID: "agent-1", Type: "message", Role: "assistant"},
		session.Entry{ID: "step-1", ParentID: "agent-1", Type: "custom",
			CustomType: sessionlog.StepSnapshot, Data: one},
		session.Entry{ID: "user-2", ParentID: "step-1", Type: "message", Role: "user"},
		session.Entry{ID: "agent-2", ParentID: "user-2", Type: "message", Role: "assistant"},
		session.Entry{ID: "step-2", ParentID: "agent-2", Type: "custom",
			CustomType: sessionlog.StepSnapshot, Data: two},
	)))

	for _, entry := range []string{"agent-1", "user-2", "agent-2"} {
		s := must(m.SnapshotAtEntry(ctx, entry))
		fmt.Println(entry, s.EntryID, s.TurnIndex)
	}
	// Output:
	// agent-1 step-1 0
	// user-2 step-1 0
	// agent-2 step-2 1
}

// Where the session stands, and where it stood at an earlier entry.
func ExampleFileSnapshotManager_LatestSnapshotOnPath() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "e1", func() { p.write("a.txt", "one\n") })
	p.turn(m, "e2", func() { p.write("b.txt", "two\n") })

	for _, leaf := range []string{"", "e1"} {
		s := must(m.LatestSnapshotOnPath(ctx, leaf))
		fmt.Println(s.EntryID, s.Diff.Added)
	}
	// Output:
	// e2 [b.txt]
	// e1 [a.txt]
}

// What the turns of the session have changed: all, and a part at a time.
func ExampleFileSnapshotManager_ModifiedFiles() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "e1", func() { p.write("a.txt", "two\n"); p.write("b.txt", "two\n") })
	p.turn(m, "e2", func() { p.remove("a.txt"); p.write("c.txt", "three\n") })

	// Status is that of the first change, NetStatus what came of it.
	for _, f := range must(m.ModifiedFiles(ctx, nil)).Files {
		fmt.Println(f.Path, f.Status, f.EntryID, "-", f.NetStatus, f.LastEntryID)
	}

	r := &manager.Range{From: "start", To: "@", Limit: 2}
	for {
		part := must(m.ModifiedFiles(ctx, r))
		fmt.Println(len(part.Files))
		if r.Cursor = part.NextCursor; r.Cursor == "" {
			break
		}
	}
	// Output:
	// a.txt modified e1 - deleted e2
	// b.txt added e1 - added e1
	// c.txt added e2 - added e2
	// 2
	// 1
}

// One file, as it was when the session began and is now.
func ExampleFileSnapshotManager_FileDiff() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("greet.txt", "hello\nworld\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "e1", func() { p.write("greet.txt", "good morning\nworld\n") })

	d := must(m.FileDiff(ctx, &manager.FileRange{Path: "greet.txt", From: "start", To: "e1"}))
	if d == nil {
		panic("no such file then or now")
	}
	fmt.Print(d.UnifiedDiff)
	// Output:
	// --- greet.txt
	// +++ greet.txt
	// @@ -1,2 +1,2 @@
	// -hello
	// +good morning
	//  world
}

// The names that a moment has.
func ExampleFileSnapshotManager_Resolve() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "entry-1", func() { p.write("a.txt", "one\n") })
	p.turn(m, "entry-2", func() { p.write("a.txt", "two\n") })

	for _, rev := range []string{"start", "@", "@~1", "turn:0", "entry-2"} {
		point := must(m.Resolve(ctx, rev))
		fmt.Printf("%s: turn %d, %q\n", rev, point.TurnIndex, point.EntryID)
	}
	_, err := m.Resolve(ctx, "entry")
	fmt.Println(err)
	// Output:
	// start: turn -1, ""
	// @: turn 1, "entry-2"
	// @~1: turn 0, "entry-1"
	// turn:0: turn 0, "entry-1"
	// entry-2: turn 1, "entry-2"
	// revision "entry": ambiguous: entry-2, entry-1
}

// What has happened, the newest first.
func ExampleFileSnapshotManager_Timeline() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	p.turn(m, "e1", func() { p.write("a.txt", "two\n") })
	p.write("notes.txt", "from the user\n")
	p.turn(m, "e2", func() { p.remove("a.txt") })

	for moment, err := range m.Timeline(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-5s %q +%d ~%d -%d\n", moment.Kind, moment.EntryID, moment.Added, moment.Modified, moment.Deleted)
	}
	// Output:
	// step  "e2" +0 ~0 -1
	// base  "" +1 ~0 -0
	// step  "e1" +0 ~1 -0
	// start "" +0 ~0 -0
}

// The sessions of a directory, the one that recorded something last first.
func ExampleFileSnapshotManager_Sessions() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	first, second := p.open("first"), p.open("second")
	defer first.Close()
	defer second.Close()
	must(first.Initialize(ctx))
	must(second.Initialize(ctx))
	p.turn(first, "e1", func() { p.write("a.txt", "one\n") })

	for _, s := range must(second.Sessions(ctx, false)) {
		fmt.Println(s.Session, s.Steps, s.Open)
	}
	// Output:
	// first 1 false
	// second 0 false
}

// Without a runtime: what has changed since the last snapshot is a turn.
func ExampleFileSnapshotManager_Snapshot() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n")
	m := p.open("by-hand")
	defer m.Close()
	must(m.Snapshot(ctx, nil))

	p.write("a.txt", "two\n")
	r := must(m.Snapshot(ctx, &manager.SnapshotOptions{Label: "before the big change"}))
	fmt.Println(r.Snapshot.Label, r.Data.Diff.Modified)

	r = must(m.Snapshot(ctx, nil))
	fmt.Println("nothing changed:", r.Snapshot == nil)
	// Output:
	// before the big change [a.txt]
	// nothing changed: true
}

// A project is a directory to try things in, and a place for stores beside it.
type project struct{ base, dir, stores string }

func newProject() *project {
	base := must(os.MkdirTemp("", "example"))
	p := &project{base, filepath.Join(base, "project"), filepath.Join(base, "file-store")}
	check(os.Mkdir(p.dir, 0o755))
	return p
}

func (p *project) close() { check(os.RemoveAll(p.base)) }

func (p *project) write(name, content string) {
	check(os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o644))
}

func (p *project) read(name string) string {
	return string(must(os.ReadFile(filepath.Join(p.dir, name))))
}

func (p *project) remove(name string) { check(os.Remove(filepath.Join(p.dir, name))) }

// open returns the manager of a session in the directory.
func (p *project) open(session string) *manager.FileSnapshotManager {
	return must(manager.Open(context.Background(), p.dir, &manager.Options{StoreRoot: p.stores, Session: session}))
}

// turn runs fn as a turn, whose step gets an entry with an ID, and returns the
// data of that.
func (p *project) turn(m *manager.FileSnapshotManager, id string, fn func()) json.RawMessage {
	ctx := context.Background()
	must(m.OnTurnStart(ctx, nil))
	fn()
	r := must(m.OnTurnEnd(ctx, func(context.Context, *manager.StepSnapshotData) (string, error) { return id, nil }))
	return must(json.Marshal(r.Data))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// What the agent did is taken back; what the user did stays.
func ExampleFileSnapshotManager_RestoreFiles() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("main.go", "package main\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))

	must(m.OnTurnStart(ctx, nil))
	p.write("main.go", "package broken\n")
	p.write("junk.go", "package junk\n")
	must(m.OnTurnEnd(ctx, nil))
	p.write("notes.txt", "the user's\n")

	r := must(m.RestoreFiles(ctx, &manager.RestoreOptions{Target: "start"}))
	fmt.Println("restored:", r.Restored, "deleted:", r.Deleted, "complete:", r.IsComplete())
	fmt.Print(p.read("main.go"), p.read("notes.txt"))
	// Output:
	// restored: [main.go] deleted: [junk.go] complete: true
	// package main
	// the user's
}

// A turn in the middle is taken back, and what came later in the same file stays. Where it
// is the same lines, these stay, and whoever is in the way is named.
func ExampleFileSnapshotManager_Revert() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("list", "apples\n\nbread\n\ntea\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	for _, text := range []string{ // what three turns leave
		"pears\n\nbread\n\ncoffee\n", "pears\n\nrolls\n\ncoffee\n", "pears\n\nrolls\n\ncocoa\n",
	} {
		must(m.OnTurnStart(ctx, nil))
		p.write("list", text)
		must(m.OnTurnEnd(ctx, nil))
	}

	r := must(m.Revert(ctx, &manager.RevertOptions{Turns: []string{"turn:0"}}))
	fmt.Printf("%q\n", p.read("list"))
	for _, c := range r.Conflicts {
		fmt.Println(c.Path, c.Why, c.BlockedBy, c.Hint)
	}
	// Output:
	// "apples\n\nrolls\n\ncocoa\n"
	// list lines [turn:2] snapctl --session demo revert turn:0 turn:2
}

// A restore can be taken back, and done again, without limit.
func ExampleFileSnapshotManager_Undo() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n")
	m := p.open("demo")
	defer m.Close()
	must(m.Initialize(ctx))
	must(m.OnTurnStart(ctx, nil))
	p.write("a.txt", "two\n")
	must(m.OnTurnEnd(ctx, nil))

	must(m.RestoreFiles(ctx, &manager.RestoreOptions{Target: "start"}))
	fmt.Print(p.read("a.txt"))
	must(m.Undo(ctx, nil))
	fmt.Print(p.read("a.txt"))
	must(m.Redo(ctx, nil))
	fmt.Print(p.read("a.txt"))
	_, err := m.Redo(ctx, nil)
	fmt.Println(errors.Is(err, manager.ErrNothing))
	// Output:
	// one
	// two
	// one
	// true
}

// The conversation goes back to before a message of the user, and the files
// along.
func ExampleFileSnapshotManager_NavigateTree() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	log := session.NewTree()
	add := func(e session.Entry) string {
		e.ID, e.ParentID = fmt.Sprint("e", log.Changes()+1), log.Leaf()
		log.Add(e)
		return e.ID
	}
	m := p.open("demo")
	defer m.Close()
	check(m.RebuildIndex(ctx, log))
	must(m.Initialize(ctx))

	message := add(session.Entry{Type: "message", Role: "user"})
	must(m.OnTurnStart(ctx, nil))
	add(session.Entry{Type: "message", Role: "assistant"})
	p.write("a.txt", "by the agent\n")
	must(m.OnTurnEnd(ctx, func(_ context.Context, d *manager.StepSnapshotData) (string, error) {
		return add(d.Entry("", "")), nil
	}))

	r := must(m.NavigateTree(ctx, message, &manager.NavigateOptions{
		Append: func(_ context.Context, e *session.Entry) (string, error) { return add(*e), nil },
	}))
	fmt.Println("deleted:", r.Restore.Deleted, "before all entries:", r.NewLeafID == nil)
	// Output: deleted: [a.txt] before all entries: true
}

// An edit of a text that is nearly as the agent gave it, and its undo.
func ExampleFileSnapshotManager_ApplyEdits() {
	ctx := context.Background()
	p := newProject()
	defer p.close()
	p.write("a.txt", "one\n\ttwo\nthree\n")

	m := p.open("demo")
	defer m.Close()
	must(m.NoteRead(ctx, "a.txt"))
	r := must(m.ApplyEdits(ctx, &manager.EditRequest{Path: "a.txt", Old: []byte("  two\n"), New: []byte("  2\n"),
		Fuzzy: true, Options: patch.Options{Reindent: patch.ReindentAuto}}))
	f := r.Files[0]
	fmt.Println(f.Op, f.Path, f.Mode, f.Stage)
	fmt.Printf("%q\n", must(os.ReadFile(filepath.Join(p.dir, "a.txt"))))
	must(m.UndoEdit(ctx, r.UndoID, nil))
	fmt.Printf("%q\n", must(os.ReadFile(filepath.Join(p.dir, "a.txt"))))
	// Output:
	// update a.txt fuzzy whitespace
	// "one\n\t2\nthree\n"
	// "one\n\ttwo\nthree\n"
}
