package picker

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/boocode/filestore/internal/words"
)

// A screen is what the keys are about.
type screen int

const (
	browsing screen = iota
	previewing
	resulting // what was done, if not all was
	helping
)

// A model is the state of a picker. Only Update changes it.
type model struct {
	ctx  context.Context
	src  Source
	opts *Options
	now  func() time.Time
	wait time.Duration // before a row is read over which the cursor passes

	width, height int
	screen        screen
	message       string     // of the last line, until the next key
	busy          bool       // the Source is at work for the user
	working       sync.Mutex // held while it is
	isLeaving     bool       // the picker ends when that is done
	cut           *InterruptedError

	rows    []Row
	shown   []int // those that fit the filter
	reading *reading
	isRead  bool // all of them
	readErr error
	at      int // in shown
	top     int // first of shown on the screen
	want    string
	filter  string
	typing  bool // the filter is being typed

	onRight bool // keys are about what the row changed
	zoomed  bool // that has the whole screen
	marks   map[string]map[string]bool
	details map[string]*detail
	lines   int // of context

	ask    *Ask // of the preview or the result
	answer *Answer
	err    error
	from   int             // first of the lines of an answer, or of help, on the screen
	own    map[uint64]bool // records of what was done here
}

// maxDetails is how many rows are kept that were looked at.
const maxDetails = 16

// settle is how long the cursor rests on a row before it is read.
const settle = 50 * time.Millisecond

func newModel(ctx context.Context, src Source, opts *Options) *model {
	m := &model{ctx: ctx, src: src, opts: opts, now: time.Now, wait: settle, width: 80, height: 24, lines: 3,
		marks: make(map[string]map[string]bool), details: make(map[string]*detail), own: make(map[uint64]bool)}
	m.reading = m.read()
	return m
}

// A reading is a pass over the rows of the Source.
type reading struct {
	next func() (Row, error, bool)
	stop func()
	rows []Row // so far; they replace those that are shown when there are enough
}

// read begins to read the rows.
func (m *model) read() *reading {
	next, stop := iter.Pull2(m.src.Rows(m.ctx))
	return &reading{next: next, stop: stop}
}

// Messages.
type (
	rowsMsg struct { // some more rows
		of     *reading
		rows   []Row
		err    error
		isLast bool
	}
	restMsg   struct{ rev string } // the cursor has rested on a row
	answerMsg struct {
		ask       *Ask
		answer    *Answer
		err       error
		isChanged bool // it is not what was shown a moment ago
	}
)

// rowsAtOnce is how many rows are read before some of them are shown.
const rowsAtOnce = 500

// more reads some more rows.
func (r *reading) more() tea.Msg {
	msg := rowsMsg{of: r}
	for len(msg.rows) < rowsAtOnce {
		row, err, ok := r.next()
		if err != nil || !ok {
			msg.err, msg.isLast = err, true
			r.stop()
			break
		}
		msg.rows = append(msg.rows, row)
	}
	return msg
}

func (m *model) Init() tea.Cmd { return m.reading.more }

// Update takes in what has happened.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.key(msg.String(), msg.Text)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + words.FirstLine(msg.Content, 100))
		}
	case rowsMsg:
		cmd = m.addRows(&msg)
	case restMsg:
		if row := m.row(); row != nil && row.Rev == msg.rev {
			cmd = m.load(msg.rev)
		}
	case hunksMsg:
		cmd = m.addHunks(&msg)
	case answerMsg:
		cmd = m.take(&msg)
	}
	m.keepInSight()
	return m, cmd
}

// addRows takes in some rows. Those of a new pass replace the old ones at once when they reach as
// far down as the cursor was.
func (m *model) addRows(msg *rowsMsg) tea.Cmd {
	if msg.of != m.reading {
		if !msg.isLast {
			return func() tea.Msg { msg.of.stop(); return nil }
		}
		return nil
	}
	m.readErr, m.isRead = msg.err, msg.isLast
	msg.of.rows = append(msg.of.rows, msg.rows...)
	isFound := slices.ContainsFunc(msg.rows, func(r Row) bool { return r.Rev == m.want })
	if m.want == "" || isFound || msg.isLast {
		at := m.want
		if row := m.row(); at == "" && row != nil {
			at = row.Rev
		}
		m.rows, m.want = msg.of.rows, ""
		m.sift(at)
	}
	cmd := m.rest()
	if msg.isLast {
		return cmd
	}
	return tea.Batch(cmd, msg.of.more)
}

// reload reads all anew, as something was done.
func (m *model) reload() tea.Cmd {
	if row := m.row(); row != nil {
		m.want = row.Rev
	}
	clear(m.details)
	m.reading, m.isRead = m.read(), false
	return m.reading.more
}

// row returns the row at the cursor, nil if there is none.
func (m *model) row() *Row {
	if m.at >= len(m.shown) {
		return nil
	}
	return &m.rows[m.shown[m.at]]
}

// sift finds the rows that fit the filter, and puts the cursor on one of them, or near to it.
func (m *model) sift(rev string) {
	m.shown = m.shown[:0]
	want := strings.ToLower(m.filter)
	m.at = min(m.at, max(len(m.rows)-1, 0))
	found := -1
	for i := range m.rows {
		r := &m.rows[i]
		if want == "" || strings.Contains(strings.ToLower(r.Name+"\n"+r.Text+"\n"+r.Who+"\n"+r.State), want) {
			if rev != "" && r.Rev == rev && found < 0 {
				found = len(m.shown)
			}
			m.shown = append(m.shown, i)
		}
	}
	if found >= 0 {
		m.at = found
	}
	m.at = max(min(m.at, len(m.shown)-1), 0)
}

func (m *model) setFilter(text string) {
	rev := ""
	if row := m.row(); row != nil {
		rev = row.Rev
	}
	m.filter = text
	m.sift(rev)
}

// move moves the cursor to a row.
func (m *model) move(to int) tea.Cmd {
	m.at = max(min(to, len(m.shown)-1), 0)
	return m.rest()
}

// rest has the row at the cursor be read, if the cursor stays there.
func (m *model) rest() tea.Cmd {
	row := m.row()
	if row == nil || row.Rev == "" || m.details[row.Rev] != nil {
		return nil
	}
	msg := restMsg{row.Rev}
	return tea.Tick(m.wait, func(time.Time) tea.Msg { return msg })
}

// key does what a key stands for.
func (m *model) key(key, text string) tea.Cmd {
	if key == "ctrl+c" {
		if m.busy && !m.isLeaving { // files would be left half in each state
			m.isLeaving = true
			return nil
		}
		m.cut = new(InterruptedError)
		return tea.Quit
	}
	if m.busy {
		return nil
	}
	m.message = ""
	switch {
	case m.typing:
		return m.typed(key, text)
	case m.screen != browsing:
		return m.keyOfText(key)
	}
	return m.browse(key)
}

// browse does what a key stands for while turns, or what one changed, are looked at.
func (m *model) browse(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "esc":
		switch {
		case m.zoomed:
			m.zoomed = false
		case m.onRight:
			m.onRight = false
		case m.filter != "":
			m.setFilter("")
		default:
			return tea.Quit
		}
	case "ctrl+z":
		return tea.Suspend
	case "?":
		m.screen, m.from = helping, 0
	case "/":
		m.typing, m.onRight, m.zoomed = true, false, false
	case "tab", "shift+tab":
		m.onRight = !m.onRight
	case "left", "h":
		m.onRight, m.zoomed = false, false
	case "right", "l":
		m.onRight = true
	case "z":
		m.zoomed = !m.zoomed
		m.onRight = m.onRight || m.zoomed
	case "J", "shift+down":
		return m.move(m.at + 1)
	case "K", "shift+up":
		return m.move(m.at - 1)
	case "space":
		return m.mark()
	case "x":
		clear(m.marks)
	case "enter", "v":
		return m.previewMarked()
	case "b":
		return m.previewGoBack()
	case "u":
		return m.do(&Ask{Do: Undo, Preview: true}, nil)
	case "r":
		return m.do(&Ask{Do: Redo, Preview: true}, nil)
	case "+", "-":
		return m.widen(key == "+")
	default:
		if m.onRight {
			return m.keyOfDetail(key)
		}
		return m.keyOfList(key)
	}
	return m.rest()
}

// typed edits the filter.
func (m *model) typed(key, text string) tea.Cmd {
	switch key {
	case "enter", "tab", "down", "up":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "ctrl+u":
		m.setFilter("")
	case "backspace", "ctrl+h":
		if r := []rune(m.filter); len(r) > 0 {
			m.setFilter(string(r[:len(r)-1]))
		}
	default:
		if text != "" {
			m.setFilter(m.filter + text)
		}
	}
	return m.rest()
}

func (m *model) keyOfList(key string) tea.Cmd {
	page := max(m.bodyHeight()-1, 1)
	switch key {
	case "down", "j", "ctrl+n":
		return m.move(m.at + 1)
	case "up", "k", "ctrl+p":
		return m.move(m.at - 1)
	case "pgdown", "ctrl+f":
		return m.move(m.at + page)
	case "pgup", "ctrl+b":
		return m.move(m.at - page)
	case "home", "g":
		return m.move(0)
	case "end", "G":
		return m.move(len(m.shown) - 1)
	}
	return nil
}

// keyOfText is for screens that show a text: a preview, a result, help.
func (m *model) keyOfText(key string) tea.Cmd {
	page := max(m.bodyHeight()-1, 1)
	switch key {
	case "down", "j":
		m.from++
	case "up", "k":
		m.from--
	case "pgdown", "ctrl+f", "space":
		m.from += page
	case "pgup", "ctrl+b":
		m.from -= page
	case "home", "g":
		m.from = 0
	case "end", "G":
		m.from = 1 << 30
	case "q", "esc", "?":
		m.screen = browsing
	case "enter", "v", "c", "e":
		if m.screen == previewing {
			return m.keyOfPreview(key)
		}
		m.screen = browsing
	}
	return nil
}

// conflictChoices are what can become of what is in conflict.
var conflictChoices = []string{"", "markers", "theirs"}

func (m *model) keyOfPreview(key string) tea.Cmd {
	ask := *m.ask
	switch key {
	case "c":
		if ask.Do != TakeBack && ask.Do != GoBack {
			return nil
		}
		i := slices.Index(conflictChoices, ask.OnConflict)
		ask.OnConflict = conflictChoices[(i+1)%len(conflictChoices)]
		return m.do(&ask, nil)
	case "e":
		if m.answer == nil || m.answer.Open == "" {
			return nil
		}
		ask.EndTurn = true
		return m.do(&ask, nil)
	}
	if m.err != nil || m.answer == nil || m.answer.Open != "" || m.answer.IsNothing {
		m.screen = browsing
		return nil
	}
	ask.Preview = false
	return m.do(&ask, m.answer)
}

// do has the Source do something. What was shown of it before is shown anew, and not done, if it
// would do something else now.
func (m *model) do(ask *Ask, shown *Answer) tea.Cmd {
	m.busy = true
	ctx, src := m.ctx, m.src
	return func() tea.Msg {
		m.working.Lock()
		defer m.working.Unlock()
		if shown != nil {
			again := *ask
			again.Preview = true
			now, err := src.Do(ctx, &again)
			if err != nil || !now.isLike(shown) {
				return answerMsg{ask: &again, answer: now, err: err, isChanged: true}
			}
		}
		answer, err := src.Do(ctx, ask)
		return answerMsg{ask: ask, answer: answer, err: err}
	}
}

// isLike reports whether two previews say the same, of the same contents.
func (a *Answer) isLike(other *Answer) bool {
	return slices.Equal(a.Lines, other.Lines) && a.Summary == other.Summary && a.Plan == other.Plan &&
		a.Open == other.Open
}

// take takes in what the Source has done, or would do.
func (m *model) take(msg *answerMsg) tea.Cmd {
	if m.busy = false; m.isLeaving {
		m.cut = new(InterruptedError)
		switch {
		case msg.ask.Preview:
		case msg.err != nil:
			m.cut.Done = msg.err.Error()
		default:
			m.cut.Done = msg.answer.Summary
		}
		return tea.Quit
	}
	ask, answer := msg.ask, msg.answer
	if ask.Preview {
		// What was just done here is undone at once, unless there is something to be seen first.
		isOwn := (ask.Do == Undo || ask.Do == Redo) && msg.err == nil && m.own[answer.Undoes] && m.screen == browsing
		if isOwn && !msg.isChanged && !answer.IsPart && !answer.IsNothing && answer.Open == "" {
			now := *ask
			now.Preview = false
			return m.do(&now, answer)
		}
		m.ask, m.answer, m.err, m.screen, m.from = ask, answer, msg.err, previewing, 0
		if msg.isChanged {
			m.message = "the files have changed meanwhile: this is what it would do now"
		}
		if msg.isChanged || msg.err != nil { // what is listed is not what is there
			return m.reload()
		}
		return nil
	}
	if msg.err != nil {
		m.ask, m.answer, m.err, m.screen, m.from = ask, nil, msg.err, resulting, 0
		return m.reload()
	}
	m.own[answer.Record] = true
	if ask.Do == TakeBack {
		clear(m.marks)
	}
	back := "u takes it back"
	if ask.Do == Undo {
		back = "r takes the undo back"
	}
	m.message, m.screen = fmt.Sprintf("%s; %s", answer.Summary, back), browsing
	if answer.IsPart {
		m.ask, m.answer, m.err, m.screen, m.from = ask, answer, nil, resulting, 0
	}
	return m.reload()
}

// previewMarked shows what would be done if what is marked were taken back; without marks, what the
// cursor is on.
func (m *model) previewMarked() tea.Cmd {
	marks := m.marked()
	if len(marks) == 0 {
		var why string
		if marks, why = m.markHere(); why != "" {
			m.message = why
			return nil
		}
	}
	return m.do(&Ask{Do: TakeBack, Marks: marks, Preview: true}, nil)
}

func (m *model) previewGoBack() tea.Cmd {
	row := m.row()
	if row == nil || row.Rev == "" {
		m.message = "there is no moment here to go back to"
		return nil
	}
	return m.do(&Ask{Do: GoBack, Rev: row.Rev, Preview: true}, nil)
}

// marked returns what is marked, in the order of the rows.
func (m *model) marked() (marks []Mark) {
	if len(m.marks) == 0 {
		return nil
	}
	for _, r := range m.rows {
		if ids, is := m.marks[r.Rev]; is {
			mark := Mark{Turn: r.Rev}
			for id := range ids {
				mark.Hunks = append(mark.Hunks, id)
			}
			slices.Sort(mark.Hunks)
			marks = append(marks, mark)
		}
	}
	return marks
}

// mark marks what the cursor is on, or takes the mark off.
func (m *model) mark() tea.Cmd {
	row := m.row()
	if row == nil {
		return nil
	}
	if m.message = m.noMark(row); m.message != "" {
		return nil
	}
	if m.onRight {
		return m.markDetail(row)
	}
	if _, is := m.marks[row.Rev]; is {
		delete(m.marks, row.Rev)
	} else {
		m.marks[row.Rev] = nil
	}
	return nil
}

// noMark says why a row cannot be taken back; "": it can.
func (m *model) noMark(row *Row) string {
	switch {
	case row.IsBack:
		return row.Name + " is taken back already"
	case !row.IsTurn && row.Files == 0:
		return row.Name + " changed no file"
	case !row.IsTurn:
		return "only what turns did can be taken back here; b goes back to this moment, u undoes a restore"
	}
	return ""
}
