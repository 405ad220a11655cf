package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/trees"
)

// A warner shows what the libraries warn of as lines for people, on stderr: each line once, unless
// the command stays and its lines are a log.
type warner struct {
	app   *app
	stays bool
	lists bool // the command lists all damage at its end, and warnings of damage wait for that

	mu      sync.Mutex // guards the rest
	said    map[string]bool
	held    []warning
	damaged bool // a warning of damage was printed
}

// A warning is a line with the damage that it is of, if it is of any.
type warning struct{ line, damage string }

func (w *warner) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w *warner) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	var damage string
	fmt.Fprintf(&b, "snapctl: warning: %s", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			fmt.Fprintf(&b, ": %v", a.Value)
		} else {
			fmt.Fprintf(&b, " (%s %v)", a.Key, a.Value)
		}
		if err, ok := a.Value.Any().(error); ok && trees.IsLoss(err) {
			damage = err.Error()
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	text := warning{b.String(), damage}
	switch {
	case w.said[text.line]:
		return nil
	case !w.stays:
		w.said[text.line] = true
	}
	if w.lists && damage != "" {
		w.held = append(w.held, text)
		return nil
	}
	return w.print(text)
}

// print is called with mu held.
func (w *warner) print(text warning) error {
	w.damaged = w.damaged || text.damage != ""
	_, err := fmt.Fprintln(w.app.stderr, w.app.typed(text.line))
	return err
}

// listed drops the warnings that wait of damage which the command has listed.
func (w *warner) listed(damage []jsonDamage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make(map[string]bool)
	for _, d := range damage {
		told[d.String()] = true
	}
	w.held = slices.DeleteFunc(w.held, func(text warning) bool { return told[text.damage] })
}

// end prints the warnings that wait still, and reports whether any was of damage.
func (w *warner) end() (damaged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.held {
		w.print(text)
	}
	w.held = nil
	return w.damaged
}

func (w *warner) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warner) WithGroup(string) slog.Handler      { return w }
