// Command runtime is a small runtime for agents: chats in SQLite, a worktree for
// each session, a scripted agent in it, and checkpoints of both. It reads commands
// from the standard input; README.md has a session. It is made to be read:
//
//   - main.go has the commands: what users ask for, and which calls answer.
//   - runtime.go opens all that there is, and runs a turn.
//   - agent.go is the agent with its tools, and what it remembers.
//   - chat.go is the transcript in the database.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/boocode/filestore/checkpoint"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("runtime", flag.ContinueOnError)
	flags.SetOutput(stderr)
	state := flags.String("state", "", "directory of all that is kept; default: a new temporary one")
	session := flags.String("session", "main", "name of the session")
	from := flags.String("from", "", "directory to copy into the worktree of a new session; default: it is empty")
	err := flags.Parse(args)
	if err != nil {
		return 2
	}
	if *state == "" {
		*state, err = os.MkdirTemp("", "runtime")
	}
	if err == nil {
		fmt.Fprintln(stdout, "state in", *state)
		err = serve(ctx, *state, *session, *from, stdin, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "runtime:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, state, session, from string, stdin io.Reader, stdout, logs io.Writer) error {
	rt := &runtime{session: session, agent: &agent{memory: make(map[string]*memory)},
		in: bufio.NewScanner(stdin), out: stdout}
	err := rt.open(ctx, state, from, slog.New(slog.NewTextHandler(logs, nil)))
	for err == nil {
		err = rt.next(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rt.close())
}

// next reads a command and executes it. Ctrl-C ends what runs, and at the prompt
// the program.
func (rt *runtime) next(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	line, err := rt.readLine(ctx, "> ")
	if ctx.Err() != nil || line == "quit" {
		return io.EOF
	}
	if err != nil {
		return err
	}
	if err := rt.do(ctx, line); err != nil {
		fmt.Fprintln(rt.out, "error:", err)
	}
	return nil
}

// readLine returns io.EOF after the last line.
func (rt *runtime) readLine(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(rt.out, prompt)
	if rt.reading == nil { // else the one before was interrupted, and its line is ours
		rt.reading = make(chan bool, 1)
		go func() { rt.reading <- rt.in.Scan() }()
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case ok := <-rt.reading:
		rt.reading = nil
		if !ok {
			return "", cmp.Or(rt.in.Err(), io.EOF)
		}
		return strings.TrimSpace(rt.in.Text()), nil
	}
}

const help = `say TEXT        ask the agent; without a text it answers again what was asked last
messages        the transcript
files           what is in the worktree
diff            what the last turn changed
checkpoints     where one can go back to
preview N       what a restore would do
restore N       go back to before a turn: files, transcript, agent
restore N skip  but leave alone what you have changed since; or overwrite it
undo            take the last restore back
!COMMAND        what you do in the worktree yourself
quit`

// do executes a command.
func (rt *runtime) do(ctx context.Context, line string) error {
	if command, ok := strings.CutPrefix(line, "!"); ok {
		return rt.userCommand(ctx, command)
	}
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "":
		return nil
	case "say":
		return rt.turn(ctx, rest)
	case "messages":
		return rt.showMessages(ctx)
	case "files":
		return rt.showFiles()
	case "diff":
		return rt.diff(ctx)
	case "checkpoints":
		return rt.showCheckpoints(ctx)
	case "preview":
		return rt.restore(ctx, rest, true)
	case "restore":
		return rt.restore(ctx, rest, false)
	case "undo":
		return rt.undo(ctx)
	}
	_, err := fmt.Fprintln(rt.out, help)
	return err
}

// userCommand runs a command of the user's own in the worktree.
func (rt *runtime) userCommand(ctx context.Context, command string) error {
	said, err := shell(ctx, rt.worktree, command)
	if said != "" {
		fmt.Fprintln(rt.out, said)
	}
	return err
}

func (rt *runtime) showMessages(ctx context.Context) error {
	list, err := rt.chat.messages(ctx)
	for i, m := range list {
		fmt.Fprintf(rt.out, "%d %s", i+1, m.role)
		if m.status != "complete" {
			fmt.Fprintf(rt.out, " (%s)", m.status)
		}
		fmt.Fprint(rt.out, ":")
		for _, p := range m.parts {
			if p.typ == "text" {
				fmt.Fprintf(rt.out, " %s", p.content)
			} else {
				fmt.Fprintf(rt.out, " [%s %s]", p.typ, p.content)
			}
		}
		fmt.Fprintln(rt.out)
	}
	return err
}

func (rt *runtime) showFiles() error {
	return fs.WalkDir(rt.root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(rt.out, "%s, %d bytes\n", path, info.Size())
		return nil
	})
}

// diff shows what the last turn changed, and of what the user has changed
// meanwhile that it is so.
func (rt *runtime) diff(ctx context.Context) error {
	since, step, err := rt.chat.lastTurn(ctx)
	if err != nil {
		return err
	}
	if step == "" {
		_, err := fmt.Fprintln(rt.out, "no change of the last turn is known")
		return err
	}
	changed, err := rt.files.ModifiedFiles(ctx, &manager.Range{From: since, To: step, Foreign: true})
	if err != nil {
		return err
	}
	for _, f := range changed.Files {
		if f.Owner == manager.Offline {
			fmt.Fprintf(rt.out, "%s %s, by you\n", f.NetStatus, f.Path)
			continue
		}
		fmt.Fprintf(rt.out, "%s %s, by the agent (%s)\n", f.NetStatus, f.Path, f.Owner)
		d, err := rt.files.FileDiff(ctx, &manager.FileRange{Path: f.Path, From: since, To: step})
		if err != nil {
			return err
		}
		if d != nil {
			fmt.Fprint(rt.out, d.UnifiedDiff)
		}
	}
	return nil
}

// list returns all checkpoints of the chat, oldest first.
func (rt *runtime) list(ctx context.Context) (all []*checkpoint.Checkpoint, err error) {
	opts := checkpoint.ListOptions{ChatID: rt.chat.id}
	for {
		page, next, err := rt.checkpoints.List(ctx, rt.session, &opts)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if opts.Cursor = next; opts.Cursor == "" {
			return all, nil
		}
	}
}

func (rt *runtime) showCheckpoints(ctx context.Context) error {
	list, err := rt.list(ctx)
	if err != nil {
		return err
	}
	messages, err := rt.chat.messages(ctx)
	if err != nil {
		return err
	}
	number := make(map[string]int)
	for i, m := range messages {
		number[m.id] = i + 1
	}
	for i, c := range list {
		if n := number[c.MessageID]; n > 0 {
			fmt.Fprintf(rt.out, "%d before message %d: %s\n", i+1, n, c.Label)
		} else {
			fmt.Fprintf(rt.out, "%d before an answer that is gone: %s\n", i+1, c.Label)
		}
	}
	return nil
}

// restore goes back to a checkpoint, "N" or "N POLICY", or says what would be done.
func (rt *runtime) restore(ctx context.Context, args string, preview bool) error {
	number, policy, _ := strings.Cut(args, " ")
	opts := &checkpoint.RestoreOptions{Preview: preview, OnDirty: rollback.Policy(policy)}
	switch opts.OnDirty {
	case "", rollback.Skip, rollback.Overwrite:
	default:
		return fmt.Errorf("%q: want skip or overwrite", policy)
	}
	list, err := rt.list(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(list) {
		return fmt.Errorf("%q is none of the %d checkpoints", number, len(list))
	}
	result, err := rt.checkpoints.Restore(ctx, rt.session, list[n-1].ID, opts)
	return rt.report(result, err)
}

func (rt *runtime) undo(ctx context.Context) error {
	id, err := rt.checkpoints.LastRestore(ctx, rt.session, rt.chat.id)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return errors.New("nothing was restored")
	}
	if err != nil {
		return err
	}
	result, err := rt.checkpoints.Undo(ctx, rt.session, id, nil)
	return rt.report(result, err)
}

// report prints what a restore has done or would do, or what stands against it.
func (rt *runtime) report(result *checkpoint.Result, err error) error {
	if refused, ok := errors.AsType[*checkpoint.FilesError](err); ok {
		rt.showPaths("is not as the agent left it", refused.Files.Dirty)
		rt.showPaths("cannot be restored", refused.Files.Failed)
	}
	if err != nil {
		return err
	}
	would := ""
	if result.Preview {
		would = "would be "
		fmt.Fprintf(rt.out, "%d messages would be deleted\n", result.MessagesDeleted)
	}
	if result.Files.Aborted { // of a preview
		rt.showPaths("is not as the agent left it", result.Files.Dirty)
		return nil
	}
	rt.showPaths(would+"restored", result.Files.Restored)
	rt.showPaths(would+"made", result.Files.Made)
	rt.showPaths(would+"deleted", result.Files.Deleted)
	rt.showPaths("left as it is, which is not as the agent left it", result.Files.Skipped)
	rt.showPaths("kept", result.Files.Kept)
	if turns := result.Files.TurnsPutBack; len(turns) > 0 && result.Undoes == "" { // an undo is there to put turns back
		fmt.Fprintf(rt.out, "turns %v, which were taken back before: %sin again\n", turns, would)
	}
	return nil
}

func (rt *runtime) showPaths(what string, paths []string) {
	for _, p := range paths {
		fmt.Fprintf(rt.out, "%s: %s\n", p, what)
	}
}
