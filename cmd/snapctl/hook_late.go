package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
)

// A hook that waits for an engine holds up the agent, which has three hooks to a tool.
// So one waits in vain, and those behind it do not.

const (
	// hookAlive is how long a hook waits for a sign of life before it sends its event.
	// The work can be done beside an engine that is only slow.
	hookAlive = 700 * time.Millisecond
	// watchEvery is how often a hook that waits asks for another.
	watchEvery = time.Second
	// lockWait is how long a hook waits for locks beside an engine that hangs, and may
	// have them.
	lockWait = 200 * time.Millisecond
)

// lateness is what hooks know of an engine that has kept one of them waiting in vain.
type lateness struct {
	Engine int  `json:"engine"`           // its process
	Locked bool `json:"locked,omitempty"` // it hangs, and has locks without which nobody can record
	Told   bool `json:"told,omitempty"`   // the user knows

	dir string // of the store
}

// lateIn returns what is known of the engine that serves a store; nil: it has kept nobody
// waiting.
func lateIn(dir string) *lateness {
	l := &lateness{dir: dir}
	b, err := vfs.ReadFile(vfs.OS(dir), layout.LateName)
	if err != nil || json.Unmarshal(b, l) != nil || l.Engine != wire.ServedBy(dir) {
		return nil
	}
	return l
}

// noteLate notes that the engine has kept a hook waiting.
func noteLate(dir string) *lateness {
	l := lateIn(dir)
	if l == nil {
		l = &lateness{Engine: wire.ServedBy(dir), dir: dir}
		l.write()
	}
	return l
}

// write writes the file. Where it cannot the next hook waits again.
func (l *lateness) write() {
	b, err := json.Marshal(l)
	if err != nil {
		return
	}
	f, err := vfs.OS(l.dir).OpenFile(layout.LateName, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	io.NewOffsetWriter(f, 0).Write(b)
	f.Close()
}

// forget forgets it: the engine keeps up.
func (l *lateness) forget() { vfs.OS(l.dir).Remove(layout.LateName) }

// tell tells the user, once, by an event whose answer the agent shows.
func (l *lateness) tell(e *agents.Event, w io.Writer) {
	if l.Told || e.Name != agents.SessionStart && e.Name != agents.Prompt && e.Name != agents.Stop {
		return
	}
	text := "recording takes long, and the agent no longer waits for it. " +
		"The agent's changes until then may count as yours."
	if hung, ok := errors.AsType[*wire.HungError](wire.KnownHung(l.dir)); ok {
		how := "is recorded without the engine, which takes longer"
		if l.Locked {
			how = "is not recorded, since the engine has locked the directory"
		}
		text = fmt.Sprintf("%v. What the agent does to files %s. %s.", hung, how, hintHung(hung))
	}
	if tellUser(w, text) != nil {
		return
	}
	l.Told = true
	l.write()
}

// tellUser writes the answer of a hook by which the agent shows its user a text.
func tellUser(w io.Writer, text string) error {
	b, err := json.Marshal(map[string]string{"systemMessage": "snapctl: " + words.Plain(text)})
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}

// locks waits until the locks are free that the recorder of an event takes. An engine
// that hangs while it has one keeps it until it goes on: one hook finds that out.
func (a *app) locks(ctx context.Context, l *lateness) error {
	loc, err := a.locate()
	if err != nil {
		return err
	}
	patience := lockWait
	if l.Locked {
		patience = 0
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	of := layout.Worktree(loc.Project.Worktree)
	for _, name := range []string{of.HookLock(), layout.PlacesLock, of.TurnsLock(), layout.JournalLock} {
		f, err := vfs.OS(l.dir).OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = vfs.Lock(ctx, f, vfs.Exclusive)
		f.Close()
		if locked := err != nil; locked != l.Locked {
			l.Locked = locked
			l.write()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// watch calls dead when an engine gives no sign of life any more, until ctx ends.
func watch(ctx context.Context, c *client.Client, dead func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
		answered := make(chan error, 1)
		go func() { answered <- c.Call(ctx, "ping", nil, nil) }() // the connection is closed in the end
		select {
		case <-ctx.Done():
			return
		case <-answered:
		case <-time.After(wire.AliveWithin):
			dead()
			return
		}
	}
}
