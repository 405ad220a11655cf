package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// completeSession takes the start of a session's name that was typed for the
// name, if none is called just so and one alone begins so.
func (p *place) completeSession(ctx context.Context) error {
	if !p.app.sessionTyped || p.app.flags.sessionFile != "" {
		return nil
	}
	if _, err := p.store.Newest(ctx, p.project.Worktree, p.app.flags.session); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	list, err := p.m.Sessions(ctx, false)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Session)
	}
	full, err := p.app.completeName(p.app.flags.session, names)
	if err == nil && full != p.app.flags.session {
		p.app.flags.session = full
		err = p.use(full)
	}
	return err
}

// completeName returns the one name that begins so, the text itself if that is a
// name, or none begins so.
func (a *app) completeName(text string, names []string) (string, error) {
	var fits []string
	for _, name := range names {
		if name == text {
			return text, nil
		}
		if strings.HasPrefix(name, text) && !slices.Contains(fits, name) {
			fits = append(fits, name)
		}
	}
	switch len(fits) {
	case 0:
		return text, nil
	case 1:
		a.note("session %s", fits[0])
		return fits[0], nil
	}
	return "", refuse("type more characters of it", "session %q: %w: %s", text, manager.ErrAmbiguous,
		strings.Join(fits, ", "))
}

// maxChoice is how many sessions a question names, the newest.
const maxChoice = 10

// activeTime is how long a session counts as in use after it recorded something.
const activeTime = 24 * time.Hour

// chooseSessionToWrite is chooseSession, but does not guess between several that
// are in use: what a snapshot finds would belong to one of them.
func (p *place) chooseSessionToWrite(ctx context.Context) error {
	if p.chosen {
		return nil
	}
	list, err := p.m.Sessions(ctx, false)
	if err != nil {
		return err
	}
	return p.chooseFrom(ctx, list)
}

// chooseSessionToRestore is chooseSession for a restore: a session that has done
// nothing yet has nothing to take back, and does not count. An entry, or a
// record's number, says whose it is; a preview takes the newest.
func (p *place) chooseSessionToRestore(ctx context.Context, rev string, preview bool) error {
	if p.chosen {
		return nil
	}
	if s := p.sessionOf(ctx, rev); s != "" {
		if !strings.Contains(rev, ":"+s) {
			p.app.note("session %s, of which that is", s)
		}
		return p.use(s)
	}
	list, err := p.worked(ctx)
	if err != nil {
		return err
	}
	if preview && len(list) > 1 {
		list = list[:1]
	}
	return p.chooseFrom(ctx, list)
}

// worked lists the sessions of the directory that have done something; all, if none
// has.
func (p *place) worked(ctx context.Context) ([]manager.SessionInfo, error) {
	list, err := p.m.Sessions(ctx, false)
	worked := slices.DeleteFunc(slices.Clone(list), func(s manager.SessionInfo) bool { return !s.Worked && !s.Open })
	if len(worked) > 0 {
		list = worked
	}
	return list, err
}

// chooseSessionToTakeBack settles on the session of the newest restore, or undo, in
// the directory that can be taken back. preview says what a session would take back
// that may not be the next on its list; nil if it is that.
func (p *place) chooseSessionToTakeBack(ctx context.Context, redo bool,
	preview func() (*manager.RestoreResult, error)) error {
	if p.chosen {
		return nil
	}
	next, err := inside.Of(p.m).NextBack(ctx, redo)
	if err != nil {
		return err
	}
	if len(next) == 0 { // which it says
		return p.chooseSessionToRestore(ctx, "", true)
	}
	session, at := next[0].Session, next[0].Time
	if preview != nil {
		if session, at, err = p.newestBack(next, preview); err != nil {
			return err
		}
	}
	list, err := p.worked(ctx)
	if err != nil {
		return err
	}
	if some := inUse(list); len(some) == 1 && some[0].Session == session {
		p.sayChoice(ctx, session)
	} else if redo {
		p.app.note("redo of what was undone in session %s at %s", session, clock(at))
	} else {
		p.app.note("undo of the restore of session %s at %s", session, clock(at))
	}
	return p.use(session)
}

// passedOver is the error of an undo that finds restores of which it can take back only a part,
// or nothing, and none behind them.
type passedOver interface {
	error
	PassedOver() []manager.TakenBack
}

// newestBack returns the session, and the time, of the newest of what some sessions
// would take back. What others pass over that is newer is said. They are those of the
// first if that cannot be found out.
func (p *place) newestBack(next []*store.Snapshot, preview func() (*manager.RestoreResult, error)) (
	session string, at time.Time, err error) {
	var newest manager.TakenBack
	var passed []manager.TakenBack
	for _, t := range next {
		if t.Seq < newest.SnapshotSeq {
			break // and so is what comes behind it
		}
		if err := inside.Of(p.m).UseSession(t.Session); err != nil {
			return "", at, err
		}
		r, err := preview()
		all, isAll := errors.AsType[passedOver](err)
		switch {
		case errors.Is(err, manager.ErrCutOff):
			return next[0].Session, next[0].Time, nil
		case isAll:
			passed = append(passed, all.PassedOver()...)
			continue
		case errors.Is(err, manager.ErrNothing):
			continue
		case err != nil:
			return "", at, err
		}
		passed = append(passed, r.Passed...)
		if r.Undoes != nil && r.Undoes.SnapshotSeq > newest.SnapshotSeq {
			newest = *r.Undoes
		}
	}
	if newest.SnapshotSeq == 0 {
		return next[0].Session, next[0].Time, nil
	}
	for _, t := range passed {
		if t.Session != newest.Session && t.SnapshotSeq > newest.SnapshotSeq {
			p.app.notePassed(&t)
		}
	}
	return newest.Session, newest.Time, nil
}

// sessionOf returns the session of the entry, or the record, that a REV names by
// itself; "" if it is none of this directory, or several.
func (p *place) sessionOf(ctx context.Context, rev string) string {
	if rev == "" || rev == "start" || strings.HasPrefix(rev, "@") || strings.HasPrefix(rev, "turn:") {
		return ""
	}
	point, err := p.m.Resolve(ctx, rev)
	if err == nil && point.Snapshot != nil && len(point.Snapshot.Origin) > 0 && strings.Contains(rev, ":") {
		if _, err := p.store.Newest(ctx, p.project.Worktree, point.Snapshot.Session); err == nil {
			return point.Snapshot.Session // it is what others have made of it
		}
	}
	if err != nil || point.Snapshot == nil || point.Snapshot.Worktree != p.project.Worktree { // the restore says why
		return ""
	}
	base, _, _ := strings.Cut(rev, "~") // what goes back from a turn is of that turn's session
	if base != rev {
		return p.sessionOf(ctx, base)
	}
	if point.EntryID != "" && strings.HasPrefix(point.EntryID, rev) || history.NameOf("", point.Snapshot) == rev {
		return point.Snapshot.Session
	}
	return ""
}

// chooseFrom settles on the first of some sessions, if no other was in use
// lately; else the user has to say.
func (p *place) chooseFrom(ctx context.Context, list []manager.SessionInfo) error {
	some := inUse(list)
	switch len(some) {
	case 0:
		return p.use(defaultSession)
	case 1:
		p.sayChoice(ctx, some[0].Session)
		return p.use(some[0].Session)
	}
	a := p.app
	first, more := some[:min(len(some), maxChoice)], ""
	if n := len(some) - len(first); n > 0 {
		more = "and " + words.Comma(n) + " more: 'snapctl sessions' lists them, --session ID names one"
	}
	if a.canAsk() {
		fmt.Fprintln(a.stderr, "several sessions were active in the last 24 hours:")
		for i, s := range first {
			fmt.Fprintf(a.stderr, "%3d  %s  %s\n", i+1, s.Session, whatSession(&s))
		}
		if more != "" {
			fmt.Fprintf(a.stderr, "     %s\n", a.typed(more))
		}
		i, ok := a.choose(ctx, len(first), "which one?")
		if !ok {
			return refuse("", "no session was chosen; nothing was changed")
		}
		return p.use(some[i].Session)
	}
	hint := "name one with --session ID:"
	var names []string
	for _, s := range first {
		names = append(names, s.Session)
		hint += "\n  " + whatSession(&s) + "  " + a.commandWith("--session", s.Session)
	}
	if more != "" {
		names = append(names, "and others")
		hint += "\n  " + more
	}
	return refuse(hint, "several sessions were active in the last 24 hours: %s", strings.Join(names, ", "))
}

// inUse returns the first of some sessions, and those that were in use lately.
func inUse(list []manager.SessionInfo) (some []manager.SessionInfo) {
	for i, s := range list {
		if i == 0 || time.Since(s.Last) < activeTime {
			some = append(some, s)
		}
	}
	return some
}

// whatSession says by what people know a session: its agent, how long its last turn is ago,
// and its first prompt.
func whatSession(s *manager.SessionInfo) string {
	text := "no turn since its start"
	switch {
	case s.Open:
		text = "in a turn"
	case !s.LastTurn.IsZero():
		text = "last turn " + when.Ago(s.LastTurn, time.Now())
	}
	if s.Agent != "" {
		text = words.Quote(s.Agent) + ", " + text
	}
	if s.Title != "" {
		text += "  " + titleText(s.Title)
	}
	return text
}

// commandWith returns the command line, for a shell, with flags put in.
func (a *app) commandWith(flags ...string) string {
	line := "snapctl"
	for _, arg := range slices.Concat(flags, a.args) {
		line += " " + words.ShellQuote(arg)
	}
	return line
}
