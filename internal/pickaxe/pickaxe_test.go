package pickaxe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// TestLines: the lines that match are those that match each by itself, whatever the pattern.
func TestLines(t *testing.T) {
	rnd := testseed.Rand(t)
	for _, expr := range []string{"a", "^a", "b$", "^ab?$", `a\s+b`, "[^a]b", `\Aa`, `b\z`, "a|b", `\bab\b`, "(?i)A B"} {
		p, err := Compile(expr, Options{Regexp: true, Mode: Lines})
		if err != nil {
			t.Fatal(err)
		}
		one := regexp.MustCompile("(?m)" + expr)
		for range 500 {
			var text []byte
			for range rnd.IntN(12) {
				text = append(text, "aab \n\n"[rnd.IntN(6)])
			}
			var got, want []string
			for line := range p.lines(t.Context(), text) {
				got = append(got, fmt.Sprint(line.number, string(line.text)))
			}
			for i, line := range strings.Split(string(text), "\n") {
				isLine := i < strings.Count(string(text), "\n") || line != ""
				if isLine && one.MatchString(line) {
					want = append(want, fmt.Sprint(i+1, line))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("lines of %q that match %q: %q, want %q", text, expr, got, want)
			}
			if n := tallyOf(t, p, text); n != len(want) {
				t.Fatalf("%q in %q: %d, want %d", expr, text, n, len(want))
			}
		}
	}
}

func tallyOf(t *testing.T, p *Pattern, text []byte) int {
	t.Helper()
	got, err := p.tally(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return got.n
}

// TestPlaces: there are as many places as one look at the whole text finds, in whatever pieces it
// is looked at; and once the search is ended nothing is looked at any more.
func TestPlaces(t *testing.T) {
	rnd := testseed.Rand(t)
	size, some := blockSize, atOnce
	defer func() { blockSize, atOnce = size, some }()
	for _, expr := range []string{"^a", "a+$", `a\s+b`, "[^a]b", `\Aa`, `b\z`, "a|bb", `\bab\b`, "(?i)A ?B", "(?s)a.b",
		"b?$"} {
		p, err := Compile(expr, Options{Regexp: true})
		if err != nil {
			continue // it matches the empty text
		}
		whole := regexp.MustCompile("(?m)" + expr)
		for range 500 {
			blockSize, atOnce = 1+rnd.IntN(8), 1+rnd.IntN(3)
			var text []byte
			for range rnd.IntN(40) {
				text = append(text, "aab \n\n"[rnd.IntN(6)])
			}
			want, line := 0, 0
			for _, m := range whole.FindAllIndex(text, -1) {
				if m[1] > m[0] {
					if want++; want == 1 {
						line = 1 + strings.Count(string(text[:m[0]]), "\n")
					}
				}
			}
			got, err := p.tally(t.Context(), text)
			if err != nil || got.n != want || want > 0 && got.first.number != line {
				t.Fatalf("%q in %q, blocks of %d, %d at once: %+v, %v, want %d, the first in line %d", expr, text,
					blockSize, atOnce, got, err, want, line)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	p, err := Compile("[ab]", Options{Regexp: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.tally(ended, []byte("ab\nab\n")); !errors.Is(err, context.Canceled) || got.n != 0 {
		t.Errorf("a search that was ended: %+v, %v", got, err)
	}
}

func TestCompile(t *testing.T) {
	for _, tt := range []struct {
		text string
		o    Options
		in   string
		want int // -1: the pattern makes no sense
	}{
		{"a.c", Options{}, "a.c abc a.c", 2},
		{"a.c", Options{Regexp: true}, "a.c abc a.c", 3},
		{"A.C", Options{IgnoreCase: true}, "a.c abc A.c", 2},
		{"aa", Options{}, "aaaaa", 2},
		{"^b", Options{Regexp: true}, "b\nb\nab", 2},
		{"a", Options{}, "a\x00a", 0},
		{"a", Options{Binary: true}, "a\x00a", 2},
		{"a", Options{Binary: true, Mode: Lines}, "a\x00a", 0},
		{`a\b`, Options{Regexp: true}, "a ab a", 2},
		{`^ `, Options{Regexp: true}, "   a\n b", 2},
		{`\Aa`, Options{Regexp: true}, "aa", 1},
		{`^[^,]*,`, Options{Regexp: true}, "a,b,\nc,d", 2},
		{"", Options{}, "", -1},
		{"a*", Options{Regexp: true}, "", -1},
		{"a(", Options{Regexp: true}, "", -1},
	} {
		p, err := Compile(tt.text, tt.o)
		if tt.want < 0 || err != nil {
			if tt.want >= 0 || !errors.Is(err, path.ErrBadPattern) {
				t.Errorf("Compile(%q, %+v): %v", tt.text, tt.o, err)
			}
			continue
		}
		if got := tallyOf(t, p, []byte(tt.in)); got != tt.want {
			t.Errorf("%q (%+v) is in %q %d times, want %d", tt.text, tt.o, tt.in, got, tt.want)
		}
	}
}

// contents are what changes are of, with how often each was read.
type contents struct {
	mu    sync.Mutex
	texts map[store.ID]string
	read  map[store.ID]int
	err   error // of reading what is not there
}

func (c *contents) entry(text string) *tree.Entry {
	id := object.Hash(object.Blob, []byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts[id] = text
	return &tree.Entry{ID: id, Mode: tree.ModeFile | 0o644, Size: int64(len(text))}
}

func (c *contents) get(_ context.Context, id store.ID) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[id]++
	if text, ok := c.texts[id]; ok {
		return []byte(text), nil
	}
	return nil, c.err
}

// textOf returns a text that has as many x as its number has left of 7.
func textOf(n int) string { return fmt.Sprint(n, strings.Repeat(" x", n%7)) }

// TestRun: each content is read once, and results come in the order of the jobs. What cannot be
// read is told of; another error ends the search.
func TestRun(t *testing.T) {
	c := &contents{texts: make(map[store.ID]string), read: make(map[store.ID]int), err: store.ErrForgotten}
	p, err := Compile("x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	jobs := func(yield func(Job[int], error) bool) {
		for i := range n {
			job := Job[int]{Of: i}
			for j := range i % 40 {
				job.Changes = append(job.Changes, tree.Difference{Status: tree.Modified, Path: fmt.Sprint(j),
					Old: c.entry(textOf(i + j)), New: c.entry(textOf(i + j + 1))})
			}
			if i == 50 {
				gone := *job.Changes[3].New
				gone.ID[0]++
				job.Changes[3].New = &gone
			}
			if !yield(job, nil) {
				return
			}
		}
	}
	next := 0
	for r, err := range Run(t.Context(), New(p, c.get), jobs) {
		if err != nil {
			t.Fatal(err)
		}
		unread := 0
		if r.Of == 50 {
			unread = 1
		}
		if r.Of != next || len(r.Hits) != next%40-unread || len(r.Unread) != unread {
			t.Fatalf("result %d of job %d: %d hits, unread %v", next, r.Of, len(r.Hits), r.Unread)
		}
		next++
	}
	for id, times := range c.read { // once more for each change that has the text on both sides
		if text := c.texts[id]; !strings.Contains(text, "x") && times > 1 {
			t.Errorf("%q was read %d times", text, times)
		}
	}
	if next != n {
		t.Errorf("%d results, want %d", next, n)
	}

	c.err = errors.New("no disk")
	var last error
	for _, err := range Run(t.Context(), New(p, c.get), jobs) {
		last = err
	}
	if !errors.Is(last, c.err) {
		t.Errorf("Run: %v, want %v", last, c.err)
	}
	for range Run(t.Context(), New(p, c.get), jobs) {
		break // no goroutine stays, or the test of another package finds it
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	last = nil
	for _, err := range Run(ctx, New(p, c.get), jobs) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("Run, cancelled: %v", last)
	}
}
