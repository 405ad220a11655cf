package picker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// A detail is what a row changed, as far as it was read.
type detail struct {
	rev       string
	lines     int // of context
	hunks     []manager.Hunk
	next      string // cursor of the part that comes next
	isRead    bool   // all of it
	isReading bool
	err       error

	files    []file
	isFolded map[string]bool // paths of which only the name is shown

	at   int // in items
	top  int // first line on the screen
	doc  []line
	item []item // that the cursor can be on, in order
	docs int    // width for which doc was made; 0: it is to be made
}

// A file is one of which hunks were read.
type file struct {
	path           string
	first, last    int // in hunks, without the last
	added, deleted int // lines
}

// An item is a file or, if hunk is not negative, one of its hunks.
type item struct{ file, hunk, line int }

// A line is one of the document that is made of a detail.
type line struct {
	text string
	kind byte // + - and blank as in a patch; f: a file, h: a hunk, which items are; .: what is left out
	item int  // of f and h
}

// hunksMsg is a part of what a row changed.
type hunksMsg struct {
	rev    string
	lines  int // of context
	hunks  []manager.Hunk
	next   string
	err    error
	isMore bool
}

// load reads what a row changed, the first part or the next.
func (m *model) load(rev string) tea.Cmd {
	d := m.details[rev]
	if d == nil {
		for len(m.details) >= maxDetails {
			delete(m.details, slices.Min(slices.Collect(maps.Keys(m.details))))
		}
		d = &detail{rev: rev, lines: m.lines, isFolded: make(map[string]bool)}
		m.details[rev] = d
	}
	if d.isReading || d.isRead {
		return nil
	}
	d.isReading = true
	ctx, src, lines, cursor := m.ctx, m.src, m.lines, d.next
	return func() tea.Msg {
		list, next, err := src.Hunks(ctx, rev, lines, cursor)
		return hunksMsg{rev: rev, lines: lines, hunks: list, next: next, err: err, isMore: cursor != ""}
	}
}

// addHunks takes in a part of what a row changed.
func (m *model) addHunks(msg *hunksMsg) tea.Cmd {
	d := m.details[msg.rev]
	if d == nil || msg.lines != m.lines || !d.isReading {
		return nil
	}
	d.isReading, d.err, d.docs = false, msg.err, 0
	d.next, d.isRead = msg.next, msg.next == "" || msg.err != nil
	d.hunks = append(d.hunks, msg.hunks...)
	d.files = d.files[:0]
	for i := range d.hunks {
		h := &d.hunks[i]
		if n := len(d.files); n == 0 || d.files[n-1].path != h.Path {
			d.files = append(d.files, file{path: h.Path, first: i})
		}
		f := &d.files[len(d.files)-1]
		f.last = i + 1
		f.added += h.After[1] - h.After[0]
		f.deleted += h.Before[1] - h.Before[0]
	}
	return nil
}

// widen shows more or less around each hunk.
func (m *model) widen(more bool) tea.Cmd {
	steps := []int{0, 3, 10, 50, 1 << 20}
	i := slices.Index(steps, m.lines)
	if more {
		i++
	} else {
		i--
	}
	if i < 0 || i == len(steps) {
		return nil
	}
	m.lines = steps[i]
	clear(m.details)
	if row := m.row(); row != nil && row.Rev != "" {
		return m.load(row.Rev)
	}
	return nil
}

// detail returns what is known of the row at the cursor; nil: nothing yet.
func (m *model) detail() *detail {
	if row := m.row(); row != nil {
		return m.details[row.Rev]
	}
	return nil
}

// keyOfDetail is for the side that shows what a row changed.
func (m *model) keyOfDetail(key string) tea.Cmd {
	d := m.detail()
	if d == nil {
		return nil
	}
	d.layOut(m.rightWidth())
	page := max(m.docHeight(m.row())-1, 1)
	switch key {
	case "down", "j", "ctrl+n":
		m.step(d, 1)
	case "up", "k", "ctrl+p":
		m.step(d, -1)
	case "n", "p":
		by := 1
		if key == "p" {
			by = -1
		}
		for i := d.at + by; i >= 0 && i < len(d.item); i += by {
			if d.item[i].hunk < 0 {
				d.at = i
				d.show(page)
				break
			}
		}
	case "pgdown", "ctrl+f":
		d.scroll(page, page)
	case "pgup", "ctrl+b":
		d.scroll(-page, page)
	case "home", "g":
		d.at, d.top = 0, 0
	case "end", "G":
		d.at = max(len(d.item)-1, 0)
		d.top = len(d.doc)
	case "f":
		d.fold()
	case "F":
		isFolded := d.isAllFolded()
		for _, f := range d.files {
			d.isFolded[f.path] = !isFolded
		}
		d.refold()
	}
	d.layOut(m.rightWidth())
	if !d.isRead && !d.isReading && d.top+2*page > len(d.doc) {
		return m.load(d.rev)
	}
	return nil
}

// step moves the cursor to the next item. A hunk that is longer than the screen is scrolled
// through first.
func (m *model) step(d *detail, by int) {
	page := max(m.docHeight(m.row())-1, 1)
	next := d.at + by
	switch {
	case next < 0:
		d.top = max(d.top-1, 0)
	case next >= len(d.item):
		d.scroll(1, page)
	case by > 0 && d.item[next].line > d.top+page:
		d.top++
	case by < 0 && d.item[d.at].line > d.top+page:
		d.top--
	default:
		d.at = next
		d.show(page)
	}
}

// show scrolls so far that the item at the cursor is to be seen.
func (d *detail) show(page int) {
	if d.at >= len(d.item) {
		return
	}
	at := d.item[d.at].line
	if at < d.top {
		d.top = at
	} else if at > d.top+page {
		d.top = at - page/2
	}
}

// scroll scrolls by some lines, and takes the cursor along.
func (d *detail) scroll(by, page int) {
	d.top = max(min(d.top+by, len(d.doc)-page), 0)
	for d.at+1 < len(d.item) && d.item[d.at].line < d.top {
		d.at++
	}
	for d.at > 0 && d.item[d.at].line > d.top+page {
		d.at--
	}
}

func (d *detail) isAllFolded() bool {
	return !slices.ContainsFunc(d.files, func(f file) bool { return !d.isFolded[f.path] })
}

// fold folds the file at the cursor, or unfolds it.
func (d *detail) fold() {
	if d.at >= len(d.item) {
		return
	}
	path := d.files[d.item[d.at].file].path
	d.isFolded[path] = !d.isFolded[path]
	d.refold()
}

// refold makes the document anew, with the cursor on the same file.
func (d *detail) refold() {
	of := 0
	if d.at < len(d.item) {
		of = d.item[d.at].file
	}
	width := d.docs
	d.docs = 0
	d.layOut(width)
	d.at = max(slices.IndexFunc(d.item, func(it item) bool { return it.file == of }), 0)
	if d.at < len(d.item) {
		d.top = min(d.top, d.item[d.at].line)
	}
}

// layOut makes the document for a width, unless there is one.
func (d *detail) layOut(width int) {
	if d.docs == width || width < 1 {
		return
	}
	d.docs, d.doc, d.item = width, d.doc[:0], d.item[:0]
	add := func(kind byte, text string) {
		for i, part := range wrap(text, width) {
			if i > 0 && (kind == '+' || kind == '-' || kind == ' ') {
				part = ansi.Truncate(part, width, "")
			}
			d.doc = append(d.doc, line{text: part, kind: kind, item: -1})
		}
	}
	addItem := func(kind byte, text string, it item) {
		it.line = len(d.doc)
		d.item = append(d.item, it)
		d.doc = append(d.doc, line{text: text, kind: kind, item: len(d.item) - 1})
	}
	for i, f := range d.files {
		addItem('f', f.title(), item{file: i, hunk: -1})
		if d.isFolded[f.path] {
			continue
		}
		end := 0 // of the hunk before
		for j := f.first; j < f.last; j++ {
			h := &d.hunks[j]
			if left := h.Before[0] - end - 2*d.lines; h.Kind == "lines" && left > 0 && j > f.first {
				add('.', fmt.Sprintf("    … %s between", words.Count(left, "line")))
			}
			end = h.Before[1]
			addItem('h', hunkTitle(h), item{file: i, hunk: j})
			text := string(h.TextBytes)
			if h.TextBytes == nil {
				text = h.Text
			}
			for l := range strings.Lines(text) {
				l = strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")
				kind := byte(' ')
				if l != "" {
					kind = l[0]
				}
				add(kind, l)
			}
		}
	}
	switch {
	case d.err != nil:
		for l := range strings.Lines(d.err.Error()) {
			add('!', " "+strings.TrimSuffix(l, "\n"))
		}
	case !d.isRead:
		add('.', " …")
	case len(d.files) == 0:
		add('.', " no file was changed")
	}
	d.at = min(d.at, max(len(d.item)-1, 0))
}

// title is what is shown of a file beside its mark.
func (f *file) title() string {
	text := words.Quote(f.path)
	if f.added+f.deleted > 0 {
		text += fmt.Sprintf("  +%d -%d", f.added, f.deleted)
	}
	return text
}

// hunkTitle is what is shown of a hunk beside its mark.
func hunkTitle(h *manager.Hunk) string {
	var text string
	switch h.Kind {
	case "lines":
		text = "line " + words.Comma(max(h.After[0], 0)+1)
	case "mode":
		text = "mode"
	default:
		text = "all of the file"
	}
	switch h.State {
	case "done":
		text += "  taken back"
	case "conflict":
		text += "  conflict"
		if len(h.BlockedBy) > 0 {
			text += " with " + strings.ReplaceAll(strings.Join(h.BlockedBy, ", "), "turn:", "turn ")
		}
	}
	return text
}

// wrap divides a text into lines of a width. Tabs are as wide as terminals have them.
func wrap(text string, width int) []string {
	if strings.Contains(text, "\t") {
		var b strings.Builder
		column := 0
		for i, part := range strings.Split(text, "\t") {
			if i > 0 {
				n := 8 - column%8
				b.WriteString(strings.Repeat(" ", n))
				column += n
			}
			b.WriteString(part)
			column += ansi.StringWidth(part)
		}
		text = b.String()
	}
	if len(text) <= width {
		return []string{text}
	}
	return strings.Split(ansi.Hardwrap(text, width, true), "\n")
}

// hunksAt returns the hunks of the item at the cursor that can be taken back.
func (d *detail) hunksAt() (ids []string, what string) {
	if d.at >= len(d.item) {
		return nil, ""
	}
	it := d.item[d.at]
	first, last := it.hunk, it.hunk+1
	what = "the hunk"
	if it.hunk < 0 {
		f := d.files[it.file]
		first, last, what = f.first, f.last, words.Quote(f.path)
	}
	for _, h := range d.hunks[first:last] {
		if h.State != "done" {
			ids = append(ids, h.ID)
		}
	}
	return ids, what
}

// all returns the IDs of all hunks that can be taken back.
func (d *detail) all() map[string]bool {
	ids := make(map[string]bool)
	for _, h := range d.hunks {
		if h.State != "done" {
			ids[h.ID] = true
		}
	}
	return ids
}

// isHalf reports whether the item at the cursor is a file of which more may have to be read.
func (d *detail) isHalf() bool {
	return !d.isRead && d.at < len(d.item) && d.item[d.at].hunk < 0 && d.item[d.at].file == len(d.files)-1
}

const stillReading = "what it changed is still being read: press it again"

// markDetail marks the file or hunk at the cursor, or takes the mark off.
func (m *model) markDetail(row *Row) tea.Cmd {
	d := m.detail()
	if d == nil {
		return nil
	}
	d.layOut(m.rightWidth())
	ids, what := d.hunksAt()
	marks, isMarked := m.marks[row.Rev]
	switch {
	case what == "":
		return nil
	case len(ids) == 0:
		m.message = what + " is taken back already"
		return nil
	case d.isHalf(), isMarked && marks == nil && !d.isRead:
		m.message = stillReading
		return m.load(row.Rev)
	case isMarked && marks == nil:
		marks = d.all()
	case marks == nil:
		marks = make(map[string]bool)
	}
	isOn := !slices.ContainsFunc(ids, func(id string) bool { return !marks[id] })
	for _, id := range ids {
		if isOn {
			delete(marks, id)
		} else {
			marks[id] = true
		}
	}
	m.marks[row.Rev] = marks
	switch {
	case len(marks) == 0:
		delete(m.marks, row.Rev)
	case d.isRead && len(marks) == len(d.all()):
		m.marks[row.Rev] = nil
	}
	return nil
}

// markHere returns a mark on what the cursor is on, or why there can be none.
func (m *model) markHere() (marks []Mark, why string) {
	row := m.row()
	if row == nil {
		return nil, "there is nothing to take back"
	}
	if why := m.noMark(row); why != "" || !m.onRight {
		return []Mark{{Turn: row.Rev}}, why
	}
	d := m.detail()
	if d == nil || d.isHalf() {
		return nil, stillReading
	}
	ids, what := d.hunksAt()
	switch {
	case what == "":
		return nil, "there is nothing to take back"
	case len(ids) == 0:
		return nil, what + " is taken back already"
	}
	return []Mark{{Turn: row.Rev, Hunks: ids}}, ""
}

// state of a mark, as it is shown: x, ~ for a part, or blank.
func (m *model) markOf(rev string, hunks []manager.Hunk) byte {
	marks, is := m.marks[rev]
	if !is {
		return ' '
	}
	if marks == nil {
		return 'x'
	}
	if hunks == nil {
		return '~'
	}
	n, of := 0, 0
	for _, h := range hunks {
		if h.State != "done" {
			of++
			if marks[h.ID] {
				n++
			}
		}
	}
	switch {
	case n == 0:
		return ' '
	case n < of:
		return '~'
	}
	return 'x'
}
