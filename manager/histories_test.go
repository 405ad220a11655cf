package manager

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

var histories = flag.Int("histories", 0, "histories that TestRulesHold and TestHistories make; default a few")

var shorten = flag.Duration("shorten", 20*time.Second, "how long TestHistories shortens a history that is wrong")

// A historyStep is something that happens, with all that it takes to have it
// happen again in a history with less before it.
type historyStep struct {
	id     int
	kind   string // turn, edit, restore, revert, undo, redo, fork, restart
	who    string
	parts  [][]historyEdit // of a turn: its windows are the odd ones; between them, and in edit, it is the user
	target string
	exact  bool
	past   bool // of undo and redo
	path   string
	policy string
	turns  []int
	how    string // of restore and revert: what becomes of conflicts
	look   bool   // ask after it for what restores would do

	within []historyStep // of a turn: what a tool of it asks for behind each part, if that has a kind
	last   *historyStep  // of a turn: somebody asks for it, which ends the turn
}

type historyEdit struct {
	path string
	line int    // from 0 on
	how  string // write, replace (by a new file), delete, link (to the file named)
	to   string
}

func (h historyStep) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", h.kind, h.who)
	for i, part := range h.parts {
		if h.kind == "turn" && i%2 == 1 {
			b.WriteString(" [")
		}
		for _, e := range part {
			fmt.Fprintf(&b, " %s %s", e.how, e.path)
			switch e.how {
			case "link":
				fmt.Fprintf(&b, "=%s", e.to)
			case "write", "replace":
				fmt.Fprintf(&b, ":%d", e.line)
			}
		}
		if h.kind == "turn" && i%2 == 1 {
			b.WriteString(" ]")
		}
		if i < len(h.within) && h.within[i].kind != "" {
			fmt.Fprintf(&b, " <%v>", h.within[i])
		}
	}
	if h.last != nil {
		fmt.Fprintf(&b, " by %v", *h.last)
	}
	for _, x := range []string{h.target, h.path, h.policy} {
		if x != "" {
			b.WriteString(" " + x)
		}
	}
	if h.exact {
		b.WriteString(" exact")
	}
	if h.past {
		b.WriteString(" past")
	}
	if h.how != "" {
		fmt.Fprintf(&b, " in conflict %s", h.how)
	}
	if len(h.turns) > 0 {
		fmt.Fprint(&b, " ", h.turns)
	}
	if h.look {
		b.WriteString(" ?")
	}
	return strings.TrimSpace(b.String())
}

// A historyKind says what histories have.
type historyKind struct {
	merge, user, two, forks, exact, overwrite, tools, links, engine, logged, restarts, divided, hows bool
}

func (k historyKind) String() string {
	type plain historyKind
	var list []string
	for word := range strings.FieldsSeq(strings.Trim(fmt.Sprintf("%+v", plain(k)), "{}")) {
		if name, ok := strings.CutSuffix(word, ":true"); ok {
			list = append(list, name)
		}
	}
	return "with " + strings.Join(list, " ")
}

// A history is a story at random.
type aHistory struct {
	*storyTeller
	kind   historyKind
	rng    *rand.Rand
	coin   *rand.Rand // of what is asked for of conflicts
	inode  map[string]int
	next   int
	wrong  string // what does not hold
	before string // kind of the step before

	gave    map[string]bool // paths at which something was in conflict, and stayed or was given up
	deleted map[string]bool // paths that the user has deleted
}

var historyPaths = []string{"a", "b", "d/c"}

func newHistory(t *testing.T, kind historyKind, real bool) *aHistory {
	first := func(p string) string { // less than half of which is in another file: it was not moved
		return ruleText(p+"0 at first", p+"1 at first", p+"2 at first", p+"3 at first")
	}
	start := ruleFiles{"a": first("a"), "b": first("b"), "d/keep": "kept\n"} // so that d stays
	h := &aHistory{storyTeller: newStory(t, kind.merge, real, start), kind: kind,
		inode: map[string]int{"a": -1, "b": -2}, gave: make(map[string]bool), deleted: make(map[string]bool)}
	h.tools, h.logged, h.detached, h.quiet = kind.tools, kind.logged, kind.divided, true
	if real && kind.engine {
		h.engine = newHistoryEngine(h)
	}
	h.begin("s")
	if kind.two {
		h.begin("t")
	}
	return h
}

func newHistoryEngine(h *aHistory) *Engine {
	e, err := NewEngine(&EngineOptions{StoreRoot: h.real.stores})
	if err != nil {
		h.Fatal(err)
	}
	return e
}

// end closes what a history has open. It returns what went wrong.
func (h *aHistory) end() string {
	if h.real != nil {
		h.closeAll()
		if h.engine != nil {
			if err := h.engine.Close(); err != nil {
				h.Error(err)
			}
		}
	}
	if h.wrong == "" && len(h.fails) > 0 {
		h.wrong = strings.Join(h.fails, "\n")
	}
	return h.wrong
}

func (h *aHistory) isWrong() bool { return h.wrong != "" || len(h.fails) > 0 }

func (h *aHistory) bad(format string, args ...any) {
	if h.wrong == "" {
		h.wrong = fmt.Sprintf(format, args...)
	}
}

// generate makes up the next step.
func (h *aHistory) generate() historyStep {
	h.next++
	st := historyStep{id: h.next, look: h.rng.IntN(4) == 0}
	names := slices.Sorted(maps.Keys(h.rules.sessions))
	st.who = names[h.rng.IntN(len(names))]
	s := h.rules.sessions[st.who]
	n := h.rng.IntN(20)
	if h.before == "revert" && h.rng.IntN(3) == 0 {
		n = 18
	}
	switch {
	case n < 7:
		st.kind = "turn"
		st.parts = h.edits()
		if !h.kind.tools {
			st.parts = [][]historyEdit{nil, h.edit(h.rng.IntN(3), nil)}
		}
		if h.kind.divided {
			h.makeParts(&st)
		}
	case n < 10 && h.kind.user:
		st.kind, st.who = "edit", ""
		st.parts = [][]historyEdit{h.edit(1, nil)}
	case n < 14:
		h.makeRestore(&st, s)
	case n < 16 && s.next > 0:
		st.kind = "revert"
		st.turns = []int{h.rng.IntN(s.next)}
		if h.rng.IntN(4) == 0 {
			st.turns = append(st.turns, h.rng.IntN(s.next))
		}
		if h.kind.exact && h.rng.IntN(6) == 0 {
			st.path = historyPaths[h.rng.IntN(len(historyPaths))]
		}
	case n == 16 && h.kind.restarts:
		st.kind, st.who = "restart", ""
	case n == 17 && h.kind.forks && s.next > 0 && len(names) < 4:
		st.kind, st.target = "fork", fmt.Sprint("f", h.next)
		st.turns = []int{h.rng.IntN(s.next)}
	case n < 19:
		st.kind = "undo"
	default:
		st.kind = "redo"
	}
	h.before = st.kind
	if h.kind.hows && h.coin.IntN(2) == 0 && (st.kind == "restore" || st.kind == "revert") {
		st.how = []string{"theirs", "markers", "abort"}[h.coin.IntN(3)]
	}
	st.past = (st.kind == "undo" || st.kind == "redo") && h.rng.IntN(3) == 0
	return st
}

// makeRestore makes up a restore.
func (h *aHistory) makeRestore(st *historyStep, s *ruleSession) {
	st.kind = "restore"
	st.target = h.target(s)
	switch h.rng.IntN(h.rest()) {
	case 0:
		st.exact = h.kind.exact
	case 1:
		if h.kind.exact {
			st.path = historyPaths[h.rng.IntN(len(historyPaths))]
		}
	}
	st.policy = []string{"", "", "", "", "skip", "abort"}[h.rng.IntN(6)]
	if h.kind.overwrite && h.rng.IntN(6) == 0 {
		st.policy = "overwrite"
	}
}

// makeParts makes up what tools of a turn ask for, which divides it, and what ends it.
func (h *aHistory) makeParts(st *historyStep) {
	ask := func() (asked historyStep) {
		h.next++
		asked.id, asked.who = h.next, st.who
		switch h.rng.IntN(5) {
		case 0:
			asked.kind = "undo"
		case 1:
			asked.kind = "redo"
		default:
			h.makeRestore(&asked, h.rules.sessions[st.who])
		}
		return asked
	}
	for i := range st.parts {
		var asked historyStep
		switch n := h.rng.IntN(6); {
		case i%2 == 0:
		case n < 2:
			asked = ask()
		case n == 2:
			asked.kind, asked.who = "snapshot", st.who
		}
		st.within = append(st.within, asked)
	}
	if h.rng.IntN(4) == 0 {
		asked := ask()
		st.last = &asked
	}
}

// rest is one of how many restores asks for a whole directory, or names paths:
// more of them behind an undo.
func (h *aHistory) rest() int {
	if h.before == "undo" || h.before == "redo" {
		return 3
	}
	return 8
}

func (h *aHistory) target(s *ruleSession) string {
	switch n := h.rng.IntN(8); {
	case n < 2:
		return "start"
	case n < 4:
		return fmt.Sprint("@~", 1+h.rng.IntN(3))
	case n < 6 && s.next > 0:
		return fmt.Sprint("turn:", h.rng.IntN(s.next))
	case n == 6 && s.next > 0:
		if h.kind.logged && h.rng.IntN(2) == 0 {
			return fmt.Sprint("prompt:", h.rng.IntN(s.next))
		}
		return fmt.Sprint("hash:", h.rng.IntN(s.next))
	case n == 7:
		var own []int
		for i, m := range h.looks {
			if slices.Contains(s.moments, m) {
				own = append(own, i)
			}
		}
		if len(own) > 0 {
			return fmt.Sprint("look:", own[h.rng.IntN(len(own))])
		}
	}
	return "@~1"
}

// edits makes up the windows of a turn, and what the user does between them.
func (h *aHistory) edits() (parts [][]historyEdit) {
	made := make(map[string]bool)
	for range h.rng.IntN(4) {
		var between []historyEdit
		if h.kind.user && h.rng.IntN(3) == 0 {
			between = h.edit(1, made)
		}
		parts = append(parts, between, h.edit(1+h.rng.IntN(2), made))
	}
	return parts
}

// edit makes up edits. A file that is made within a turn is not deleted in it,
// so that no path is changed for nothing.
func (h *aHistory) edit(n int, made map[string]bool) (list []historyEdit) {
	for range n {
		e := historyEdit{path: historyPaths[h.rng.IntN(len(historyPaths))], line: h.rng.IntN(4), how: "write"}
		switch k := h.rng.IntN(12); {
		case k == 0 && !made[e.path]:
			e.how = "delete"
		case k < 3:
			e.how = "replace"
		case k < 5 && h.kind.links:
			e.how, e.to = "link", historyPaths[h.rng.IntN(len(historyPaths))]
			if e.to == e.path {
				e.how = "write"
			}
		}
		if made != nil && e.how != "delete" && h.rules.disk.at(e.path) == ruleNone {
			made[e.path] = true
		}
		list = append(list, e)
	}
	return list
}

// do has a step happen, and checks what has to hold.
func (h *aHistory) do(st historyStep) {
	s := h.rules.sessions[st.who]
	if st.who != "" && s == nil {
		return
	}
	h.steps = append(h.steps, fmt.Sprint(st))
	n := len(h.steps)
	deed := func(st historyStep) {
		h.doRestore(st)
		if h.kind.links {
			for _, p := range append(slices.Clone(h.last.restored), h.last.deleted...) {
				h.next++
				h.inode[p] = h.next
			}
		}
	}
	switch st.kind {
	case "edit":
		for k, e := range st.parts[0] {
			h.doEdit(e, fmt.Sprintf("u%d.%d", st.id, k))
		}
	case "turn":
		h.turnStart(st.who)
		for i, part := range st.parts {
			fn := func() {
				for k, e := range part {
					who := st.who
					if i%2 == 0 {
						who = "u"
					}
					h.doEdit(e, fmt.Sprintf("%s%d.%d.%d", who, st.id, i, k))
				}
			}
			tool := func(fn func()) {
				if h.kind.tools {
					h.tool(st.who, fn)
				} else {
					fn()
				}
			}
			if i%2 == 1 {
				tool(fn)
			} else {
				fn()
			}
			if i >= len(st.within) || st.within[i].kind == "" ||
				st.within[i].kind == "restore" && !h.hasTarget(st.within[i]) {
				continue
			}
			tool(func() {
				h.divide(st.who, func() {
					if asked := st.within[i]; asked.kind == "snapshot" {
						h.snapshot(st.who)
					} else {
						deed(asked)
					}
				})
			})
		}
		if st.last != nil {
			h.endingTurn(st.who, func() { deed(*st.last) })
		} else {
			h.turnEnd(st.who)
		}
	case "restart":
		if h.engine != nil {
			h.closeAll()
			names := slices.Sorted(maps.Keys(h.rules.sessions))
			if err := h.engine.Close(); err != nil {
				h.Fatal(err)
			}
			h.engine = newHistoryEngine(h)
			for _, name := range names {
				h.open(name)
			}
		} else {
			h.restart()
		}
	case "fork":
		if s.moment("end", st.turns[0]) == nil {
			break
		}
		h.fork(st.who, st.target, st.turns[0])
	default:
		deed(st)
	}
	h.steps = h.steps[:n]
	if h.ended {
		return
	}
	if h.real != nil && !h.isWrong() {
		h.compare()
	}
	if st.look && h.real != nil && !h.isWrong() {
		h.probe()
	}
	for name, s := range h.rules.sessions {
		if s.lost != "" {
			h.bad("session %s: %s", name, s.lost)
		}
	}
	if !h.isWrong() {
		h.checkEffects()
	}
}

func (h *aHistory) doEdit(e historyEdit, token string) {
	was, text := h.rules.disk.at(e.path), ""
	if was == ruleNone {
		text = ruleText(token+"-0", token+"-1", token+"-2", token+"-3")
	} else {
		lines := strings.Split(was, "\n")
		lines[2*e.line] = token
		text = strings.Join(lines, "\n")
	}
	p := ""
	if h.real != nil {
		p = filepath.Join(h.real.dir, e.path)
	}
	switch e.how {
	case "delete":
		h.deleted[e.path] = h.deleted[e.path] || token[0] == 'u'
		h.put(e.path, ruleNone)
		delete(h.inode, e.path)
	case "link":
		if h.rules.disk.at(e.to) == ruleNone || h.inode[e.to] == h.inode[e.path] {
			return
		}
		h.rules.disk[e.path], h.inode[e.path] = h.rules.disk[e.to], h.inode[e.to]
		if h.real != nil {
			os.Remove(p)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				h.Fatal(err)
			}
			if err := os.Link(filepath.Join(h.real.dir, e.to), p); err != nil {
				h.Fatal(err)
			}
		}
	case "replace":
		h.next++
		h.inode[e.path] = h.next
		h.rules.disk.put(e.path, text)
		if h.real != nil {
			h.real.write(e.path+".new", text)
			if err := os.Rename(p+".new", p); err != nil {
				h.Fatal(err)
			}
		}
	default:
		if was == ruleNone {
			h.next++
			h.inode[e.path] = h.next
		}
		for q := range h.inode {
			if q != e.path && h.inode[q] == h.inode[e.path] && h.rules.disk.at(q) != ruleNone {
				h.rules.disk[q] = text
			}
		}
		h.put(e.path, text)
	}
}

// doRestore has a restore, revert, undo or redo happen.
func (h *aHistory) doRestore(st historyStep) {
	before := h.rules.clone()
	s := h.rules.sessions[st.who]
	switch st.kind {
	case "undo", "redo":
		h.takeBack(st.kind, st.who, st.past)
		h.checkText(before, st, h.last.took)
	case "revert":
		if slices.ContainsFunc(st.turns, func(n int) bool { return n >= s.next }) {
			h.last = &ruleAnswer{}
			return
		}
		var paths []string
		if st.path != "" {
			paths = append(paths, st.path)
		}
		h.revertOr(st.who, st.how, paths, st.turns...)
		h.checkText(before, st, nil)
		h.checkLedger(before, st)
		h.checkComes(before, st)
	default:
		if !h.hasTarget(st) {
			h.last = &ruleAnswer{}
			return
		}
		h.restore(st.who, st.target, func(q *ruleRequest) {
			q.policy, q.exact, q.conflict = st.policy, st.exact, st.how
			if st.path != "" {
				q.paths = []string{st.path}
			}
		})
		h.checkText(before, st, nil)
		h.checkComes(before, st)
	}
	maps.Copy(h.gave, h.last.gave)
	for p := range h.last.skipped {
		h.gave[p] = true
	}
	if h.last.outcome == "ok" || h.last.outcome == "left" && len(h.last.restored)+len(h.last.deleted) > 0 {
		if !h.hasMarked(st) {
			h.checkBack(before, st)
		}
	}
}

// hasMarked reports whether what was done has left markers, which the user has resolved by now;
// a restore to a moment brings those along that a restore had left there.
func (h *aHistory) hasMarked(st historyStep) bool {
	list := h.rules.sessions[st.who].undos
	if st.kind == "undo" {
		list = h.rules.sessions[st.who].redos
	}
	if len(list) == 0 {
		return false
	}
	for _, d := range list[len(list)-1].paths {
		if strings.Contains(d.left, ruleMarker) {
			return true
		}
	}
	return false
}

// checkLedger requires of a revert that each line of the directory is still there but those
// that the turns wrote, and that of these none is where no conflict is listed.
func (h *aHistory) checkLedger(before *rules, st historyStep) {
	if h.kind.links || h.kind.overwrite { // other files change along, or what was overwritten comes back as it was
		return
	}
	s := before.sessions[st.who]
	isOne := func(turn int) bool {
		return slices.ContainsFunc(st.turns, func(n int) bool { return s.numbers[n] == s.numbers[turn] })
	}
	for p, text := range before.disk {
		if h.last.gave[p] {
			continue
		}
		goes := st.path == "" || st.path == p
		for _, line := range strings.Split(text, "\n") {
			if line == "" || line[0] == '~' { // which several wrote
				continue
			}
			// Where a turn that stays found it while it was out another session had brought it again: it
			// may stay.
			isOthers := func(id int) bool {
				return slices.ContainsFunc(s.in[p], func(other int) bool {
					o := s.changes[other]
					stays := o.turn >= 0 && !isOne(o.turn)
					return stays && other > id && !o.under.has(id) && ruleHasLine(o.before, line)
				})
			}
			wrote := func(id int) bool {
				c := s.changes[id]
				is := ruleHasLine(s.without(*c, s.in[p]), line) && !ruleHasLine(c.before, line)
				return c.turn >= 0 && isOne(c.turn) && is && !ruleHasLine(s.whole(*c).before, line)
			}
			theirs := goes && slices.ContainsFunc(s.in[p], wrote)
			mayStay := slices.ContainsFunc(s.in[p], func(id int) bool { return wrote(id) && isOthers(id) })
			_, stays := h.last.skipped[p]
			switch is := ruleHasLine(h.rules.disk.at(p), line); {
			case !theirs && !is:
				h.bad("%v: the line %s of %s is gone, which none of them wrote", st, line, p)
			case theirs && !mayStay && is && !stays && len(h.last.restored)+len(h.last.deleted) > 0:
				h.bad("%v: the line %s of %s is there, and no conflict is listed", st, line, p)
			}
		}
	}
}

// hasTarget reports whether a restore has something to go to that is known by one name.
func (h *aHistory) hasTarget(st historyStep) bool {
	s := h.rules.sessions[st.who]
	kind, arg, _ := strings.Cut(st.target, ":")
	var n int
	fmt.Sscan(arg, &n)
	switch kind {
	case "look":
		return n < len(h.looks) && slices.Contains(s.moments, h.looks[n]) && !h.looks[n].idle
	case "turn", "hash", "prompt":
		end := s.moment("end", n)
		return end != nil && !(kind == "turn" && s.isPart(n)) &&
			!(kind == "hash" && h.real != nil && !h.hasHash(end.disk))
	}
	return true
}

// hasHash reports whether it is known what a directory is called.
func (h *aHistory) hasHash(disk ruleFiles) bool {
	_, ok := h.hashes[fmt.Sprint(disk)]
	return ok
}

// checkText requires that no line of the user has gone, but by a change that
// was named: one that is put back and had overwritten it, a restore that had
// brought it, or by name.
func (h *aHistory) checkText(before *rules, st historyStep, taken *ruleRestore) {
	if st.exact || st.path != "" && st.kind == "restore" || st.policy == "overwrite" {
		return
	}
	was, is := before.sessions[st.who], h.rules.sessions[st.who]
	for p, text := range before.disk {
		if h.kind.links { // a link of the turn's may have brought it
			break
		}
		if h.last.gave[p] {
			continue
		}
		for _, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, "u") || slices.Contains(strings.Split(h.rules.disk.at(p), "\n"), line) {
				continue
			}
			fine := false
			came, went := is.in[p].minus(was.in[p]), was.in[p].minus(is.in[p])
			if h.last.skipped[p] != "" { // some may have come, or gone, in part
				came, went = was.outAt(p), was.in[p]
			}
			for _, id := range came {
				c := is.changes[id] // if it is mixed, the user had taken the line out before
				fine = fine || (c.mixed || ruleHasLine(c.before, line)) && !ruleHasLine(c.after, line)
			}
			for _, id := range went { // a cut that is taken back had brought it
				c := was.changes[id]
				fine = fine || c.turn < 0 && ruleHasLine(c.after, line) && !ruleHasLine(c.before, line)
				for _, cut := range c.cuts { // or what it had taken back of a change had overwritten it
					of := &cut.of
					fine = fine || (of.mixed || ruleHasLine(of.before, line)) && !ruleHasLine(of.after, line)
				}
			}
			if taken != nil {
				d := taken.paths[p]
				fine = fine || ruleHasLine(d.left, line) && !ruleHasLine(d.found, line)
			}
			if !fine {
				h.bad("%v: the user's line %s of %s is gone", st, line, p)
			}
		}
	}
}

// checkComes requires that a line of the user, or of a turn that is in, is there again which a
// change has taken away that is taken back, if nobody else has: or a conflict is listed.
func (h *aHistory) checkComes(before *rules, st historyStep) {
	isAsked := st.exact || st.path != "" && st.kind == "restore" || st.policy != "" // for what is at the target
	if isAsked || !h.kind.merge || h.kind.links || h.kind.overwrite || h.kind.two || h.last.outcome == "aborted" {
		return
	}
	was, is := before.sessions[st.who], h.rules.sessions[st.who]
	for p, in := range was.in {
		if n := len(in); n == 0 || was.changes[in[n-1]].after != before.disk.at(p) { // others have made it what it is
			continue
		}
		goes := in.minus(is.in[p])
		comes := is.in[p].minus(in) // which may be without it: the user had taken it away before
		isIn := (st.path == "" || st.path == p) && !h.deleted[p]
		if _, ok := h.last.skipped[p]; ok || !isIn || h.last.gave[p] || h.gave[p] || len(comes) > 0 {
			continue
		}
		if h.last.outcome == "nothing" && st.kind == "revert" {
			goes = slices.DeleteFunc(slices.Clone(in), func(id int) bool {
				return !slices.Contains(st.turns, was.changes[id].turn)
			})
		}
		for _, id := range goes {
			for _, line := range strings.Split(was.changes[id].before, "\n") {
				isLine := line != "" && line[0] != '~' && line != ruleNone
				if isLine && was.isTakenBy(line, id) && is.isOfOthers(line, p, goes) &&
					!ruleHasLine(h.rules.disk.at(p), line) {
					h.bad("%v: the line %s of %s, which change %d took away, does not come", st, line, p, id)
				}
			}
		}
	}
}

// isTakenBy reports whether a change, and nothing else, has taken a line away.
func (s *ruleSession) isTakenBy(line string, id int) bool {
	for _, c := range s.changes {
		has := ruleHasLine(c.before, line) && !ruleHasLine(c.after, line)
		if c.path == s.changes[id].path && (has != (c.id == id) || len(c.cuts) > 0) {
			return false
		}
	}
	return true
}

// isOfOthers reports whether a line was written by nobody who is out of a path, but for changes
// that have gone.
func (s *ruleSession) isOfOthers(line, p string, gone ruleSet) bool {
	for _, c := range s.changes {
		wrote := ruleHasLine(c.after, line) && !ruleHasLine(c.before, line)
		if c.path == p && wrote && (gone.has(c.id) || !s.in[p].has(c.id)) {
			return false
		}
	}
	return true
}

// outAt returns the changes of a path that are not in.
func (s *ruleSession) outAt(p string) (out ruleSet) {
	for id, c := range s.changes {
		if c.path == p && !s.in[p].has(id) {
			out = append(out, id)
		}
	}
	return out
}

func ruleHasLine(text, line string) bool { return slices.Contains(strings.Split(text, "\n"), line) }

// checkBack requires that undo and redo directly behind a restore give back
// bytes, line and expectations.
func (h *aHistory) checkBack(before *rules, st historyStep) {
	verbs := []string{"undo", "redo"}
	if st.kind == "undo" {
		verbs = []string{"redo", "undo"}
	}
	w := h.rules.clone()
	for i, want := range []*rules{before, h.rules} {
		a := w.do(ruleRequest{verb: verbs[i], session: st.who})
		if d := ruleDiffer(w.disk, want.disk); len(d) > 0 || a.outcome != "ok" {
			h.bad("%v, then %s: %s, %q is not as it was", st, verbs[i], a.outcome, d)
		}
		x, y := w.sessions[st.who], want.sessions[st.who]
		if !x.line.is(y.line) {
			h.bad("%v, then %s: the line is %v, it was %v", st, verbs[i], x.line, y.line)
		}
		for _, p := range ruleKeys(x.in, y.in) {
			if exp := y.expects(p, y.in[p]); !x.in[p].is(y.in[p]) ||
				x.expects(p, x.in[p]) != exp && exp != ruleUnknown {
				h.bad("%v, then %s: the standing of %s is not as it was", st, verbs[i], p)
			}
		}
	}
}

// checkEffects requires that each line of a turn on the disk can be taken back,
// and, where nobody else edits, that start gives the start.
func (h *aHistory) checkEffects() {
	if len(h.rules.sessions) > 1 || h.kind.links { // a link brings the lines of another file
		return
	}
	s := h.rules.sessions["s"]
	for p, text := range h.rules.disk {
		for _, line := range strings.Split(text, "\n") {
			for _, c := range s.changes {
				wrote := c.turn >= 0 && c.path == p && ruleHasLine(c.after, line) && !ruleHasLine(c.before, line)
				if strings.HasPrefix(line, "s") && wrote && !s.in[p].has(c.id) {
					h.bad("%s: the line %s is there, and the change that wrote it is taken back", p, line)
				}
			}
		}
	}
	if h.kind.links {
		return
	}
	w := h.rules.clone()
	a := w.do(ruleRequest{verb: "restore", session: "s", to: s.start()})
	if !h.kind.user {
		unlessGiven := func(p string) bool { return h.gave[p] && a.skipped[p] != "" }
		if d := slices.DeleteFunc(ruleDiffer(w.disk, s.start().disk), unlessGiven); len(d) > 0 {
			h.bad("start does not give the start: %q, %s", d, a.outcome)
		}
	}
	for p, text := range w.disk {
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "s") && a.skipped[p] == "" {
				h.bad("start leaves %s in %s and does not say so", line, p)
			}
		}
	}
}

// probe asks what restores would do, of the rules and of the managers.
func (h *aHistory) probe() {
	for name, s := range h.rules.sessions {
		h.useLog(name)
		targets := []string{"start"}
		for n := range min(len(s.line)+1, 4) {
			targets = append(targets, fmt.Sprint("@~", n+1))
		}
		for _, target := range targets {
			q := ruleRequest{verb: "restore", session: name, to: s.start()}
			if n, ok := strings.CutPrefix(target, "@~"); ok {
				q.to = nil
				fmt.Sscan(n, &q.back)
			}
			a, _ := h.rules.preview(q)
			r, err := h.m[name].RestoreFiles(h.Context(),
				&RestoreOptions{Target: target, OnDirty: h.policy(), Preview: true})
			dirty := !h.isMoreDirty(r, a)
			got, want := storyAnswer(r, err, dirty), storyRuleAnswer(a, dirty)
			if got != want && (want != "unknown" || got != "nothing") && !leavesMore(r, a) {
				h.fail("%s would restore %s: %s, want %s%s", name, target, got, want, storyReasons(r))
				return
			}
		}
		for _, verb := range []string{"undo", "redo"} {
			want, _ := h.rules.preview(ruleRequest{verb: verb, session: name})
			fn := h.m[name].Undo
			if verb == "redo" {
				fn = h.m[name].Redo
			}
			r, err := fn(h.Context(), &UndoOptions{OnDirty: h.policy(), Preview: true})
			if got, want := storyAnswer(r, err, false), storyRuleAnswer(want, false); got != want {
				h.fail("%s would %s: %s, want %s%s", name, verb, got, want, storyReasons(r))
				return
			}
		}
	}
	h.compareNext("undo")
	h.compareNext("redo")
}

// tellHistory makes up a history and returns its steps, to the one at which
// something is wrong.
func tellHistory(t *testing.T, kind historyKind, real bool, seed uint64, steps int) (list []historyStep, wrong string) {
	h := newHistory(t, kind, real)
	h.rng, h.coin = rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 4))
	for range steps {
		st := h.generate()
		list = append(list, st)
		h.do(st)
		if h.isWrong() || h.ended {
			break
		}
	}
	return list, h.end()
}

// shortenHistory leaves out steps, and parts of them, as long as something is
// still wrong.
func shortenHistory(t *testing.T, kind historyKind, real bool, list []historyStep, wrong string,
	until time.Time) ([]historyStep, string) {
	again := func(list []historyStep) string {
		h := newHistory(t, kind, real)
		h.next = 1 << 20
		for _, st := range list {
			if h.do(st); h.isWrong() || h.ended {
				break
			}
		}
		return h.end()
	}
	for changed := true; changed; {
		changed = false
		keep := func(try []historyStep) bool {
			if !time.Now().Before(until) {
				return false
			}
			w := again(try)
			if w == "" {
				return false
			}
			list, wrong, changed = try, w, true
			return true
		}
		for i := len(list) - 1; i >= 0; i-- {
			if keep(slices.Delete(slices.Clone(list), i, i+1)) {
				continue
			}
			for n := 0; ; n++ { // what is left out of it by one
				less, ok := list[i].less(n)
				if !ok {
					break
				}
				try := slices.Clone(list)
				try[i] = less
				if keep(try) {
					n--
				}
			}
		}
	}
	return list, wrong
}

// less returns a step with one of its parts left out, the one that is counted by n; ok
// is false if it has not so many.
func (h historyStep) less(n int) (less historyStep, ok bool) {
	is := func() bool { n--; return n == -1 }
	if h.look && is() {
		h.look = false
		return h, true
	}
	if h.last != nil && is() {
		h.last = nil
		return h, true
	}
	for i := range h.within {
		if h.within[i].kind != "" && is() {
			h.within = slices.Clone(h.within)
			h.within[i] = historyStep{}
			return h, true
		}
	}
	for i := 1; h.kind == "turn" && i < len(h.parts) && len(h.parts) > 2; i += 2 {
		if (i >= len(h.within) || h.within[i].kind == "") && is() {
			h.parts = slices.Delete(slices.Clone(h.parts), i-1, i+1)
			if i < len(h.within) {
				h.within = slices.Delete(slices.Clone(h.within), i-1, i+1)
			}
			return h, true
		}
	}
	for i := range h.parts {
		for k := range h.parts[i] {
			if is() {
				h.parts = slices.Clone(h.parts)
				h.parts[i] = slices.Delete(slices.Clone(h.parts[i]), k, k+1)
				return h, true
			}
		}
	}
	return h, false
}

func randomKind(rng *rand.Rand) historyKind {
	coin := func() bool { return rng.IntN(2) == 0 }
	return historyKind{user: rng.IntN(4) > 0, two: rng.IntN(3) == 0, forks: rng.IntN(3) == 0, exact: coin(),
		overwrite: coin(), tools: coin(), links: rng.IntN(4) == 0, restarts: coin(), divided: coin()}
}

func historyReport(seed uint64, kind historyKind, list []historyStep, wrong string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %v\n", seed, kind)
	for i, st := range list {
		fmt.Fprintf(&b, "%3d %v\n", i, st)
	}
	return b.String() + wrong
}

// TestRulesHold checks that the rules keep what they promise: nothing of the
// user's is lost, what is done can be taken back, start is the start.
func TestRulesHold(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	n := cmp.Or(*histories, 400)
	first := testseed.Of(t)
	for i := range uint64(n) {
		holdRules(t, first+i)
	}
	for _, seed := range []uint64{9211070, 9223126, 9240733, 9800988, 9802959} { // once wrong
		holdRules(t, seed)
	}
}

// holdRules has a history happen by the rules alone.
func holdRules(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kind := randomKind(rng)
	kind.merge, kind.links, kind.hows = rng.IntN(3) > 0, false, true
	list, wrong := tellHistory(t, kind, false, seed, min(*modelSteps, 30))
	if wrong != "" {
		list, wrong = shortenHistory(t, kind, false, list, wrong, time.Now().Add(20*time.Second))
		t.Fatal(historyReport(seed, kind, list, wrong))
	}
}

// TestHistories has histories happen in directories, with managers, and
// compares what comes of each step with the rules. It prints the shortest
// history that it finds to be wrong.
func TestHistories(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	n := cmp.Or(*histories, 4)
	first := testseed.Of(t)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) { compareHistory(t, first+i, true) })
	}
}

// TestHistoriesOnceWrong has histories happen again in which the managers, or the rules, once
// went wrong: as long as histories are made up as they are now.
func TestHistoriesOnceWrong(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, seed := range []uint64{60901, 92112, 94023, 700077, 800111, 800493, 810618, 810627, 830169, 830309,
		901102} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { compareHistory(t, seed, false) })
	}
	for _, seed := range []uint64{3310120, 3320077, 4450063, 4510042, 4600005, 4620034, 4700062} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { compareHistory(t, seed, true) })
	}
}

// compareHistory has a history happen; hows: some restores say what becomes of conflicts.
func compareHistory(t *testing.T, seed uint64, hows bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kind := randomKind(rng)
	kind.engine, kind.merge = rng.IntN(2) == 0, rng.IntN(2) == 0
	kind.divided, kind.hows = kind.divided && !kind.forks, hows
	kind.logged = !kind.divided && (kind.forks || rng.IntN(3) == 0)
	list, wrong := tellHistory(t, kind, true, seed, *modelSteps)
	if wrong == "" {
		return
	}
	list, wrong = shortenHistory(t, kind, true, list, wrong, time.Now().Add(*shorten))
	t.Error(historyReport(seed, kind, list, wrong))
}
