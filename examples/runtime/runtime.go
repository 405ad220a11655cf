package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/boocode/filestore/checkpoint"
	"github.com/boocode/filestore/manager"
)

// A runtime has a session: a chat, and a worktree in which an agent works.
type runtime struct {
	session  string // also the ID of its worktree
	worktree string
	root     *os.Root // of the worktree
	chat     *chat
	agent    *agent

	engine      *manager.Engine              // stays, and watches the worktree
	files       *manager.FileSnapshotManager // of the chat
	checkpoints *checkpoint.DB

	in      *bufio.Scanner
	reading chan bool // what in.Scan returns, while it runs
	out     io.Writer
	closers []func() error
}

// open takes the session up, or begins it. All that is kept is below state. The
// caller closes it, even after an error.
func (rt *runtime) open(ctx context.Context, state, from string, log *slog.Logger) error {
	if !filepath.IsLocal(rt.session) {
		return fmt.Errorf("session %q: it is to be the name of a directory", rt.session)
	}
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	rt.worktree = filepath.Join(state, "worktrees", rt.session)
	if err := makeWorktree(rt.worktree, from); err != nil {
		return err
	}
	if rt.root, err = os.OpenRoot(rt.worktree); err != nil {
		return err
	}
	rt.onClose(rt.root.Close)
	db, err := openDatabase(filepath.Join(state, "chats.db"))
	if err != nil {
		return err
	}
	rt.onClose(db.Close)
	rt.chat = &chat{db: db, id: "chat-" + rt.session}

	if rt.engine, err = manager.NewEngine(&manager.EngineOptions{StoreRoot: filepath.Join(state, "stores"),
		Logger: log}); err != nil {
		return err
	}
	rt.onClose(rt.engine.Close)
	if rt.files, err = rt.openManager(ctx, rt.worktree, rt.chat.id); err != nil {
		return err
	}
	rt.onClose(rt.files.Close)
	unlock, err := rt.files.TryLock("runtime")
	if err != nil {
		return fmt.Errorf("session %q runs in another process: %w", rt.session, err)
	}
	rt.onClose(unlock)

	rt.checkpoints, err = checkpoint.Open(ctx, db, checkpoint.SQLite, &checkpoint.Options{
		Manager: rt.manager, Reset: rt.agent.reset, Restored: rt.restored, Schema: schema, Runtime: true,
		Tables: []string{turnsTable}, Logger: log})
	if err != nil {
		return err
	}
	if err := rt.chat.begin(ctx, rt.session, rt.worktree); err != nil {
		return err
	}
	return rt.recover(ctx)
}

func (rt *runtime) onClose(f func() error) { rt.closers = append(rt.closers, f) }

// close closes what was opened, the last first.
func (rt *runtime) close() (err error) {
	for _, f := range slices.Backward(rt.closers) {
		err = errors.Join(err, f())
	}
	return err
}

// makeWorktree makes the directory of a session, if there is none: a copy of
// another, or an empty one.
func makeWorktree(dir, from string) error {
	if _, err := os.Stat(dir); err == nil || from == "" {
		return os.MkdirAll(dir, 0o755)
	}
	return os.CopyFS(dir, os.DirFS(from))
}

func (rt *runtime) openManager(ctx context.Context, path, chat string) (*manager.FileSnapshotManager, error) {
	return manager.Open(ctx, path, &manager.Options{Engine: rt.engine, Session: chat, ToolWindows: true})
}

// manager is [checkpoint.Options.Manager]. Recover asks for those of other
// sessions, too.
func (rt *runtime) manager(ctx context.Context, path, chat string) (*manager.FileSnapshotManager, func() error, error) {
	if chat == rt.chat.id {
		return rt.files, func() error { return nil }, nil
	}
	m, err := rt.openManager(ctx, path, chat)
	if err != nil {
		return nil, nil, err
	}
	return m, m.Close, nil
}

// recover says what became of a restore that an earlier process died in, and what
// the user has changed since.
func (rt *runtime) recover(ctx context.Context) error {
	// Before Initialize, which would bring the files of such a restore forward.
	list, err := rt.checkpoints.Recover(ctx)
	for _, r := range list {
		fmt.Fprintf(rt.out, "a restore of %s was cut off; done: %v\n", r.ChatID, r.Done)
	}
	if err != nil {
		return err
	}
	look, err := rt.files.Initialize(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(rt.out, "session %s; restores that were cut off: %d\n", rt.session, len(list))
	rt.showUsers(look)
	return nil
}

// showUsers prints what a look found changed that is no turn's doing.
func (rt *runtime) showUsers(look *manager.Result) {
	if look.Offline == nil {
		return
	}
	if why := look.Offline.Unknown; why != "" {
		fmt.Fprintf(rt.out, "not all that you have changed is known: %s\n", why)
	}
	for path, status := range look.Offline.Paths() {
		fmt.Fprintf(rt.out, "you have %s %s\n", status, path)
	}
}

// restored is called after each restore and undo. A server would tell its clients
// to load the chat anew.
func (rt *runtime) restored(_ context.Context, _, chat string, r *checkpoint.Result) {
	fmt.Fprintf(rt.out, "* %s: %d messages deleted, %d brought back, files changed: %v, agent reset: %v\n",
		chat, r.MessagesDeleted, r.MessagesRestored, r.WorktreeReset, r.BackendReset)
}

// turn lets the agent answer text, or, without one, again what was asked last.
func (rt *runtime) turn(ctx context.Context, text string) (err error) {
	end := context.WithoutCancel(ctx) // a turn ends however it went
	if text != "" {
		if err := rt.chat.ask(ctx, text); err != nil {
			return err
		}
	}
	transcript, err := rt.chat.messages(ctx)
	if err != nil {
		return err
	}
	if len(transcript) == 0 || transcript[len(transcript)-1].role != "user" {
		return errors.New("nothing is asked: say TEXT")
	}
	text = transcript[len(transcript)-1].parts[0].content

	// From here on a restore is refused.
	if err := rt.chat.setAgent(ctx, "running"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.chat.setAgent(end, "idle")) }()
	answer, err := rt.chat.answer(ctx)
	if err != nil {
		return err
	}
	// BeforeTurn opens the manager's turn. A checkpoint that it cannot make it has
	// logged.
	_, look, err := rt.checkpoints.BeforeTurn(ctx, rt.files, nil, &checkpoint.Anchor{
		ChatID: rt.chat.id, SessionID: rt.session, WorktreeID: rt.session, MessageID: answer, Label: text})
	if err != nil {
		return errors.Join(err, rt.chat.end(end, answer, "failed", "", ""))
	}
	rt.showUsers(look)

	m, news := rt.agent.catchUp(rt.chat.id, transcript)
	fmt.Fprintf(rt.out, "(the agent knew %d messages and has read %d)\n", m.read-news, news)
	t := &turn{runtime: rt, message: answer, memory: m}
	failed := t.answer(ctx, text)
	status := "complete"
	if ctx.Err() != nil {
		status, failed = "interrupted", nil
		fmt.Fprintln(rt.out, "interrupted")
	} else if failed != nil {
		status = "failed"
	}
	step, err := rt.files.OnTurnEnd(end, nil) // nil: the manager keeps the log of steps
	if err != nil {
		return errors.Join(failed, err)
	}
	since := "start"
	if step.Since != nil {
		since = cmp.Or(step.Since.EntryID, since)
	}
	return errors.Join(failed, rt.chat.end(end, answer, status, since, step.EntryID))
}
