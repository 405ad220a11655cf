package merging

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func TestIsMarker(t *testing.T) {
	for _, tt := range []struct {
		line  string
		signs int
		want  bool
	}{
		{"<<<<<<<\n", 7, true},
		{"<<<<<<< now\n", 7, true},
		{"=======", 7, true},
		{"=======\r\n", 7, true},
		{"||||||| after turn 3\n", 7, true},
		{">>>>>>>> b\n", 8, true},
		{">>>>>>>> b\n", 7, false}, // one of another conflict, which has more signs
		{"<<<<<< a\n", 7, false},
		{"<<<<<<<a\n", 7, false},
		{" <<<<<<<\n", 7, false},
		{"-------\n", 7, false},
		{"", 7, false},
		{"\n", 7, false},
	} {
		if got := IsMarker([]byte(tt.line), tt.signs); got != tt.want {
			t.Errorf("IsMarker(%q, %d) = %v", tt.line, tt.signs, got)
		}
	}
	text := []byte("a\n<<<<<<<< now\nb\n========\nc\n>>>>>>>> x\n")
	if HasMarkers(text, []int{7, 9}) || !HasMarkers(text, []int{7, 8}) || HasMarkers(text, nil) {
		t.Error("HasMarkers does not look at the number of signs")
	}
	signs, lines := markersIn(text[2:])
	if want := "<<<<<<<< now\n========\n>>>>>>>> x\n"; signs != 8 || string(lines) != want {
		t.Errorf("markersIn = %d, %q, want 8, %q", signs, lines, want)
	}
}

// TestWhereSpan: lines of what a window left, in a text from which others of it are out, and itself.
func TestWhereSpan(t *testing.T) {
	// What was left has ten lines: 2 and 3 took the place of one line, 6 came, three lines went before 8.
	a, b, c := history.Span{2, 4, 2, 3}, history.Span{6, 7, 5, 5}, history.Span{8, 8, 6, 9}
	for name, tt := range map[string]struct {
		s          history.Span
		out        []history.Span
		start, end int
	}{
		"nothing is out":           {b, nil, 6, 7},
		"what is before is out":    {b, []history.Span{a}, 5, 6},
		"itself is out":            {b, []history.Span{b}, 6, 6},
		"the first is out":         {a, []history.Span{a}, 2, 3},
		"what is behind is out":    {a, []history.Span{b, c}, 2, 4},
		"all are out":              {c, []history.Span{a, b, c}, 6, 9},
		"two before are out":       {c, []history.Span{a, b}, 6, 6},
		"itself and the one ahead": {b, []history.Span{a, b}, 5, 5},
	} {
		if start, end := whereSpan(tt.s, tt.out); start != tt.start || end != tt.end {
			t.Errorf("%s: %d to %d, want %d to %d", name, start, end, tt.start, tt.end)
		}
	}
}

func TestCuts(t *testing.T) {
	one := history.Cut{Path: []byte("p"), Turn: 3, Spans: []history.Span{{5, 6, 5, 5}, {1, 2, 1, 1}}}
	mode := history.Cut{Path: []byte("p"), Turn: 3, Mode: true}
	other := history.Cut{Path: []byte("p"), Turn: 3, Window: 2, Spans: []history.Span{{3, 4, 3, 4}}}
	whole := history.Cut{Path: []byte("p"), Turn: 4, Whole: true}
	all := []history.Cut{one, mode, other, whole}

	if got, want := CutsOfWindow(all, 3, 0), []history.Cut{one, mode}; cmp.Diff(want, got) != "" {
		t.Errorf("CutsOfWindow = %v, want %v", got, want)
	}
	if got, want := CutsBut(all, []history.Cut{mode, whole}), []history.Cut{one, other}; cmp.Diff(want, got) != "" {
		t.Errorf("CutsBut = %v, want %v", got, want)
	}
	if len(all) != 4 || !all[3].Whole {
		t.Error("CutsBut changes its argument")
	}
	if got, want := SpansOf(all), []history.Span{{1, 2, 1, 1}, {3, 4, 3, 4}, {5, 6, 5, 5}}; !slices.Equal(got, want) {
		t.Errorf("SpansOf = %v, want %v", got, want)
	}
	if IsOut([]history.Cut{one, mode}) || !IsOut(all) {
		t.Error("IsOut is not whether a cut is of all")
	}

	file := func(mode tree.Mode) *tree.Entry { return &tree.Entry{Mode: tree.ModeFile | mode, ID: store.ID{1}} }
	for name, tt := range map[string]struct {
		part Part
		cuts []history.Cut
		want bool
	}{
		"nothing is out":          {Part{Found: file(0o644), Left: file(0o755)}, nil, false},
		"lines are":               {Part{Found: file(0o644), Left: file(0o755)}, []history.Cut{one}, false},
		"the mode is":             {Part{Found: file(0o644), Left: file(0o755)}, []history.Cut{one, mode}, true},
		"all is":                  {Part{Found: file(0o644), Left: file(0o755)}, []history.Cut{whole}, true},
		"all, which has no mode":  {Part{Found: file(0o644), Left: file(0o644)}, []history.Cut{whole}, false},
		"all of what made a file": {Part{Left: file(0o755)}, []history.Cut{whole}, false},
	} {
		if got := tt.part.isModeOut(tt.cuts); got != tt.want {
			t.Errorf("%s: isModeOut = %v", name, got)
		}
	}
}

func TestHasCommon(t *testing.T) {
	for name, tt := range map[string]struct {
		text, ours, theirs string
		want               bool
	}{
		"all is there":               {"a\nb\n", "a\nb\n", "b\na\n", true},
		"a line of both went":        {"a\n", "a\nb\n", "b\na\n", false},
		"a line of one went":         {"a\n", "a\nb\n", "a\n", true},
		"it has another line end":    {"a\r\nb", "a\nb\n", "a\nb\n", true},
		"nothing is in both":         {"", "a\n", "b\n", true},
		"one of two such lines went": {"x\n", "x\nx\n", "x\n", true},
	} {
		if got := hasCommon([]byte(tt.text), []byte(tt.ours), []byte(tt.theirs)); got != tt.want {
			t.Errorf("%s: hasCommon = %v", name, got)
		}
	}
}

func TestBegan(t *testing.T) {
	record := func(seq uint64, kind string, f history.LineFacts) *history.Record {
		return &history.Record{Snapshot: &store.Snapshot{Seq: seq, Kind: kind}, Facts: history.Facts{LineFacts: f}}
	}
	behind := record(9, history.KindStep, history.LineFacts{Prev: 2})
	behind.Behind = record(5, history.KindTool, history.LineFacts{})
	for name, tt := range map[string]struct {
		of   *history.Record
		want uint64
	}{
		"a turn":                 {record(9, history.KindStep, history.LineFacts{Since: 7, Within: 6, Prev: 2}), 7},
		"a turn in another":      {record(9, history.KindStep, history.LineFacts{Within: 6, Prev: 2}), 6},
		"a turn after another":   {record(9, history.KindStep, history.LineFacts{Prev: 2}), 2},
		"the first of all":       {record(9, history.KindStep, history.LineFacts{}), 9},
		"a restore":              {record(9, history.KindRestore, history.LineFacts{Prev: 2}), 9},
		"what is left of a turn": {behind, 5},
	} {
		if got := (&Step{Of: tt.of}).Began(); got != tt.want {
			t.Errorf("%s: Began = %d, want %d", name, got, tt.want)
		}
	}
}
