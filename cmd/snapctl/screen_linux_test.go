package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/manager"
)

// aDay makes a project in which an agent has had some turns, and its user has edited, taken
// back and named something.
func aDay(t *testing.T, s *seat) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "shop")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, []byte(text), 0o644))
	}
	write("cart.py", "def total(items):\n    return 0\n")
	m, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: s.stores, Session: "s1"})
	must(err)
	defer m.Close()
	_, err = m.Initialize(t.Context())
	must(err)
	turn := func(title string, work func()) {
		t.Helper()
		_, err := m.OnTurnStart(t.Context(), &manager.Turn{Title: title, Agent: "claude", Model: "m-1"})
		must(err)
		work()
		_, err = m.OnTurnEnd(t.Context(), nil)
		must(err)
	}
	user := func(args ...string) {
		t.Helper()
		if code, out := s.run(append([]string{"--root", dir, "--session", "s1"}, args...)...); code != exitDone {
			t.Fatalf("%q: %d, %s", args, code, out)
		}
	}
	turn("sum the prices\nand nothing else", func() {
		write("cart.py", "def total(items):\n    return sum(i.price for i in items)\n")
		write("tests/unit/test_cart_with_many_items.py", strings.Repeat("assert True\n", 12))
	})
	write("README", "mine\n")
	turn("説明を書いて、全角の名前のファイルに", func() {
		write("文档/说明.md", "一\n二\n")
		write("👩‍💻.txt", "x\n")
		write("café.txt", "x\n")
	})
	turn("only look", func() {})
	turn("delete \x1b[2J everything", func() {
		must(os.Remove(filepath.Join(dir, "cart.py")))
		write("large.bin", strings.Repeat("a line of it\n", maxFileCounted/13+1))
	})
	user("restore", "-y", "@~1")
	write("cart.py", "def total(items):\n    return 1\n")
	user("snapshot", "--label", "vor der Änderung")
	return dir
}

// changing is what is another one each time.
var changing = regexp.MustCompile(`\b[0-9a-f]{8}\b|\b[0-9a-f]{12}\b|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\d+ s ago|` +
	`/\S*/shop`)

// TestScreens compares what some commands print on terminals of several widths with
// testdata/screen; -update writes it anew.
func TestScreens(t *testing.T) {
	s := newSeat(t, t.TempDir())
	dir := aDay(t, s)
	for _, tt := range []struct {
		name    string
		columns []uint16
		args    []string
	}{
		{"log", []uint16{40, 60, 80, 100, 140}, []string{"log"}},
		{"log-stat", []uint16{80}, []string{"log", "--stat", "-n", "2"}},
		{"log-graph", []uint16{80}, []string{"log", "--graph"}},
		{"log-paths", []uint16{100}, []string{"log", "--", "cart.py"}},
		{"log-grep", []uint16{80}, []string{"log", "--grep", "only|LOOK|änderung"}},
		{"log-oneline", []uint16{80}, []string{"log", "--oneline"}},
		{"show", []uint16{80}, []string{"show", "turn:0"}},
		{"show-label", []uint16{80}, []string{"show", "@"}},
		{"show-start", []uint16{80}, []string{"show", "start"}},
		{"diff-stat", []uint16{40, 80}, []string{"diff", "--stat", "start", "@"}},
		{"blame", []uint16{60, 80, 120}, []string{"blame", "-L", "1,2",
			"tests/unit/test_cart_with_many_items.py"}},
	} {
		var got strings.Builder
		for _, columns := range tt.columns {
			s.columns = columns
			code, out := s.run(append([]string{"--root", dir, "--session", "s1"}, tt.args...)...)
			if code != exitDone {
				t.Errorf("%q: exit code %d", tt.args, code)
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("%q: control characters: %q", tt.args, out)
			}
			fmt.Fprintf(&got, "-- %d columns\n", columns)
			for line := range strings.Lines(out) {
				if n := width(strings.TrimSuffix(line, "\n")); n > int(columns) && columns > 40 &&
					!strings.HasPrefix(tt.name, "show") && tt.name != "log-oneline" {
					t.Errorf("%q: a line of %d columns, on %d: %s", tt.args, n, columns, line)
				}
				got.WriteString(changing.ReplaceAllStringFunc(line, func(text string) string {
					if strings.HasSuffix(text, " ago") { // it takes the room of another
						return fmt.Sprintf("%-*s", len(text), "just now")
					}
					return strings.Repeat("x", min(len(text), 12))
				}))
			}
		}
		golden := filepath.Join("testdata", "screen", tt.name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%q (-want +got): -update writes it\n%s", tt.args, d)
		}
	}
	s.columns = 80
	_, out := s.run("stores") // what it takes is another each time
	for line := range strings.Lines(out) {
		if n := width(strings.TrimSuffix(line, "\n")) - width(dir); n > 60 || !strings.Contains(out, dir) {
			t.Errorf("stores: %d columns, without the path: %s", n, line)
		}
	}
}

// Colours and links can be had, and say nothing that letters do not.
func TestScreenColours(t *testing.T) {
	s := newSeat(t, t.TempDir())
	dir := aDay(t, s)
	log := func() string {
		t.Helper()
		code, out := s.run("--root", dir, "--session", "s1", "log")
		if code != exitDone {
			t.Errorf("log: %d, %s", code, out)
		}
		return out
	}
	plain := log()
	delete(s.env, "NO_COLOR")
	coloured := log()
	for _, want := range []string{"\x1b[1m0\x1b[m", "\x1b[32m+13\x1b[m", "○ \x1b[2m3"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in %q", want, coloured)
		}
	}
	if strings.Contains(coloured, "\x1b]8") {
		t.Errorf("links on a terminal that is not known to have them: %q", coloured)
	}
	s.env["TERM_PROGRAM"] = "WezTerm"
	linked := log()
	if want := "/shop/cart.py\x1b\\cart.py\x1b]8;;\x1b\\"; !strings.Contains(linked, want) {
		t.Errorf("no %q in %q", want, linked)
	}
	if want := "/shop/caf%C3%A9.txt"; !strings.Contains(linked, want) {
		t.Errorf("no %q in %q", want, linked)
	}
	sequences := regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b]8;[^\x1b]*\x1b\\\\")
	for _, out := range []string{coloured, linked} {
		ago := regexp.MustCompile(`\d+ s ago|just now`)
		out = ago.ReplaceAllString(sequences.ReplaceAllString(out, ""), "")
		if d := cmp.Diff(strings.Fields(ago.ReplaceAllString(plain, "")), strings.Fields(out)); d != "" {
			t.Errorf("without colours and links (-want +got):\n%s", d)
		}
	}
	s.env["TERM"] = "tmux-256color"
	if out := log(); strings.Contains(out, "\x1b]8") {
		t.Errorf("links in tmux: %q", out)
	}
}

func TestColumnsOfLog(t *testing.T) {
	for columns := 1; columns < 300; columns++ {
		c := columnsOfLog(columns)
		sum := 1 + 1 + c.number + 2 + c.what
		for _, n := range []int{c.ago, c.who, c.files, c.lines, c.names, c.rev} {
			if n > 0 {
				sum += 2 + n
			}
		}
		if columns >= 16 && sum != columns || c.what < leastWhat {
			t.Errorf("on %d columns there are %d: %+v", columns, sum, c)
		}
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"全角", 4, "全角"}, {"全角だ", 5, "全角…"}, {"全角だ", 4, "全…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"👩‍💻👩‍💻", 3, "👩‍💻…"}, {"", 3, ""},
	} {
		if got := fit(tt.text, tt.columns); got != tt.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tt.text, tt.columns, got, tt.want)
		}
	}
	for _, tt := range []struct {
		path    string
		columns int
		want    string
	}{
		{"a/b/c.go", 8, "a/b/c.go"}, {"a/b/c.go", 7, "…/c.go"}, {"abc/def/c.go", 8, "…/c.go"},
		{"abc/def/long-name.go", 8, "long-na…"}, {"abcdefghij", 5, "abcd…"},
	} {
		if got := fitPath(tt.path, tt.columns); got != tt.want {
			t.Errorf("fitPath(%q, %d) = %q, want %q", tt.path, tt.columns, got, tt.want)
		}
	}
	for n := range 40 {
		text := "全角\ttab \"quoted\" and long enough for all\nsecond"
		if got := fitQuoted(text, n+8); width(got) > n+8 || !strings.HasSuffix(got, `"`) {
			t.Errorf("fitQuoted in %d columns = %s, of %d", n+8, got, width(got))
		}
	}
	for n, want := range map[int]string{0: "0", 9999: "9999", 10000: "10k", 999999: "999k", 1 << 40: "999M"} {
		if got := shortCount(n); got != want {
			t.Errorf("shortCount(%d) = %s, want %s", n, got, want)
		}
	}
}
