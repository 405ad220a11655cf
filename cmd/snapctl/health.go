package main

import (
	"errors"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/claude"
	"github.com/boocode/filestore/manager"
)

// sayEvery is how often a user is told the same of a store.
const sayEvery = 24 * time.Hour

// health returns what there is to say of a store, "" if nothing is, or it was said
// not long ago. urgent is what is damaged only.
func health(dir string, said func(*manager.Health) *time.Time, urgent bool) string {
	h, now := manager.ReadHealth(dir), time.Now()
	if age := now.Sub(*said(h)); age >= 0 && age < sayEvery {
		return ""
	}
	var list []string
	for _, c := range h.Concerns(dir, now) {
		if c.Urgent || !urgent {
			list = append(list, c.Text)
		}
	}
	if len(list) > 0 && manager.ChangeHealth(dir, func(h *manager.Health) { *said(h) = now }) != nil {
		return "" // it would be said each time
	}
	return strings.Join(list, "; ")
}

// sayHealth tells who records something how the store is, once a day; with --quiet
// only of damage.
func (a *app) sayHealth(m *manager.FileSnapshotManager) {
	if text := health(m.StoreDir(), func(h *manager.Health) *time.Time { return &h.Said }, a.flags.quiet); text != "" {
		a.log.Warn("the store: " + text)
	}
}

// addHealth does so for hooks, which print nothing.
func (l *hookLog) addHealth(e *claude.Event, m *manager.FileSnapshotManager) {
	if text := health(m.StoreDir(), func(h *manager.Health) *time.Time { return &h.Logged }, false); text != "" {
		l.add(e, errors.New("the store: "+text))
	}
}
