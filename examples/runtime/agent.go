package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boocode/filestore/manager"
)

// An agent is scripted: it does what the words of the user say. It remembers
// what it has read of each chat, as a process of a real one would.
type agent struct {
	mu     sync.Mutex
	memory map[string]*memory // by chat
}

// A memory is what an agent knows of a chat.
type memory struct {
	read    int // messages
	asked   int
	touched []string // files that it has written
}

// reset makes the agent forget a chat whose transcript has changed: what it has
// read is not what is there.
func (a *agent) reset(_ context.Context, chatID string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, had := a.memory[chatID]
	delete(a.memory, chatID)
	return had, nil
}

// catchUp reads what it has not read of a transcript: after a reset, all of it.
func (a *agent) catchUp(chatID string, transcript []message) (m *memory, news int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m = a.memory[chatID]
	if m == nil || m.read > len(transcript) { // another process has restored the chat
		m = new(memory)
		a.memory[chatID] = m
	}
	for _, msg := range transcript[m.read:] {
		if msg.role == "user" {
			m.asked++
		}
		for _, p := range msg.parts {
			if name, _, _ := strings.Cut(p.content, " "); (p.typ == "write" || p.typ == "edit") &&
				!slices.Contains(m.touched, name) {
				m.touched = append(m.touched, name)
			}
		}
		news++
	}
	m.read += news
	return m, news
}

// A turn is one while it runs: what the agent answers goes to the message.
type turn struct {
	*runtime
	message string
	memory  *memory
	tools   int // that were called
}

// answer does what the user wants, one thing after the other. What a tool has
// to complain of is said; the error is one of the runtime's, or of ctx.
func (t *turn) answer(ctx context.Context, text string) error {
	for wish := range strings.SplitSeq(text, " then ") {
		verb, rest, _ := strings.Cut(strings.TrimSpace(wish), " ")
		name, arg, _ := strings.Cut(rest, " ")
		var err error
		switch verb {
		case "create":
			err = t.tool(ctx, "write", name, func() (string, error) { return "written", t.write(ctx, name, arg+"\n") })
		case "edit":
			err = t.tool(ctx, "edit", rest, func() (string, error) { return t.edit(ctx, name, arg) })
		case "run":
			err = t.tool(ctx, "run", rest, func() (string, error) { return shell(ctx, t.worktree, rest) })
		case "ask":
			err = t.ask(ctx, rest)
		case "recall":
			err = t.say(ctx, fmt.Sprintf("You have asked %d times, and I have written %d files: %s.", t.memory.asked,
				len(t.memory.touched), strings.Join(t.memory.touched, ", ")))
		default:
			err = t.say(ctx, "I know create NAME TEXT, edit NAME OLD -> NEW, run COMMAND, ask, recall, and THIS then THAT.")
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// ask lets the user answer. No tool runs: what the user does meanwhile, by
// "!COMMAND" or in an editor, is the user's.
func (t *turn) ask(ctx context.Context, question string) error {
	fmt.Fprintln(t.out, question)
	for {
		line, err := t.readLine(ctx, "? ")
		if err != nil {
			return err
		}
		command, ok := strings.CutPrefix(line, "!")
		if !ok {
			return t.say(ctx, fmt.Sprintf("You say %q.", line))
		}
		if err := t.userCommand(ctx, command); err != nil {
			fmt.Fprintln(t.out, "error:", err)
		}
	}
}

// tool calls a tool. The manager is told when it starts and when it ends, however
// it does: what changes in between is the agent's, all else the user's.
func (t *turn) tool(ctx context.Context, name, arg string, call func() (string, error)) error {
	fmt.Fprintf(t.out, "[%s %s]\n", name, arg)
	if _, err := t.chat.addPart(ctx, t.message, name, arg); err != nil {
		return err
	}
	t.tools++
	id := fmt.Sprintf("%s-%d", name, t.tools) // no two may run under one name
	if _, err := t.files.OnToolStart(ctx, id); err != nil {
		return err
	}
	said, failed := call()
	if _, err := t.files.OnToolEnd(context.WithoutCancel(ctx), id); err != nil {
		return err
	}
	if failed != nil {
		said += fmt.Sprintf(" (%v)", failed)
	}
	return t.say(ctx, strings.TrimSpace(cmp.Or(said, "done")))
}

// write makes a file. It is claimed first: it is the agent's then, whoever else
// is at work, and no path leads out of the worktree.
func (t *turn) write(ctx context.Context, name, content string) error {
	if err := t.files.Claim(ctx, name); err != nil {
		return err
	}
	if err := t.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return t.root.WriteFile(name, []byte(content), 0o644)
}

// edit replaces a text. ApplyEdits claims the file, too.
func (t *turn) edit(ctx context.Context, name, change string) (string, error) {
	from, to, ok := strings.Cut(change, " -> ")
	if !ok {
		return "", errors.New("want NAME OLD -> NEW")
	}
	_, err := t.files.ApplyEdits(ctx, &manager.EditRequest{Path: name, Old: []byte(from), New: []byte(to)})
	return "edited", err
}

// shell runs a command. Nobody knows what it writes before it has ended.
func shell(ctx context.Context, dir, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // for what it has left running with its output
	b, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

// say streams text into the message, word by word as from a model.
func (t *turn) say(ctx context.Context, text string) error {
	id, err := t.chat.addPart(ctx, t.message, "text", "")
	for word := range strings.SplitAfterSeq(text, " ") {
		if err == nil {
			fmt.Fprint(t.out, word)
			err = t.chat.stream(ctx, id, word)
		}
	}
	fmt.Fprintln(t.out)
	return err
}
