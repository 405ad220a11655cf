package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A logScreen prints log as people read it on a terminal: first what a turn was for and how
// long ago it was, then what it changed, and last the REV that names it.
type logScreen struct {
	app *app
	p   *place
	now time.Time
	logColumns
}

func (p *place) newLogScreen() *logScreen {
	columns, _ := p.app.terminalSize()
	return &logScreen{p.app, p, time.Now(), columnsOfLog(columns)}
}

// logColumns are how wide the columns of log are; 0: it has no room.
type logColumns struct {
	number, ago, who, what, files, lines, names, rev int
}

// widthOfREV is how much room the last column has: for an entry's id, or look: and a number.
const widthOfREV = 9

// leastWhat is how much room what it was for has at least.
const leastWhat = 8

// columnsOfLog divides a line of the terminal. Of a narrow one the names of files go first,
// then who it was, then the lines, then how many files, then how long ago it was, and the REV.
func columnsOfLog(columns int) logColumns {
	c := logColumns{number: 4}
	if columns >= 28 {
		c.rev = widthOfREV
	}
	if columns >= 44 {
		c.ago = 11
	}
	if columns >= 60 {
		c.files = 9
	}
	if columns >= 72 {
		c.lines = 11
	}
	if columns >= 116 {
		c.who = 8
	}
	const sign, gap = 1, 2
	c.what = columns - sign - (1 + c.number) - gap
	for _, n := range []int{c.ago, c.who, c.files, c.lines, c.rev} {
		if n > 0 {
			c.what -= gap + n
		}
	}
	const enough = 24 // for a title, beside names
	if c.what >= enough+gap+16 {
		c.names = max(16, (c.what-gap)*2/5)
		c.what -= gap + c.names
	}
	c.what = max(c.what, leastWhat)
	return c
}

// Signs say without colours what a line is of.
const (
	signTurn      = "●"
	signPart      = "◐" // of a turn that is in, but not at all of its paths
	signTakenBack = "○"
	signRestore   = "◆"
	signUser      = "│"
	signStart     = "┴"
)

func signOf(mo *manager.Moment) string {
	switch {
	case mo.TakenBack != nil || mo.NotIn:
		return signTakenBack
	case len(mo.Without) > 0:
		return signPart
	case mo.TurnIndex >= 0:
		return signTurn
	case mo.Kind == "base" || mo.Kind == "unknown":
		return signUser
	case mo.Kind == "start" || mo.Kind == "fork":
		return signStart
	}
	return signRestore
}

// print prints what happened at one time. turn is what it changed, nil if that is not to be
// known.
func (s *logScreen) print(ctx context.Context, l *logLine, turn *manager.TurnDiff) error {
	all := s.logColumns
	defer func() { s.logColumns = all }()
	s.what = max(leastWhat, s.what-max(0, width(l.sign)-2)) // lanes of a graph take room
	names, contested, lines, err := s.changes(ctx, turn, l.only)
	if err != nil {
		return err
	}
	what, notes := s.whatAndNotes(l)
	if contested > 0 && l.TurnIndex >= 0 {
		notes = append(notes,
			words.Count(contested, "file")+" contested: it may have been another session, or the user")
	}
	sign, beside := l.sign, l.beside
	if sign == "" {
		sign, beside = signOf(l.Moment)+" ", signUser+" "
	}
	for _, text := range l.joins {
		fmt.Fprintln(s.app.out, text)
	}
	row := &screenRow{app: s.app, before: sign, isFaded: l.TakenBack != nil || l.NotIn}
	number := ""
	if l.TurnIndex >= 0 {
		number = fmt.Sprint(l.TurnIndex)
	}
	row.column(asHeading, number, s.number)
	row.column("", s.ago(l.Snapshot), s.logColumns.ago)
	who := words.Quote(l.Agent)
	if s.who > 0 && what == whatUser {
		who, what = what, ""
	}
	row.column(asNote, who, s.who)
	row.column("", what, s.what)
	row.column("", s.filesText(l, names), s.files)
	row.lines(lines, s.logColumns.lines)
	row.paths(names, s.names)
	row.column(asName, shortREV(history.NameOf(l.EntryID, l.Snapshot)), s.rev)
	row.end()
	for _, note := range notes {
		row.before = beside
		row.text("", strings.Repeat(" ", s.number+2))
		row.text(asNote, note)
		row.end()
	}
	return nil
}

// whatAndNotes returns what stands in place of a title, or that, and what else there is to
// say, for lines below.
func (s *logScreen) whatAndNotes(l *logLine) (what string, notes []string) {
	notes = notesOf(l, s.now)
	if l.TurnIndex < 0 {
		what = whatHappened(l.Moment)
		switch {
		case len(notes) == 0:
		case what == "restore" && width(notes[0]) <= s.what:
			what, notes = notes[0], notes[1:]
		case width(what)+2+width(notes[0]) <= s.what:
			what, notes = what+": "+notes[0], notes[1:]
		}
	}
	if l.Snapshot != nil && l.Snapshot.Label != "" {
		what = strings.TrimSpace("[" + words.Quote(l.Snapshot.Label) + "] " + what)
	}
	const least = 8 // of a title
	if left := s.what - width(what); l.Title != "" && what != "" && left > least {
		what += " " + fitQuoted(l.Title, left-1)
	} else if l.Title != "" && what == "" {
		what = fitQuoted(l.Title, s.what)
	}
	return fit(what, s.what), notes
}

func (s *logScreen) ago(snap *store.Snapshot) string {
	if snap == nil {
		return ""
	}
	return when.Ago(snap.Time, s.now)
}

// shortREV returns as much of a REV as is wanted to name an entry. A number stays whole.
func shortREV(rev string) string {
	if strings.HasPrefix(rev, history.LookPrefix) || len(rev) < widthOfREV {
		return rev
	}
	return rev[:8]
}

// whatUser stands for what no turn did.
const whatUser = "you"

// whatHappened names what is no turn.
func whatHappened(mo *manager.Moment) string {
	if mo.Kind == "base" {
		return whatUser
	}
	return mo.Kind
}

// notesOf are what there is to say of a line beside what it has in columns.
func notesOf(l *logLine, now time.Time) (notes []string) {
	add := func(is bool, text string) {
		if is {
			notes = append(notes, text)
		}
	}
	standing := standingText(l.Moment, func(s *store.Snapshot) string {
		return when.Ago(s.Time, now) + " by " + history.NameOf(s.Entry, s)
	})
	add(standing != "", standing)
	add(l.isPart, "a part of the turn")
	add(l.Unknown != "", "changes not known: "+l.Unknown)
	add(l.Interrupted, "interrupted")
	add(l.Snapshot != nil && l.Snapshot.Pruned, "pruned")
	add(l.Partial, "recorded in part: a limit was reached")
	add(l.tooLargeText() != "", l.tooLargeText())
	return notes
}

func (s *logScreen) filesText(l *logLine, names []string) string {
	n := len(names) // with those that are contested
	if len(l.only) == 0 {
		n = max(n, l.Added+l.Modified+l.Deleted)
	}
	switch {
	case n >= 1000:
		return shortCount(n) + " files"
	case n > 0:
		return words.Count(n, "file")
	case l.Kind == "empty":
		return "no change"
	}
	return ""
}

// A lineCount is how many lines were added and deleted.
type lineCount struct {
	added, deleted int
	isMore         bool // not all were counted
	isUnknown      bool
}

// What log counts the lines of: of more it would take too long.
const (
	maxFilesCounted = 100       // of a turn
	maxFileCounted  = 256 << 10 // bytes of one side
	maxBytesCounted = 4 << 20   // of a turn
)

// changes returns the paths that were changed, says how many of them are contested, and counts
// the lines of a reasonable number.
func (s *logScreen) changes(ctx context.Context, turn *manager.TurnDiff, only filter) (names []string, contested int,
	n lineCount, err error) {
	if turn == nil {
		return nil, 0, n, nil
	}
	d := s.p.turnDiffer(turn, &diffFlags{stat: true})
	counted, total := 0, int64(0)
	for c, err := range d.changes(ctx, only) {
		if err != nil {
			return nil, 0, n, err
		}
		if c.Status == tree.Captured || c.Status == tree.Uncaptured {
			continue
		}
		if len(names) == 0 || names[len(names)-1] != c.Path {
			names = append(names, c.Path)
			if c.Owner == manager.Contested {
				contested++
			}
		}
		if s.logColumns.lines == 0 {
			continue
		}
		larger, both := sizesOf(&c)
		if counted++; counted > maxFilesCounted || larger > maxFileCounted || total+both > maxBytesCounted {
			n.isMore = true
			continue
		}
		total += both
		st, err := d.stat(ctx, &c)
		if ctx.Err() != nil {
			return nil, 0, n, context.Cause(ctx)
		}
		n.isUnknown = n.isUnknown || err != nil // of a content that the store has lost, say
		n.added, n.deleted = n.added+st.Added, n.deleted+st.Deleted
	}
	n.isUnknown = n.isUnknown || turn.Unknown != ""
	return names, contested, n, nil
}

// sizesOf returns the size of the larger side of a change, and of both.
func sizesOf(c *change) (larger, both int64) {
	for _, e := range []*tree.Entry{c.Old, c.New} {
		if e != nil && !e.Mode.IsDir() {
			larger, both = max(larger, e.Size), both+e.Size
		}
	}
	return larger, both
}

// A screenRow is a line that is being printed.
type screenRow struct {
	app     *app
	before  string // what stands before it, of which the colour is always the same
	b       strings.Builder
	gap     string // before the next column
	isFaded bool
}

func (r *screenRow) text(role, text string) {
	if r.isFaded {
		role = ""
	}
	r.b.WriteString(r.app.paint(role, text))
}

// column prints a text in a column of some width, which it may be wider than. One of no
// width is not there.
func (r *screenRow) column(role, text string, columns int) {
	if columns == 0 {
		return
	}
	r.b.WriteString(r.gap)
	r.text(role, text)
	r.gap = strings.Repeat(" ", 2+max(0, columns-width(text)))
}

// lines prints how many lines were added and deleted.
func (r *screenRow) lines(n lineCount, columns int) {
	if columns == 0 {
		return
	}
	var parts, roles []string
	add := func(role, sign string, n int) {
		if n > 0 {
			parts, roles = append(parts, sign+shortCount(n)), append(roles, role)
		}
	}
	add(asAdded, "+", n.added)
	add(asRemoved, "-", n.deleted)
	switch {
	case n.isUnknown:
		parts, roles = append(parts, "?"), append(roles, asRemoved)
	case n.isMore:
		parts, roles = append(parts, "…"), append(roles, "")
	}
	r.b.WriteString(r.gap)
	used := 0
	for i, part := range parts {
		if i > 0 {
			part = " " + part
		}
		used += width(part)
		r.text(roles[i], part)
	}
	r.gap = strings.Repeat(" ", 2+max(0, columns-used))
}

// shortCount writes a number in at most four characters.
func shortCount(n int) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", min(n/1_000_000, 999))
}

// paths prints as many names as there is room for.
func (r *screenRow) paths(names []string, columns int) {
	if columns == 0 {
		return
	}
	r.b.WriteString(r.gap)
	shown, more := namesWithin(names, columns)
	used := width(strings.Join(shown, ", ")) + width(more)
	for i, text := range shown {
		shown[i] = r.app.link(names[i], text)
	}
	r.b.WriteString(strings.Join(shown, ", ") + more)
	r.gap = strings.Repeat(" ", 2+max(0, columns-used))
}

// namesWithin returns as many paths as people read in some columns, of the first at least a
// part, and … if there are more: how many is in a column of its own.
func namesWithin(names []string, columns int) (shown []string, more string) {
	const others = ", …"
	used := 0
	for i, name := range names {
		text := words.Quote(name)
		room := columns - used
		if i < len(names)-1 {
			room -= width(others)
		}
		if i > 0 {
			room -= width(", ")
		}
		switch {
		case width(text) <= room:
		case i == 0:
			text = fitPath(text, max(room, 8))
		default:
			return shown, others
		}
		shown = append(shown, text)
		used = width(strings.Join(shown, ", "))
	}
	return shown, ""
}

// end prints the line, without spaces at its end.
func (r *screenRow) end() {
	text := strings.TrimRight(r.b.String(), " ")
	if r.isFaded {
		text = r.app.paint(asFaded, text)
	}
	fmt.Fprintln(r.app.out, strings.TrimRight(r.before+text, " "))
	r.b.Reset()
	r.gap = ""
}
