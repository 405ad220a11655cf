package main

import (
	"errors"
	"time"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/manager"
)

// sayHealth tells who records something how the store is, once a day; with --quiet
// only of damage. Where nothing can be recorded each command says so itself.
func (a *app) sayHealth(m *manager.FileSnapshotManager) {
	if !health.Read(m.StoreDir()).Unrecorded[m.Project().Worktree].IsZero() {
		return
	}
	if text := health.Tell(m.StoreDir(), (*health.Health).Told, a.flags.quiet); text != "" {
		a.log.Warn("the store: " + text)
	}
}

// addHealth does so for hooks, which print nothing.
func (l *hookLog) addHealth(e *agents.Event, m *manager.FileSnapshotManager) {
	if text := health.Tell(m.StoreDir(), func(h *health.Health) *time.Time { return &h.Logged }, false); text != "" {
		l.add(e, errors.New("the store: "+text))
	}
}
