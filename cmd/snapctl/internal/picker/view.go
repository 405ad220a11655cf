package picker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/boocode/filestore/internal/words"
)

// Styles, as terminals number them. Without colours there are bold and reverse.
const (
	bold    = "1"
	dim     = "2"
	reverse = "7"
	red     = "31"
	green   = "32"
	cyan    = "36"
)

func (m *model) paint(style, text string) string {
	if style == "" || text == "" || !m.opts.IsColour && style != bold && style != reverse {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[m"
}

// fill returns a text, which may have colours, in just so many columns.
func fill(text string, width int) string {
	if n := ansi.StringWidth(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

func (m *model) bodyHeight() int { return max(m.height-2, 1) }

// leftWidth is how wide the list is, 0 if it is not shown.
func (m *model) leftWidth() int {
	switch {
	case m.zoomed || m.width < 60 && m.onRight:
		return 0
	case m.width < 60:
		return m.width
	}
	return min(max(m.width*2/5, 38), 72)
}

// rightWidth is how wide the side is that shows what a row changed.
func (m *model) rightWidth() int {
	left := m.leftWidth()
	if left == 0 {
		return m.width
	}
	return max(m.width-left-1, 0)
}

// keepInSight scrolls the list so far that the cursor is on the screen.
func (m *model) keepInSight() {
	height := m.bodyHeight()
	m.top = max(min(m.top, m.at, len(m.shown)-height), 0)
	if m.at >= m.top+height {
		m.top = m.at - height + 1
	}
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.draw(), "\n"))
	v.AltScreen = true
	return v
}

// draw returns the lines of the screen.
func (m *model) draw() []string {
	if m.height < 3 || m.width < 20 {
		return []string{ansi.Truncate("snapctl pick: the terminal is too small", m.width, "")}
	}
	lines := []string{m.paint(reverse, fill(" "+m.header(), m.width))}
	switch m.screen {
	case browsing:
		lines = append(lines, m.drawBody()...)
	default:
		lines = append(lines, m.drawText()...)
	}
	return append(lines, fill(m.footer(), m.width))
}

// header says what is shown.
func (m *model) header() string {
	switch m.screen {
	case helping:
		return "snapctl pick: keys"
	case resulting:
		return "done in part"
	case previewing:
		return m.previewTitle()
	}
	text := m.opts.Title
	switch {
	case !m.isRead:
		text += "  reading…"
	case m.readErr != nil && len(m.rows) > 0:
		text = "not all could be read: " + words.FirstLine(words.Plain(m.readErr.Error()), m.width) + "  " + text
	}
	if m.filter != "" {
		text += fmt.Sprintf(", %s with %q", words.Comma(len(m.shown)), m.filter)
	}
	if n := len(m.marks); n > 0 {
		text += "  " + markedText(m.marked())
	}
	return text
}

// markedText counts what is marked: "marked: 2 turns and 3 hunks".
func markedText(marks []Mark) string {
	turns, hunks := 0, 0
	for _, mark := range marks {
		if mark.Hunks == nil {
			turns++
		}
		hunks += len(mark.Hunks)
	}
	var list []string
	if turns > 0 {
		list = append(list, words.Count(turns, "turn"))
	}
	if hunks > 0 {
		list = append(list, words.Count(hunks, "hunk"))
	}
	return "marked: " + strings.Join(list, " and ")
}

func (m *model) previewTitle() string {
	switch m.ask.Do {
	case Undo:
		return "undo of the newest restore: nothing was done yet"
	case Redo:
		return "redo of the newest undo: nothing was done yet"
	case GoBack:
		return "go back to " + strings.Replace(m.ask.Rev, "turn:", "turn ", 1) + ": nothing was done yet"
	}
	var list []string
	for _, mark := range m.ask.Marks {
		text := strings.Replace(mark.Turn, ":", " ", 1)
		if mark.Hunks != nil {
			text = words.Count(len(mark.Hunks), "hunk") + " of " + text
		}
		list = append(list, text)
	}
	return "take back " + strings.Join(list, ", ") + ": nothing was done yet"
}

// footer is the last line: what was said, or the keys.
func (m *model) footer() string {
	switch {
	case m.isLeaving:
		return " working, and then it ends; ctrl-c once more ends it now"
	case m.busy:
		return " working…"
	case m.message != "":
		return " " + m.paint(bold, m.message)
	case m.typing:
		return " /" + m.filter + m.paint(reverse, " ") + "  enter keeps it, esc clears it"
	case m.screen == previewing && (m.err != nil || m.answer == nil || m.answer.IsNothing):
		return " esc back"
	case m.screen == previewing && m.answer.Open != "":
		return " e ends the turn, and shows what would be done then   esc back"
	case m.screen == previewing:
		text := " enter do it   esc back"
		if m.ask.Do == TakeBack || m.ask.Do == GoBack {
			text += "   c lines changed again since: " + conflictText(m.ask.OnConflict)
		}
		return text
	case m.screen != browsing:
		return " esc back"
	case m.onRight:
		return " space mark  enter preview  n/p file  f fold  +/- context  z zoom  tab  ? help"
	}
	return " space mark  enter preview  tab diff  / filter  u undo  r redo  b back  ? help"
}

func conflictText(choice string) string {
	switch choice {
	case "markers":
		return "both, in markers"
	case "theirs":
		return "overwritten"
	}
	return "stay"
}

// drawBody draws the list, and beside it what the row at the cursor changed.
func (m *model) drawBody() []string {
	left, right, height := m.leftWidth(), m.rightWidth(), m.bodyHeight()
	var list, side []string
	if left > 0 {
		list = m.drawList(left, height)
	}
	if right > 0 {
		side = m.drawDetail(right, height)
	}
	lines := make([]string, height)
	for i := range lines {
		switch {
		case left == 0:
			lines[i] = side[i]
		case right == 0:
			lines[i] = list[i]
		default:
			lines[i] = list[i] + m.paint(dim, "│") + side[i]
		}
	}
	return lines
}

func (m *model) drawList(width, height int) []string {
	var said []string // in place of rows
	style := ""
	switch {
	case len(m.shown) > 0:
	case m.readErr != nil:
		said, style = strings.Split(words.Plain(m.readErr.Error()), "\n"), red
	case len(m.rows) > 0:
		said = []string{" no row has that"}
	default:
		said = []string{" …"}
	}
	lines := make([]string, height)
	for i := range lines {
		switch at := m.top + i; {
		case at < len(m.shown):
			lines[i] = fill(m.drawRow(&m.rows[m.shown[at]], width, at == m.at), width)
		case i < len(said):
			lines[i] = m.paint(style, fill(said[i], width))
		default:
			lines[i] = fill("", width)
		}
	}
	return lines
}

// drawRow draws a row of the list: cursor, mark, number, age, files, and what it was for.
func (m *model) drawRow(r *Row, width int, isAt bool) string {
	cursor, mark, style := " ", "   ", ""
	if isAt {
		cursor = ">"
	}
	switch {
	case r.IsBack:
		mark, style = "[-]", dim
	case r.IsTurn:
		mark = "[" + string(m.markOf(r.Rev, nil)) + "]"
	default:
		style = dim
	}
	number, isTurn := strings.CutPrefix(r.Name, "turn ")
	text := words.FirstLine(words.Plain(r.Text), width)
	if !isTurn {
		number = ""
		text = strings.TrimSuffix(r.Name+": "+text, ": ")
	}
	files := ""
	if r.Files > 0 {
		files = words.Comma(r.Files) + "f"
	}
	text = fill(fmt.Sprintf("%s%s%4s %4s %4s %s", cursor, mark, number, m.age(r.When), files, text), width)
	if isAt && !m.onRight {
		style = reverse
	}
	return m.paint(style, text)
}

// age says in up to four columns how long something is ago.
func (m *model) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	const day = 24 * time.Hour
	d := max(m.now().Sub(t), 0)
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"y", 365 * day}, {"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if n := d / unit.of; n > 0 && (n > 1 || unit.name != "w") {
			return strconv.FormatInt(int64(n), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// headOf returns what is said of a row above what it changed.
func (m *model) headOf(r *Row, width int) []string {
	var about []string
	for _, text := range []string{r.Name, words.Quote(r.Who)} {
		if text != "" {
			about = append(about, text)
		}
	}
	if !r.When.IsZero() {
		about = append(about, r.When.Local().Format("2006-01-02 15:04:05"))
	}
	head := []string{m.paint(bold, fill(" "+strings.Join(about, "  "), width))}
	const most = 3 // lines of a prompt
	text := wrap(strings.Join(strings.Fields(words.Plain(r.Text)), " "), max(width-2, 1))
	for i, l := range text {
		if l == "" {
			continue
		}
		if i == most {
			head[len(head)-1] = fill(ansi.Truncate(head[len(head)-1], width-1, "")+"…", width)
			break
		}
		head = append(head, fill(" "+l, width))
	}
	if r.State != "" {
		head = append(head, m.paint(cyan, fill(" "+r.State, width)))
	}
	return append(head, fill("", width))
}

// docHeight is how many lines of what a row changed are on the screen.
func (m *model) docHeight(r *Row) int {
	if r == nil {
		return m.bodyHeight()
	}
	return max(m.bodyHeight()-len(m.headOf(r, m.rightWidth())), 1)
}

func (m *model) drawDetail(width, height int) []string {
	var lines []string
	if r := m.row(); r != nil {
		lines = m.headOf(r, width)
		d := m.details[r.Rev]
		room := m.docHeight(r)
		switch {
		case d != nil:
			d.layOut(width)
			d.top = max(min(d.top, len(d.doc)-room), 0)
			for _, l := range d.doc[d.top:min(d.top+room, len(d.doc))] {
				lines = append(lines, m.drawLine(d, &l, width))
			}
		case r.Rev != "":
			lines = append(lines, fill(" …", width))
		}
	}
	for len(lines) < height {
		lines = append(lines, fill("", width))
	}
	return lines[:height]
}

func (m *model) drawLine(d *detail, l *line, width int) string {
	style := map[byte]string{'+': green, '-': red, 'f': bold, 'h': cyan, '.': dim, '!': red}[l.kind]
	text := l.text
	if l.item >= 0 {
		it := d.item[l.item]
		f := d.files[it.file]
		of, indent := d.hunks[f.first:f.last], ""
		if it.hunk >= 0 {
			of, indent = d.hunks[it.hunk:it.hunk+1], "  "
		}
		cursor := " "
		if l.item == d.at && m.onRight {
			cursor, style = ">", reverse
		}
		mark := "   "
		if r := m.row(); r.IsTurn && !r.IsBack {
			mark = "[" + string(m.markOf(d.rev, of)) + "]"
		}
		fold := ""
		if d.isFolded[f.path] {
			fold = "  …"
		}
		text = cursor + indent + mark + " " + text + fold
	}
	return m.paint(style, fill(text, width))
}

// drawText draws a screen with a text that can be scrolled: a preview, a result, help.
func (m *model) drawText() []string {
	var text []string
	for _, l := range m.text() {
		text = append(text, strings.Split(ansi.Hardwrap(l, max(m.width-2, 1), true), "\n")...)
	}
	height := m.bodyHeight()
	m.from = max(min(m.from, len(text)-height), 0)
	var lines []string
	for _, l := range text[m.from:min(m.from+height, len(text))] {
		lines = append(lines, fill(" "+l, m.width))
	}
	for len(lines) < height {
		lines = append(lines, fill("", m.width))
	}
	return lines
}

// text returns the lines of the screens that show one.
func (m *model) text() []string {
	if m.screen == helping {
		return strings.Split(strings.Trim(keys, "\n"), "\n")
	}
	switch {
	case m.err != nil:
		return append([]string{""}, strings.Split(m.err.Error(), "\n")...)
	case m.answer == nil:
		return nil
	case m.answer.Open != "":
		return []string{"", m.answer.Open}
	}
	lines := append([]string{""}, m.answer.Lines...)
	return append(lines, "", m.paint(bold, m.answer.Summary))
}

const keys = `
move
  down j, up k           the next, the one before
  pgdn, pgup, home, end  by screens, to an end
  J K                    the next and the last turn, also from the diff
  tab, right, left       from turns to the diff and back
  n p                    in the diff: the next file, the one before
mark
  space                  a turn or, in the diff, a file or a hunk
  x                      no marks at all
do
  enter v                show what would be done if what is marked was taken
                         back or, without marks, what the cursor is on;
                         enter does it then
  c                      in that: what becomes of lines changed again since
  b                      go back to the end of the turn at the cursor
  u r                    undo the newest restore, redo the newest undo
look
  /                      only turns whose prompt or name has a text
  + -                    more or less around each hunk
  f F                    fold the file, or all
  z                      the diff alone
  ?                      this help
  q esc                  back, and out
`
