package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/pickaxe"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type logFlags struct {
	limit      int
	all, names bool
	oneLine    bool
	graph      bool
	reverse    bool
	turns      bool // what each did is to be known

	since, until time.Time // zero: always
	grep, author *regexp.Regexp
	text, lines  string           // what came or went, "": whatever; a pattern of lines that did
	pattern      *pickaxe.Pattern // one of these
	follow       bool
	diff         diffFlags
}

// isPart reports whether not all is listed that has happened.
func (f *logFlags) isPart() bool {
	return !f.since.IsZero() || !f.until.IsZero() || f.grep != nil || f.author != nil || f.pattern != nil
}

// wants reports whether something is listed by when it was, by its title and label, and by
// whose it is.
func (f *logFlags) wants(mo *manager.Moment) bool {
	var at time.Time // of what only a log knows it is not known
	label, session := "", ""
	if s := mo.Snapshot; s != nil {
		at, label, session = s.Time, s.Label, s.Session
	}
	by := []string{mo.Agent, cmp.Or(mo.ForkedFrom, session)}
	switch mo.Kind {
	case "base":
		by = []string{"user", "you"}
	case "unknown":
		by = nil
	}
	byAuthor := f.author != nil && slices.ContainsFunc(by, func(who string) bool {
		return who != "" && f.author.MatchString(who)
	})
	return (f.since.IsZero() || !at.Before(f.since)) &&
		(f.until.IsZero() || at.Before(f.until) && !at.IsZero()) &&
		(f.grep == nil || f.grep.MatchString(mo.Title) || f.grep.MatchString(label)) &&
		(f.author == nil || byAuthor)
}

const logCommandName = "log"

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:     logCommandName + " [flags] [REMOTE:SESSION] [-- PATH...]",
		Short:   "List the turns of a session, newest first",
		PreRunE: func(cmd *cobra.Command, args []string) error { return a.checkLog(cmd, args, &f) },
		RunE: a.paged(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			return a.listLog(cmd, p, args, &f)
		})),
	}
	c.Flags().IntVarP(&f.limit, "limit", "n", 0, "list at most `N` of them (default all)")
	c.Flags().BoolVar(&f.reverse, "reverse", false, "list the oldest first; with --limit, of the newest N")
	c.Flags().BoolVar(&f.all, "all", false,
		"list all records of all sessions, of all working trees that share the store")
	now := time.Now()
	parseTime := func(text string) (time.Time, error) { return when.Parse(text, now) }
	addParsed(c.Flags(), &f.since, parseTime, "since", "list what happened since `TIME`: 2h, yesterday, 2026-11-20")
	addParsed(c.Flags(), &f.until, parseTime, "until", "list what happened before `TIME`")
	addParsed(c.Flags(), &f.grep, smartCase, "grep",
		"list what has a title or label that a `PATTERN` matches; without capitals case does not count")
	addParsed(c.Flags(), &f.author, smartCase, "author",
		"list turns whose agent or session a `PATTERN` matches; user: your own changes")
	c.Flags().StringVarP(&f.text, "pickaxe", "S", "",
		"list turns after which a `STRING` is in another number of places in a file")
	c.Flags().StringVarP(&f.lines, "pickaxe-lines", "G", "",
		"list turns that added or removed a line that a `REGEX` matches")
	c.Flags().BoolVar(&f.follow, "follow", false, "list what changed the file before it was moved to PATH, too")
	c.Flags().BoolVar(&f.names, "name-status", false, "list the paths that each turn changed")
	c.Flags().BoolVar(&f.graph, "graph", false,
		"draw which turn builds on which, with all branches of the conversation")
	c.Flags().BoolVar(&f.oneLine, "oneline", false, "list as in a pipe; --oneline=false as on a terminal")
	f.diff.addTo(c.Flags())
	return c
}

// checkLog checks flags that exclude each other.
func (a *app) checkLog(cmd *cobra.Command, args []string, f *logFlags) error {
	byCount, byLines := cmd.Flags().Changed("pickaxe"), cmd.Flags().Changed("pickaxe-lines")
	switch {
	case f.limit < 0 || f.limit == 0 && cmd.Flags().Changed("limit"):
		return usageError(cmd, "log: --limit %d: want 1 or more", f.limit)
	case len(args) > 0 && cmd.ArgsLenAtDash() != 0 && !isRemoteSession(args[0]) && !a.areThere(args):
		return usageError(cmd, "log: %q: paths come after --", args[0])
	case f.graph && (f.all || f.oneLine || a.flags.json):
		return usageError(cmd, "log: --graph is for people: no --all, --oneline or --json with it")
	case f.graph && f.reverse:
		return usageError(cmd, "log: --graph begins with the newest: no --reverse with it")
	case byCount && byLines:
		return usageError(cmd, "log: -S and -G: want one of them")
	case f.follow && len(args) != 1:
		return usageError(cmd, "log: --follow: want one PATH")
	case f.all && (byCount || byLines || f.follow):
		return usageError(cmd, "log: --all lists records as they are: no -S, -G or --follow with it; "+
			"'snapctl find' looks in all sessions")
	case f.all && (len(args) > 0 || f.names || f.diff.shows() || a.flags.sessionFile != ""):
		return usageError(cmd, "log: --all lists records as they are: "+
			"no PATH, --name-status, --patch, --stat or --session-file with it")
	}
	if byCount || byLines {
		var err error
		if f.pattern, err = f.compile(); err != nil {
			return usageError(cmd, "log: %v", err)
		}
	}
	return f.diff.checkShown(cmd)
}

func (a *app) listLog(cmd *cobra.Command, p *place, args []string, f *logFlags) error {
	ctx := cmd.Context()
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 && !a.areThere(args[:1]) {
		if is, err := inside.Of(p.m).UseRemote(ctx, args[0]); err != nil {
			return err
		} else if !is {
			return usageError(cmd, "log: %q: paths come after --", args[0])
		}
		args, p.chosen = args[1:], true
	}
	only, err := p.filter(cmd, args)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("oneline") {
		f.oneLine = !isTerminal(a.stdout) && !f.graph
	}
	var screen *logScreen
	if !a.flags.json && !f.all && !f.oneLine {
		screen = p.newLogScreen()
	}
	f.diff.renames = f.diff.renames || f.follow
	f.turns = screen != nil || f.diff.shows()
	var gap pickaxe.Gap
	lines := p.logLines(ctx, f, only)
	if f.pattern != nil {
		lines = p.picked(ctx, lines, f, &gap)
	}
	if !a.flags.json && !f.all {
		lines = withoutIdle(lines)
	}
	n, err := a.printLog(ctx, p, lines, f, screen)
	if err != nil {
		return err
	}
	if n == 0 && f.isPart() {
		a.note("nothing that happened matches")
	}
	if why := gap.String(); why != "" {
		return fmt.Errorf("log: %w: %s", manager.ErrNotAll, why)
	}
	if n == 0 && f.isPart() {
		return nil
	}
	if n == 0 && len(only) == 0 {
		return p.noSnapshots(ctx)
	}
	return nil
}

// printLog prints lines as they come, or, the oldest first, when all are known, and returns how many.
func (a *app) printLog(ctx context.Context, p *place, lines iter.Seq2[*logLine, error], f *logFlags,
	screen *logScreen) (n int, err error) {
	var large tooLarge
	var last []*logLine // to be printed when all are known
	for line, err := range lines {
		if err == nil && n < shownAtOnce && !f.all && line.Snapshot != nil && !line.Snapshot.Pruned {
			err = large.add(ctx, p.store, line)
		}
		if err == nil && !f.reverse {
			err = a.printLogLine(ctx, p, line, f, screen)
		}
		if err != nil {
			return n, err
		}
		if f.reverse {
			last = append(last, line)
		}
		if n++; n == f.limit {
			break
		}
		if screen != nil && n <= shownAtOnce {
			a.out.Flush()
		}
	}
	for _, line := range slices.Backward(last) {
		if err := a.printLogLine(ctx, p, line, f, screen); err != nil {
			return n, err
		}
	}
	return n, nil
}

// shownAtOnce is how many lines are printed one by one: a screen of them is seen while the
// others are looked for.
const shownAtOnce = 200

// withLimit returns arguments with -N of log as --limit=N: git's users type it, and flags have
// no such form.
func withLimit(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil || c.Name() != logCommandName {
		return args
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		digits, ok := strings.CutPrefix(arg, "-")
		if ok && digits != "" && strings.Trim(digits, "0123456789") == "" && (i == 0 || !takesNext(c, args[i-1])) {
			args[i] = "--limit=" + digits
		}
	}
	return args
}

// takesNext reports whether an argument is a flag whose value is the argument behind it.
func takesNext(c *cobra.Command, arg string) bool {
	var f *pflag.Flag
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		f = c.Flag(name)
	} else if len(arg) > 1 && arg[0] == '-' {
		f = c.Flags().ShorthandLookup(arg[len(arg)-1:])
	}
	return f != nil && f.NoOptDefVal == ""
}

// isRemoteSession reports whether an argument may be REMOTE:SESSION.
func isRemoteSession(arg string) bool {
	remote, session, ok := strings.Cut(arg, ":")
	return ok && exchange.ValidName(remote) && session != "" && !strings.Contains(session, "/")
}

// areThere reports whether arguments are paths, as git takes them without --.
func (a *app) areThere(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool {
		_, err := os.Lstat(a.path(arg))
		return err != nil
	})
}

// smartCase reads a pattern. One without capitals matches them, too.
func smartCase(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err == nil && strings.ToLower(text) == text {
		re, err = regexp.Compile("(?i)" + text)
	}
	return re, err
}

// A logLine is what log says of a snapshot.
type logLine struct {
	*manager.Moment
	only           filter            // of paths; with --follow those that the file had
	own, contested *manager.Diff     // with --name-status, or where paths were named
	turn           *manager.TurnDiff // if it was asked for
	isPart         bool              // of a turn that goes on: another line has the rest, or it is open
	tooLarge       int               // files that were left out for their size
	saysTooLarge   bool              // they are not those of the line above

	joins        []string // with --graph: lines above it
	sign, beside string   // what stands before it, and before what follows
}

// logLines yields what is to be listed.
func (p *place) logLines(ctx context.Context, f *logFlags, only filter) iter.Seq2[*logLine, error] {
	if f.all {
		return p.recordLines(ctx, f)
	}
	return func(yield func(*logLine, error) bool) {
		err := p.chooseSession(ctx)
		var g *graph
		if f.graph {
			ctx, g = inside.WithAllBranches(ctx), new(graph)
		}
		more := make(map[int]bool) // turns of which more is to come, or was listed
		if err == nil {
			err = p.noteUnended(more)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for mo, err := range p.m.Timeline(ctx) {
			line := &logLine{Moment: mo, only: only}
			if err == nil && mo.ForkedFrom == "" {
				line.isPart = mo.GoesOn && more[mo.TurnIndex]
				more[mo.TurnIndex] = more[mo.TurnIndex] || mo.Kind == "step"
			}
			if err == nil && g != nil {
				line.joins, line.sign, line.beside = g.add(mo)
			}
			isWanted := err != nil || f.wants(mo)
			if !isWanted && !f.follow { // which goes over what is not listed, too
				continue
			}
			isKnown := err == nil && line.isKnown()
			if isKnown && (f.names || len(only) > 0) {
				line.own, line.contested, err = mo.Changes(ctx)
				if err == nil && len(only) > 0 && line.own.Unknown == "" && !only.keepsAny(line.own) &&
					!only.keepsAny(line.contested) {
					continue
				}
			}
			if err == nil && isKnown && f.follow {
				only, err = p.follow(ctx, line)
			}
			if err == nil && !isWanted {
				continue
			}
			if err == nil && isKnown && f.turns {
				line.turn, err = mo.TurnDiff(ctx)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// isKnown reports whether it is on record what was changed.
func (l *logLine) isKnown() bool { return l.Snapshot == nil || !l.Snapshot.Pruned }

// follow returns what the one file was called before a line. If that moved it, both names are
// those of the line.
func (p *place) follow(ctx context.Context, l *logLine) (filter, error) {
	if !slices.Contains(slices.Concat(l.own.Added, l.contested.Added), l.only[0]) {
		return l.only, nil
	}
	turn, err := l.TurnDiff(ctx)
	if err != nil {
		return nil, err
	}
	d := p.turnDiffer(turn, &diffFlags{renames: true})
	for c, err := range d.changes(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if c.Path == l.only[0] && c.from != "" {
			l.only = filter{c.Path, c.from}
			return filter{c.from}, nil
		}
	}
	return l.only, nil
}

// tooLarge finds out of the lines of log how many files were left out for their size.
type tooLarge struct {
	coverage store.ID // of the line above
	paths    []string // that are in it
}

// add notes what a line has to say.
func (t *tooLarge) add(ctx context.Context, g trees.Getter, l *logLine) error {
	if coverage := l.Snapshot.Coverage; coverage != t.coverage {
		var paths []string
		if !coverage.IsZero() {
			for o, err := range trees.Coverage(ctx, g, coverage) {
				if trees.IsLoss(err) { // 'snapctl check' tells of it
					return nil
				}
				if err != nil {
					return err
				}
				if o.Reason == trees.TooLarge {
					paths = append(paths, o.Path)
				}
			}
		}
		l.saysTooLarge = !slices.Equal(paths, t.paths)
		t.coverage, t.paths = coverage, paths
	}
	l.tooLarge = len(t.paths)
	return nil
}

// tooLargeText says of a line how many files were left out for their size; "" where the
// line above says it, or there is none.
func (l *logLine) tooLargeText() string {
	if !l.saysTooLarge || l.tooLarge == 0 {
		return ""
	}
	return "! " + words.Count(l.tooLarge, "file") + " not captured: over the size limit"
}

// withoutIdle leaves out turns that changed nothing where another line is of the same turn: a
// runtime may tell of each call of the model, and most change nothing. Of several such the
// newest stays.
func withoutIdle(lines iter.Seq2[*logLine, error]) iter.Seq2[*logLine, error] {
	return func(yield func(*logLine, error) bool) {
		var held []*logLine // a turn that changed nothing, and what is older and none
		var shown *logLine  // of a turn, that was yielded last
		flush := func() bool {
			for _, l := range held {
				if l.TurnIndex >= 0 {
					shown = l
				}
				if !yield(l, nil) {
					return false
				}
			}
			held = nil
			return true
		}
		for l, err := range lines {
			switch {
			case err != nil:
				if flush() {
					yield(nil, err)
				}
				return
			case l.TurnIndex < 0 && held != nil:
				held = append(held, l)
				continue
			case l.TurnIndex < 0:
			case held != nil && l.isSameTurn(held[0]):
				if l.Kind == "empty" {
					continue
				}
				held = held[1:]
			case l.Kind == "empty" && shown != nil && l.isSameTurn(shown):
				continue
			}
			if !flush() {
				return
			}
			if l.Kind == "empty" {
				held = []*logLine{l}
				continue
			}
			if l.TurnIndex >= 0 {
				shown = l
			}
			if !yield(l, nil) {
				return
			}
		}
		flush()
	}
}

func (l *logLine) isSameTurn(other *logLine) bool {
	return l.TurnIndex == other.TurnIndex && l.ForkedFrom == other.ForkedFrom
}

// recordLines yields all records of the store but those of edits.
func (p *place) recordLines(ctx context.Context, f *logFlags) iter.Seq2[*logLine, error] {
	return func(yield func(*logLine, error) bool) {
		for s, err := range p.store.Snapshots(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			mo := &manager.Moment{EntryID: s.Entry, TurnIndex: -1, Kind: s.Kind, Tree: s.Tree, Snapshot: s,
				Title: inside.Of(p.m).Title(ctx, s)}
			if r, err := history.Read(s); err == nil { // of a newer version it is not known
				mo.Agent, mo.Model = r.Facts.Agent, r.Facts.Model
			}
			if !f.wants(mo) {
				continue
			}
			if !history.IsEdit(s) && !yield(&logLine{Moment: mo}, nil) {
				return
			}
		}
	}
}

// keepsAny reports whether a filter keeps a path of a Diff.
func (f filter) keepsAny(d *manager.Diff) bool {
	for path := range d.Paths() {
		if f.keeps(path) {
			return true
		}
	}
	return false
}

// A jsonMoment is a line of log in JSON. Fields that are not known are null.
type jsonMoment struct {
	EntryID          *string       `json:"entryId"`
	TurnIndex        *int          `json:"turnIndex"`
	Kind             string        `json:"kind"`
	SnapshotTreeHash store.ID      `json:"snapshotTreeHash"`
	Time             *time.Time    `json:"time"`
	Counts           *jsonCounts   `json:"counts"`            // of paths
	Unknown          string        `json:"unknown,omitempty"` // why they are not all
	Diff             *manager.Diff `json:"diff,omitempty"`
	Contested        *manager.Diff `json:"contested,omitempty"`
	Files            []*jsonChange `json:"files,omitempty"` // with --patch and --stat
	Interrupted      bool          `json:"interrupted,omitempty"`
	GoesOn           bool          `json:"goesOn,omitempty"` // it is a part of a turn that was divided
	Partial          bool          `json:"partial,omitempty"`
	Pruned           bool          `json:"pruned,omitempty"`
	TooLarge         int           `json:"tooLarge,omitempty"` // files left out for their size; of the newest lines
	Rev              *string       `json:"rev"`                // that names it
	jsonTitle
	*jsonStanding
	*jsonRecord
}

// A jsonStanding says whether a turn was taken back, by which restore and but for which
// paths; of a restore, which turns it took back and put back.
type jsonStanding struct {
	TakenBack *jsonTakenBack `json:"takenBack,omitempty"`
	// paths at which a turn that was not taken back is not in, or not all of it
	Without    []string `json:"without,omitempty"`
	InPart     []string `json:"inPart,omitempty"`     // of these, or of But: a part of it is in, and a part is not
	Elsewhere  bool     `json:"elsewhere,omitempty"`  // on another branch of the conversation
	ForkedFrom string   `json:"forkedFrom,omitempty"` // the session whose turn it is, or that a fork began from
	TookBack   []int    `json:"tookBack,omitempty"`   // turns
	Reverts    []int    `json:"reverts,omitempty"`    // turns that were named to be taken back
	PutBack    []int    `json:"putBack,omitempty"`
	PartOf     []int    `json:"partOf,omitempty"` // those of TookBack and PutBack of which it was only a part
	Aborted    bool     `json:"aborted,omitempty"`
}

type jsonTakenBack struct {
	EntryID     *string   `json:"entryId"` // of the restore
	SnapshotSeq uint64    `json:"snapshotSeq"`
	Time        time.Time `json:"time"`
	But         []string  `json:"but,omitempty"` // paths at which it did not
}

func newJSONStanding(mo *manager.Moment) *jsonStanding {
	j := &jsonStanding{Without: mo.Without, InPart: mo.InPart, Elsewhere: mo.Elsewhere, ForkedFrom: mo.ForkedFrom,
		TookBack: mo.TookBack, PutBack: mo.PutBack, PartOf: mo.PartOf, Aborted: mo.Aborted, Reverts: mo.Reverts}
	if s := mo.TakenBack; s != nil {
		j.TakenBack = &jsonTakenBack{EntryID: words.OrNull(s.Entry), SnapshotSeq: s.Seq,
			Time: s.Time.UTC(), But: mo.But}
	}
	return j
}

type jsonCounts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
}

// printLogLine prints a line, on a screen if there is one.
func (a *app) printLogLine(ctx context.Context, p *place, l *logLine, f *logFlags, screen *logScreen) error {
	var d *differ
	if l.turn != nil && f.diff.shows() {
		d = p.turnDiffer(l.turn, &f.diff)
	}
	if a.flags.json {
		return a.printJSONMoment(ctx, l, f, d)
	}
	if screen == nil {
		a.printMoment(l, f.all)
	} else if err := screen.print(ctx, l, l.turn); err != nil {
		return err
	}
	if f.names && l.own != nil {
		indent := l.beside + "  "
		a.printDiff(l.own, indent, "")
		a.printDiff(l.contested, indent, " (contested)")
	}
	if d == nil || len(l.turn.Changes) == 0 && l.turn.Unknown == "" {
		return nil
	}
	fmt.Fprintln(a.out)
	if l.turn.Unknown != "" {
		fmt.Fprintln(a.out, a.paint(asRemoved, "not known: "+l.turn.Unknown))
		l.turn.Unknown = "" // said, and no reason to end
	}
	err := d.run(ctx, l.only)
	fmt.Fprintln(a.out)
	return err
}

// printJSONMoment prints a line in JSON. d has the files that are shown; nil: none are.
func (a *app) printJSONMoment(ctx context.Context, l *logLine, f *logFlags, d *differ) (err error) {
	j := &jsonMoment{Rev: words.OrNull(history.NameOf(l.EntryID, l.Snapshot)), EntryID: words.OrNull(l.EntryID),
		Kind: l.Kind, SnapshotTreeHash: l.Tree, Interrupted: l.Interrupted, GoesOn: l.GoesOn, Partial: l.Partial,
		TurnIndex: turnOrNull(l.TurnIndex), TooLarge: l.tooLarge, jsonTitle: jsonTitle{l.Title, l.Agent, l.Model}}
	if !f.all {
		j.Counts, j.Unknown = &jsonCounts{l.Added, l.Modified, l.Deleted}, l.Unknown
		j.jsonStanding = newJSONStanding(l.Moment)
	}
	if f.names {
		j.Diff, j.Contested = l.own, l.contested
	}
	if d != nil {
		if j.Files, err = d.list(ctx, l.only); err != nil {
			return err
		}
		j.Unknown = cmp.Or(l.turn.Unknown, j.Unknown)
	}
	if s := l.Snapshot; s != nil {
		j.Time, j.Pruned, j.jsonRecord = new(s.Time.UTC()), s.Pruned, newJSONRecord(s)
	}
	return a.printJSON(j)
}

// printMoment prints a line for people: as a record of a store, or as what happened in a
// session.
func (a *app) printMoment(l *logLine, asRecord bool) {
	turn, when := turnName(l.Kind, l.TurnIndex), ""
	if asRecord {
		turn = l.Kind
	}
	s := l.Snapshot
	if s != nil {
		when = clock(s.Time)
	}
	line := a.newLine()
	line.add("", fmt.Sprintf("%-8s", turn))
	line.add(asName, fmt.Sprintf("%-8s", cmp.Or(history.NameOf(l.EntryID, s), "-")))
	line.add("", cmp.Or(when, " "))
	add := func(is bool, colour, text string) {
		if is {
			line.add(colour, text)
		}
	}
	if asRecord {
		line.add("", fmt.Sprintf("%s  %s  %s", s.Tree.Short(), s.Session, words.Quote(s.Root)))
	} else {
		counts := nonZero([]amount{{l.Added, "added"}, {l.Modified, "modified"}, {l.Deleted, "deleted"}})
		line.add("", counts)
		add(counts == "" && l.Kind == "empty", "", "nothing changed")
	}
	add(l.isPart, asNote, "a part of the turn")
	line.add(asNote, standingText(l.Moment, func(s *store.Snapshot) string { return clock(s.Time) }))
	add(l.Unknown != "", asRemoved, "changes not known")
	add(l.Interrupted, asRemoved, "interrupted")
	add(s != nil && s.Pruned, asRemoved, "pruned")
	add(l.Partial, asRemoved, "in part")
	line.add(asNote, l.tooLargeText())
	if s != nil && s.Label != "" {
		line.add("", words.Quote(s.Label))
	}
	line.end(l.Title)
}

// standingText says whether a turn was taken back, or which turns a restore took back and
// put back; "" for a turn that is in as a whole. by says when a restore was, and which.
func standingText(mo *manager.Moment, by func(*store.Snapshot) string) string {
	var list []string
	if s := mo.TakenBack; s != nil {
		text := "taken back " + by(s)
		if len(mo.But) > 0 {
			text += ", all but " + wholeAndPart(mo.But, mo.InPart, firstThree)
		}
		list = append(list, text)
	}
	if len(mo.Without) > 0 {
		list = append(list, "in part: without "+wholeAndPart(mo.Without, mo.InPart, firstThree))
	}
	if mo.Elsewhere {
		list = append(list, "elsewhere in the conversation")
	}
	if mo.Kind == "fork" {
		list = append(list, "from "+whoseTurn(mo.ForkedFrom))
	}
	if mo.Kind != "fork" && strings.Contains(mo.ForkedFrom, ":") {
		list = append(list, "of "+whoseTurn(mo.ForkedFrom))
	}
	if len(mo.TookBack) > 0 {
		list = append(list, "took back "+wholeAndPart(mo.TookBack, mo.PartOf, turnList))
	} else if len(mo.Reverts) > 0 {
		list = append(list, "took back a part of "+turnList(mo.Reverts))
	}
	if len(mo.PutBack) > 0 {
		list = append(list, "put back "+wholeAndPart(mo.PutBack, mo.PartOf, turnList))
	}
	if mo.Aborted {
		list = append(list, "aborted: these files were changed back")
	}
	return strings.Join(list, ", ")
}

// wholeAndPart names paths or turns, of which some count only in part: "a, b and a part of c".
func wholeAndPart[T comparable](all, inPart []T, name func([]T) string) string {
	isPart := func(one T) bool { return slices.Contains(inPart, one) }
	whole := slices.DeleteFunc(slices.Clone(all), isPart)
	part := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !isPart(one) })
	var list []string
	if len(whole) > 0 {
		list = append(list, name(whole))
	}
	if len(part) > 0 {
		list = append(list, "a part of "+name(part))
	}
	return strings.Join(list, " and ")
}

// firstThree names some paths.
func firstThree(paths []string) string { return firstPaths(paths, 3) }

// turnList names turns: "turn 3", "turns 1, 3 to 7".
func turnList(turns []int) string {
	var parts []string
	for i := 0; i < len(turns); {
		j := i
		for j+1 < len(turns) && turns[j+1] == turns[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, strconv.Itoa(turns[i]))
		case j == i+1:
			parts = append(parts, strconv.Itoa(turns[i]), strconv.Itoa(turns[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", turns[i], turns[j]))
		}
		i = j + 1
	}
	if len(turns) == 1 {
		return "turn " + parts[0]
	}
	return "turns " + strings.Join(parts, ", ")
}

// turnName returns what people call a moment of a session.
func turnName(kind string, turn int) string {
	switch {
	case turn >= 0:
		return fmt.Sprintf("turn %d", turn)
	case kind == "base":
		return "offline"
	}
	return kind
}

// printDiff prints a line for each path of d, which may be nil.
func (a *app) printDiff(d *manager.Diff, before, after string) {
	if d == nil {
		return
	}
	if d.Unknown != "" {
		fmt.Fprintf(a.out, "%s%s\n", before, a.paint(asRemoved, "not known: "+d.Unknown))
	}
	for path, status := range d.Paths() {
		name := words.Quote(path)
		if status != tree.Deleted {
			name = a.link(path, name)
		}
		fmt.Fprintf(a.out, "%s%s %s%s\n", before, a.paint(statusColours[status], string(byte(status))), name, after)
	}
}

var statusColours = map[tree.Status]string{
	tree.Added: asAdded, tree.Modified: asChanged, tree.Retyped: asChanged, tree.Deleted: asRemoved,
	tree.Captured: asNote, tree.Uncaptured: asNote, renamed: asChanged,
}

// whoseTurn says of which session a turn is, or of which machine's directory.
func whoseTurn(forkedFrom string) string {
	if strings.Contains(forkedFrom, ":") {
		return words.Quote(forkedFrom)
	}
	return "session " + forkedFrom
}
