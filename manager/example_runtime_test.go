package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/session"
)

// An agent is the loop of a runtime that embeds the library.
type agent struct {
	dir          string        // where the agent works
	session      string        // its name, the same in each process
	stores       string        // where the library keeps what it records: not below dir
	conversation *session.Tree // a real one has it on the disk, too
	files        *manager.FileSnapshotManager
}

// A call is what the model, which is scripted here, wants a tool to do.
type call struct{ tool, path, content string }

// start begins a process: that of a new conversation, or a later one.
func (a *agent) start(ctx context.Context) (err error) {
	a.files, err = manager.Open(ctx, a.dir, &manager.Options{
		StoreRoot:   a.stores,
		Session:     a.session,
		ToolWindows: true, // we call OnToolStart and OnToolEnd
	})
	if err != nil {
		return err
	}
	// From now on the manager reads our tree, also the entries that we add and
	// the leaf that we move.
	err = a.files.RebuildIndex(ctx, a.conversation)
	if err != nil {
		return errors.Join(err, a.files.Close())
	}
	look, err := a.files.Initialize(ctx)
	if err != nil {
		return errors.Join(err, a.files.Close())
	}
	show("the user, while nothing ran", look.Offline)
	return nil
}

// turn runs a turn of the agent and returns the entry of what it changed.
func (a *agent) turn(ctx context.Context, prompt string, calls ...call) (string, error) {
	fmt.Println("##", prompt)
	a.add(session.Entry{Type: "message", Role: "user"})

	// The turn starts before the agent can do anything, and before its answer
	// is in the conversation: one that is there already counts as a turn.
	look, err := a.files.OnTurnStart(ctx, nil)
	if err != nil {
		return "", err
	}
	show("the user, since the last turn", look.Offline)

	a.add(session.Entry{Type: "message", Role: "assistant"})
	var failed error
	for i, c := range calls {
		if err := a.run(ctx, fmt.Sprint("call-", i), c); err != nil {
			failed = err // the model would be told
		}
		a.add(session.Entry{Type: "message", Role: "toolResult"})
	}

	// A turn ends however it went. One that does not, as after a crash, is
	// closed as interrupted by the next OnTurnStart.
	look, err = a.files.OnTurnEnd(ctx, a.appendStep)
	if err = errors.Join(failed, err); err != nil {
		return "", err
	}
	if look.Data != nil { // else nothing changed, and nothing was appended
		show(fmt.Sprint("the agent, in turn ", look.Data.TurnIndex), look.Data.Diff)
	}
	return look.EntryID, nil
}

// run lets a tool do its work. A tool starts and ends whether it succeeds or
// not, and has an ID that no other has meanwhile.
func (a *agent) run(ctx context.Context, id string, c call) error {
	if c.tool == "user" { // no tool, but an editor that saves while the agent thinks
		return a.write(c.path, c.content)
	}
	if _, err := a.files.OnToolStart(ctx, id); err != nil {
		return err
	}
	var err error
	if c.tool == "edit" { // it knows what it writes; of a shell nobody does
		err = a.files.Claim(ctx, c.path)
	}
	if err == nil {
		err = a.write(c.path, c.content)
	}
	_, endErr := a.files.OnToolEnd(ctx, id)
	return errors.Join(err, endErr)
}

// appendStep is called by OnTurnEnd with what the turn did. It may not call
// the manager.
func (a *agent) appendStep(_ context.Context, data *manager.StepSnapshotData) (string, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	return a.add(session.Entry{Type: "custom", CustomType: sessionlog.StepSnapshot, Data: b}), nil
}

// add appends an entry to the conversation, below its leaf.
func (a *agent) add(e session.Entry) string {
	e.ID = fmt.Sprint("e", a.conversation.Changes()+1)
	e.ParentID, e.Timestamp = a.conversation.Leaf(), time.Now()
	a.conversation.Add(e)
	return e.ID
}

func (a *agent) write(path, content string) error {
	return os.WriteFile(filepath.Join(a.dir, path), []byte(content), 0o644)
}

// modified prints which files differ between two points, and whose doing it is.
func (a *agent) modified(ctx context.Context, title string, ask *manager.Range) error {
	answer, err := a.files.ModifiedFiles(ctx, ask)
	if err != nil {
		return err
	}
	fmt.Println(title)
	for _, f := range answer.Files {
		fmt.Printf("  %-9s %-8s %s\n", f.Path, f.NetStatus, f.Owner)
	}
	return nil
}

// show prints changes, if there are any: a Diff without any is nil.
func show(who string, d *manager.Diff) {
	if d == nil {
		return
	}
	var list []string
	for path, status := range d.Paths() {
		list = append(list, fmt.Sprint(path, " ", status))
	}
	fmt.Printf("%s: %s\n", who, strings.Join(list, ", "))
}

// An agent runtime: turns, tools and what the user does meanwhile, two
// branches of a conversation, and a restart.
func Example_runtime() {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "example")
	do(err)
	defer os.RemoveAll(base)
	a := &agent{dir: filepath.Join(base, "project"), stores: filepath.Join(base, "file-store"),
		session: "demo", conversation: session.NewTree()}
	do(os.Mkdir(a.dir, 0o755))
	do(a.write("greet.txt", "hello\n"))
	do(a.start(ctx))

	french, err := a.turn(ctx, "Greet in French", call{"edit", "greet.txt", "bonjour\n"},
		call{"shell", "build.log", "ok\n"})
	do(err)
	do(a.write("notes.txt", "from the user\n"))
	shout, err := a.turn(ctx, "Shout", call{"edit", "greet.txt", "BONJOUR\n"},
		call{"user", "todo.txt", "from the user\n"}, call{"shell", "loud.txt", "!\n"})
	do(err)
	do(a.modified(ctx, "the session", nil))                         // from the start to where the conversation is
	do(a.modified(ctx, "everybody", &manager.Range{Foreign: true})) // also what was saved between two tools

	// The user goes back to before "Shout". The leaf is all that moves: the
	// files are what they are until somebody changes them.
	do(a.conversation.SetLeaf(french))
	whisper, err := a.turn(ctx, "Whisper", call{"edit", "greet.txt", "psst\n"}, call{"shell", "quiet.txt", ".\n"})
	do(err)

	// From one end to the other: "Shout" is undone, "Whisper" is done. The
	// file that "Shout" added is still there, so it does not differ.
	ask := manager.Range{From: shout, To: whisper}
	do(a.modified(ctx, "from Shout to Whisper", &ask))
	diff, err := a.files.FileDiff(ctx, &manager.FileRange{Path: "greet.txt", From: ask.From, To: ask.To})
	do(err)
	fmt.Print(diff.UnifiedDiff)

	// Another process takes the conversation up.
	do(a.files.Close())
	do(a.write("notes.txt", "more from the user\n"))
	do(a.start(ctx))
	_, err = a.turn(ctx, "Clean up", call{"edit", "build.log", ""})
	do(err)
	// The conversation has left "Shout" alone: what that wrote is still there.
	do(a.modified(ctx, "what is in", nil))
	do(a.files.Close())
	// Output:
	// ## Greet in French
	// the agent, in turn 0: build.log added, greet.txt modified
	// ## Shout
	// the user, since the last turn: notes.txt added
	// the agent, in turn 1: greet.txt modified, loud.txt added
	// the session
	//   build.log added    turn
	//   greet.txt modified claimed
	//   loud.txt  added    turn
	// everybody
	//   build.log added    turn
	//   greet.txt modified claimed
	//   loud.txt  added    turn
	//   notes.txt added    offline
	//   todo.txt  added    offline
	// ## Whisper
	// the agent, in turn 2: greet.txt modified, quiet.txt added
	// from Shout to Whisper
	//   greet.txt modified claimed
	//   quiet.txt added    turn
	// --- greet.txt
	// +++ greet.txt
	// @@ -1 +1 @@
	// -BONJOUR
	// +psst
	// the user, while nothing ran: notes.txt modified
	// ## Clean up
	// the agent, in turn 3: build.log modified
	// what is in
	//   build.log added    claimed
	//   greet.txt modified claimed
	//   loud.txt  added    turn
	//   quiet.txt added    turn
}

func do(err error) {
	if err != nil {
		panic(err)
	}
}
