package picker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/manager"
)

var update = flag.Bool("update", false, "rewrite the screens in testdata")

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// A fake is a session without files. What it is asked to do it keeps in done.
type fake struct {
	rows    []Row
	readErr error // behind the rows
	hunks   map[string][]manager.Hunk
	done    []string
	preview func(ask *Ask) (*Answer, error) // nil: it says what it is asked
	records uint64
	parts   bool // a call of Hunks answers with one hunk
}

func (f *fake) Rows(context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range f.rows {
			if !yield(r, nil) {
				return
			}
		}
		if f.readErr != nil {
			yield(Row{}, f.readErr)
		}
	}
}

func (f *fake) Hunks(_ context.Context, rev string, _ int, cursor string) ([]manager.Hunk, string, error) {
	list, ok := f.hunks[rev]
	if !ok {
		return nil, "", errors.New(rev + ": not found")
	}
	if !f.parts || len(list) == 0 {
		return list, "", nil
	}
	i := 0
	fmt.Sscan(cursor, &i)
	next := ""
	if i+1 < len(list) {
		next = fmt.Sprint(i + 1)
	}
	return list[i : i+1], next, nil
}

func (f *fake) Do(_ context.Context, ask *Ask) (*Answer, error) {
	text := string(ask.Do) + " " + ask.Rev
	for _, m := range ask.Marks {
		text += fmt.Sprint(m.Turn, m.Hunks)
	}
	if text += " " + ask.OnConflict; ask.EndTurn {
		text += " end"
	}
	a := &Answer{Lines: []string{text}, Summary: "1 restored, 0 deleted", Undoes: f.records}
	if ask.Preview {
		if f.preview != nil {
			return f.preview(ask)
		}
		return a, nil
	}
	f.done = append(f.done, strings.Join(strings.Fields(text), " "))
	f.records++
	a.Record = f.records
	return a, nil
}

func hunk(id, path string, line int, text, state string) manager.Hunk {
	return manager.Hunk{ID: id, Path: path, Kind: "lines", Before: [2]int{line, line + 1},
		After: [2]int{line, line + 1}, State: state, Text: text}
}

func newFake() *fake {
	return &fake{
		rows: []Row{
			{Rev: "turn:3", Name: "turn 3", Text: "sort the cart by price\nand then by name", Who: "claude",
				When: noon.Add(-2 * time.Minute), Files: 2, IsTurn: true},
			{Rev: "look:9", Name: "you", Text: "changed 1 file", When: noon.Add(-time.Hour), Files: 1},
			{Rev: "turn:2", Name: "turn 2", Text: "价格加上税 — add tax to the price 💶 of all that is in the cart",
				Who: "pi", When: noon.Add(-26 * time.Hour), Files: 1, IsTurn: true, State: "in part: without a.txt"},
			{Rev: "turn:1", Name: "turn 1", Text: "rename it", Who: "pi",
				When: noon.Add(-40 * 24 * time.Hour), Files: 3,
				IsTurn: true, IsBack: true, State: "taken back 2026-11-25 11:00:00"},
			{Rev: "turn:0", Name: "turn 0", Text: "what is this?", Who: "pi", When: noon.Add(-400 * 24 * time.Hour)},
			{Rev: "start", Name: "start", When: noon.Add(-400 * 24 * time.Hour)},
		},
		hunks: map[string][]manager.Hunk{
			"turn:3": {
				hunk("aaaa", "cart.py", 4, " def total():\n-    return 1\n+\treturn 2\n \n", "clean"),
				hunk("bbbb", "cart.py", 40,
					"-old\n+new line that is so long that it has to go on in the next line of the screen\n",
					"conflict"),
				hunk("cccc", "文档.md", 0, "-一二三\n+四五六\n", "done"),
				hunk("dddd", "文档.md", 7, "-a\n+b\n", "clean"),
			},
			"look:9": {hunk("eeee", "mine", 0, "+mine\n", "clean")},
			"turn:2": {hunk("ffff", "a.txt", 0, "+tax\n", "clean")},
		},
	}
}

// TestNotAllIsRead: rows that end in an error do not pass for all that there are.
func TestNotAllIsRead(t *testing.T) {
	f := newFake()
	f.readErr = errors.New("record 7: damaged\n'snapctl check' says more")
	if got := start(t, f, 100, 12).screen(); !strings.Contains(got, "not all could be read: record 7: damaged") ||
		!strings.Contains(got, "sort the cart") {
		t.Errorf("rows, and an error behind them:\n%s", got)
	}
	f.rows = nil
	got := start(t, f, 100, 12).screen()
	if !strings.Contains(got, "\nrecord 7: damaged ") || !strings.Contains(got, "\n'snapctl check' says more ") {
		t.Errorf("an error in place of rows:\n%s", got)
	}
}

// A slowFake goes on for a while with what it is asked to do after it was told to stop.
type slowFake struct {
	*fake
	begun chan struct{}
	ended atomic.Bool
}

func (f *slowFake) Do(ctx context.Context, _ *Ask) (*Answer, error) {
	close(f.begun)
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond)
	f.ended.Store(true)
	return nil, ctx.Err()
}

// TestRunWaitsForTheSource: who is told to end, by SIGTERM, ends when files are in order again.
func TestRunWaitsForTheSource(t *testing.T) {
	src := &slowFake{fake: newFake(), begun: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	in, keys := io.Pipe()
	defer keys.Close()
	go keys.Write([]byte("u"))
	go func() {
		<-src.begun
		cancel()
	}()
	err := Run(ctx, src, &Options{In: in, Out: io.Discard, Environ: []string{"TERM=xterm"}})
	if !errors.Is(err, context.Canceled) || !src.ended.Load() {
		t.Errorf("run: %v, and what it did has ended: %v", err, src.ended.Load())
	}
}

// A driver types into a model, and runs its commands as a terminal's loop does.
type driver struct {
	t    *testing.T
	m    *model
	quit bool
}

// TestMain has screens show the same times everywhere. It is set before there is any timer: those of
// tests before read it.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

func start(t *testing.T, src Source, width, height int) *driver {
	m := newModel(t.Context(), src, &Options{Title: "shop"})
	m.now, m.wait = func() time.Time { return noon }, 0
	d := &driver{t: t, m: m}
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	d.run(m.Init())
	return d
}

func (d *driver) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.run(cmd)
}

func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		d.quit = true
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	default:
		d.send(msg)
	}
}

// keys types keys, with blanks between. A key of several letters that is none by name is typed
// letter by letter.
func (d *driver) keys(list string) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "down": tea.KeyDown,
		"up": tea.KeyUp, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd,
		"backspace": tea.KeyBackspace, "left": tea.KeyLeft, "right": tea.KeyRight}
	for key := range strings.FieldsSeq(list) {
		if code, ok := named[key]; ok {
			d.send(tea.KeyPressMsg{Code: code})
			continue
		}
		if key == "space" {
			d.send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
			continue
		}
		for _, r := range key {
			d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

func (d *driver) screen() string {
	d.t.Helper()
	lines := d.m.draw()
	if len(lines) != d.m.height {
		d.t.Errorf("%d lines on a screen of %d", len(lines), d.m.height)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != d.m.width {
			d.t.Errorf("line %d has %d columns of %d: %q", i, n, d.m.width, l)
		}
		lines[i] = strings.TrimRight(ansi.Strip(l), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestScreens draws what is to be seen after some keys, in terminals of several sizes.
func TestScreens(t *testing.T) {
	for _, tt := range []struct {
		name, keys    string
		width, height int
	}{
		{"list", "", 80, 24},
		{"wide", "", 200, 60},
		{"narrow", "", 50, 12},
		{"narrow-diff", "tab", 50, 12},
		{"part-of-a-turn", "tab j space tab j j", 80, 24},
		{"diff", "tab j j space", 80, 24},
		{"folded", "tab F", 80, 16},
		{"zoomed", "z j", 80, 24},
		{"filter", "/ tax enter", 80, 12},
		{"no-row", "/ xyz", 80, 12},
		{"preview", "space j j space enter c", 80, 12},
		{"done", "enter enter", 80, 16},
		{"help", "?", 80, 32},
		{"taken-back", "j j j", 80, 12},
		{"no-hunks", "j j j j", 80, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := start(t, newFake(), tt.width, tt.height)
			d.keys(tt.keys)
			got := d.screen()
			file := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got): go test -update\n%s", file, diff)
			}
		})
	}
}

// TestDone types keys, and compares what the session was told to do.
func TestDone(t *testing.T) {
	for _, tt := range []struct {
		name, keys string
		want       []string
		message    string
	}{
		{"a turn", "enter enter", []string{"take back turn:3[]"}, "1 restored, 0 deleted; u takes it back"},
		{"only looked at", "enter esc q", nil, ""},
		{"two turns", "space j j space enter enter", []string{"take back turn:3[]turn:2[]"}, ""},
		{"a mark taken off", "space j j space space enter enter", []string{"take back turn:3[]"}, ""},
		{"a hunk", "tab j space enter enter", []string{"take back turn:3[aaaa]"}, ""},
		{"the hunk at the cursor", "tab j j enter enter", []string{"take back turn:3[bbbb]"}, ""},
		{"a file", "tab space enter enter", []string{"take back turn:3[aaaa bbbb]"}, ""},
		{"what is left of a file", "tab n space enter enter", []string{"take back turn:3[dddd]"}, ""},
		{"all hunks are the turn", "tab space n space enter enter", []string{"take back turn:3[]"}, ""},
		{"a turn without a hunk", "space tab j space enter enter", []string{"take back turn:3[bbbb dddd]"}, ""},
		{"a turn and a hunk", "space j j tab j space enter enter", []string{"take back turn:3[]turn:2[]"}, ""},
		{"no marks", "space x j j enter enter", []string{"take back turn:2[]"}, ""},
		{"undone", "enter enter u", []string{"take back turn:3[]", "undo"},
			"1 restored, 0 deleted; r takes the undo back"},
		{"and redone", "enter enter u r", []string{"take back turn:3[]", "undo", "redo"}, ""},
		{"an older restore is shown before", "u", nil, ""},
		{"and then undone", "u enter", []string{"undo"}, ""},
		{"go back", "j j b enter", []string{"go back turn:2"}, ""},
		{"conflicts", "enter c enter", []string{"take back turn:3[] markers"}, ""},
		{"overwritten", "enter c c enter", []string{"take back turn:3[] theirs"}, ""},
		{"kept after all", "enter c c c enter", []string{"take back turn:3[]"}, ""},
		{"what the user did", "j space enter", nil, "only what turns did can be taken back here"},
		{"what is taken back", "j j j space", nil, "turn 1 is taken back already"},
		{"a hunk that is", "tab n j space", nil, "the hunk is taken back already"},
		{"a turn that did nothing", "j j j j space", nil, "turn 0 changed no file"},
		{"found", "/ tax enter enter enter", []string{"take back turn:2[]"}, ""},
		{"found by its name", "/ turn backspace 2 backspace backspace esc space enter enter",
			[]string{"take back turn:3[]"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			d := start(t, f, 80, 24)
			d.keys(tt.keys)
			if !slices.Equal(f.done, tt.want) {
				t.Errorf("%s did %q, want %q", tt.keys, f.done, tt.want)
			}
			if !strings.HasPrefix(d.m.message, tt.message) {
				t.Errorf("%s says %q, want %q", tt.keys, d.m.message, tt.message)
			}
		})
	}
}

// What was shown is what is done: what would be done by now instead is shown first.
func TestChangedMeanwhile(t *testing.T) {
	f := newFake()
	n := 0
	f.preview = func(*Ask) (*Answer, error) {
		n++
		return &Answer{Lines: []string{fmt.Sprint("look ", max(n, 2))}, Summary: "so"}, nil
	}
	d := start(t, f, 80, 24)
	n = -3
	d.keys("enter")
	for _, plan := range []string{"1", "2"} {
		f.preview = func(*Ask) (*Answer, error) {
			return &Answer{Lines: []string{"another"}, Summary: "so", Plan: plan}, nil
		}
		d.keys("enter")
		if len(f.done) > 0 || !strings.Contains(d.screen(), "another") || !strings.Contains(d.m.message, "meanwhile") {
			t.Errorf("done %q, says %q, shows %s", f.done, d.m.message, d.screen())
		}
	}
	d.keys("enter")
	if len(f.done) != 1 {
		t.Errorf("done %q after it was shown", f.done)
	}
}

// What cannot be done is said, and not done.
func TestNotDone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer *Answer
		err    error
		keys   string
		shown  string
		done   int
	}{
		{"error", nil, errors.New("turn 3 was taken back\nlook at the list"), "enter enter enter", "", 0},
		{"error shown", nil, errors.New("turn 3 was taken back\nlook at the list"), "enter", "look at the list", 0},
		{"nothing", &Answer{Summary: "0 restored", IsNothing: true}, nil, "enter enter", "", 0},
		{"a turn is open", &Answer{Open: "The turn has not ended"}, nil, "enter enter", "", 0},
		{"it is said", &Answer{Open: "The turn has not ended"}, nil, "enter", "The turn has not ended", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.preview = func(*Ask) (*Answer, error) { return tt.answer, tt.err }
			d := start(t, f, 80, 24)
			d.keys(tt.keys)
			if got := d.screen(); !strings.Contains(got, tt.shown) || len(f.done) != tt.done {
				t.Errorf("did %q, shows %s", f.done, got)
			}
		})
	}
	f := newFake()
	f.preview = func(ask *Ask) (*Answer, error) {
		if !ask.EndTurn {
			return &Answer{Open: "open"}, nil
		}
		return &Answer{Lines: []string{"x"}}, nil
	}
	d := start(t, f, 80, 24)
	d.keys("enter e enter")
	if want := []string{"take back turn:3[] end"}; !slices.Equal(f.done, want) {
		t.Errorf("did %q, want %q", f.done, want)
	}
}

// Ctrl-C ends it when what is being done is done, and at once the second time.
func TestLeave(t *testing.T) {
	interrupt := tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	for _, twice := range []bool{false, true} {
		d := start(t, newFake(), 80, 24)
		d.keys("enter")
		_, cmd := d.m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
		d.send(interrupt)
		if d.quit {
			t.Error("ended while something is being done")
		}
		if twice {
			d.send(interrupt)
		} else {
			d.run(cmd)
		}
		if !d.quit {
			t.Errorf("not ended, twice: %v", twice)
		}
		want := "interrupted, but what was begun came to its end: 1 restored, 0 deleted"
		if twice {
			want = "interrupted"
		}
		if d.m.cut == nil || d.m.cut.Error() != want {
			t.Errorf("twice: %v: says %v, want %s", twice, d.m.cut, want)
		}
	}
	d := start(t, newFake(), 80, 24)
	if d.send(interrupt); !d.quit || d.m.cut == nil {
		t.Error("not ended where nothing is being done, or not as interrupted")
	}
	d = start(t, newFake(), 80, 24)
	if d.keys("q"); !d.quit || d.m.cut != nil {
		t.Errorf("q: ended %v, as interrupted: %v", d.quit, d.m.cut)
	}
}

// What was done here is undone without a look, but not if the look would show something, or if it
// has become something else since.
func TestUndoOwn(t *testing.T) {
	for name, second := range map[string]Answer{
		"conflict": {Summary: "so", IsPart: true},
		"nothing":  {Summary: "so", IsNothing: true},
		"open":     {Summary: "so", Open: "The turn has not ended"},
		"changed":  {Summary: "so"},
	} {
		f := newFake()
		d := start(t, f, 80, 24)
		d.keys("enter enter")
		n := 0
		f.preview = func(*Ask) (*Answer, error) {
			a := second
			a.Undoes = f.records
			if n++; name == "changed" {
				a.Plan = fmt.Sprint(n)
			}
			return &a, nil
		}
		if d.keys("u"); len(f.done) != 1 || d.m.screen != previewing {
			t.Errorf("%s: did %q, on screen %d", name, f.done, d.m.screen)
		}
	}
}

// What has changed since it was shown is read again.
func TestReadAgain(t *testing.T) {
	f := newFake()
	d := start(t, f, 80, 24)
	d.keys("enter")
	f.rows = append([]Row{{Rev: "turn:4", Name: "turn 4", Text: "of another session", IsTurn: true}}, f.rows...)
	f.preview = func(*Ask) (*Answer, error) { return nil, errors.New("not as it was") }
	d.keys("enter esc")
	if got := d.screen(); len(f.done) > 0 || !strings.Contains(got, "of another session") {
		t.Errorf("did %q, shows %s", f.done, got)
	}
}

// Hunks come in parts, as far as they are looked at; no mark counts on what was not read.
func TestParts(t *testing.T) {
	f := newFake()
	f.parts = true
	d := start(t, f, 80, 24)
	d.keys("tab space")
	if len(d.m.marks) > 0 || d.m.message != stillReading {
		t.Errorf("marks %v, says %q", d.m.marks, d.m.message)
	}
	d.keys("space space space space enter enter")
	if want := []string{"take back turn:3[aaaa bbbb]"}; !slices.Equal(f.done, want) {
		t.Errorf("did %q, want %q", f.done, want)
	}
}

// TestManyTurns has 10,000 turns: the cursor is anywhere at once, and only what it rests on is read.
func TestManyTurns(t *testing.T) {
	f := newFake()
	f.rows, f.hunks = nil, make(map[string][]manager.Hunk)
	for i := range 10_000 {
		rev := fmt.Sprintf("turn:%d", 9999-i)
		f.rows = append(f.rows, Row{Rev: rev, Name: "turn " + rev[5:], Text: "do " + rev, When: noon,
			Files: 1, IsTurn: true})
		f.hunks[rev] = []manager.Hunk{hunk("aaaa", "f", 0, "+x\n", "clean")}
	}
	f.rows[70].Rev, f.rows[9000].Rev = "", "" // pruned
	d := start(t, f, 80, 24)
	if d.m.at != 0 || d.m.top != 0 {
		t.Errorf("begins at row %d, %d on top", d.m.at, d.m.top)
	}
	d.keys("end")
	if row := d.m.row(); row == nil || row.Rev != "turn:0" || !strings.Contains(d.screen(), "do turn:0") {
		t.Errorf("at %+v\n%s", row, d.screen())
	}
	for range 100 {
		d.keys("pgup")
	}
	if n := len(d.m.details); n > maxDetails {
		t.Errorf("%d rows are kept, at most %d", n, maxDetails)
	}
	d.keys("home space enter enter")
	if row := d.m.row(); len(f.done) != 1 || row.Rev != "turn:9999" {
		t.Errorf("did %q, at %+v", f.done, row)
	}
	d.keys("end enter enter")
	if row := d.m.row(); len(f.done) != 2 || row.Rev != "turn:0" {
		t.Errorf("did %q, at %+v", f.done, row)
	}
	d.keys("esc")
	if !d.quit {
		t.Error("esc does not end it")
	}
}

// No size of a terminal is too small, and no key of a list without rows ends it.
func TestSizes(t *testing.T) {
	for _, f := range []*fake{newFake(), {}} {
		for width := 1; width < 130; width += 7 {
			for _, height := range []int{1, 3, 5, 24, 70} {
				d := start(t, f, width, height)
				for _, keys := range []string{"tab", "j j pgdown n p F f", "z", "esc tab", "?", "esc", "space", "end"} {
					d.keys(keys)
					if width >= 20 && height >= 3 {
						d.screen()
					} else {
						d.m.draw()
					}
				}
			}
		}
	}
}

// Without colours only bold and reverse are left.
func TestNoColour(t *testing.T) {
	d := start(t, newFake(), 80, 24)
	d.keys("tab j")
	for _, style := range []string{"\x1b[3", "\x1b[2m"} {
		if text := strings.Join(d.m.draw(), "\n"); strings.Contains(text, style) {
			t.Errorf("%q without colours", style)
		}
		d.m.opts.IsColour = true
		if text := strings.Join(d.m.draw(), "\n"); !strings.Contains(text, style) {
			t.Errorf("no %q with colours", style)
		}
		d.m.opts.IsColour = false
	}
}
