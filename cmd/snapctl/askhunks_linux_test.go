package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newAsking returns a directory with a turn that changed three places of a, and made b.
func newAsking(t *testing.T) (do func(answers string, args ...string) (code int, out, said string),
	write func(name, text string), holds func(want string)) {
	dir := t.TempDir()
	on := onTerminal(t, t.TempDir())
	do = func(answers string, args ...string) (code int, out, said string) {
		t.Helper()
		return on(answers, append([]string{"--root", dir}, args...)...)
	}
	write = func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name),
			[]byte(strings.ReplaceAll(text, " ", "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holds = func(want string) {
		t.Helper()
		var got []string
		for _, name := range []string{"a", "b"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			got = append(got, strings.ReplaceAll(string(b), "\n", ""))
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("a and b hold %s, want %s", text, want)
		}
	}
	write("a", "1 2 3 4 5 6 7 8 9")
	do("", "snapshot")
	write("a", "A 2 3 4 B 6 7 8 C")
	write("b", "new")
	if code, _, said := do("", "snapshot"); code != exitDone {
		t.Fatalf("snapshot: %d, %s", code, said)
	}
	return do, write, holds
}

// On a terminal -p shows one hunk after the other and asks for each.
func TestAskHunks(t *testing.T) {
	for _, tt := range []struct {
		name, answers, args, want string
		code                      int
		said                      []string // "!": not that
	}{
		{"one", "n\ny\nn\nn\n", "revert -p 0", "A2345678C|new", exitDone,
			[]string{"(1/4) take back this hunk [y,n,q,a,d,j,k,?]? ", "@@ -5 +5 @@ ",
				" clean\r\n 2\r\n 3\r\n 4\r\n-5\r\n+B\r\n 6\r\n"}},
		{"quit", "y\nq\n", "revert -p turn:0", "1234B678C|new", exitDone, nil},
		{"all of a file", "a\nn\n", "revert -p 0", "123456789|new", exitDone, nil},
		{"none of a file", "d\ny\ny\n", "revert -p 0", "A234B678C|", exitDone, []string{"go on and delete 1 file?"}},
		{"no", "n\nn\nn\nn\n", "revert -p 0", "A234B678C|new", exitRefused,
			[]string{"no hunk was chosen: nothing was changed"}},
		{"later and back", "j\ny\nk\nn\nn\nn\n", "revert -p 0", "A2345678C|new", exitDone, []string{"(2/4)", "(1/4)"}},
		{"help", "h\n?\nq\n", "revert -p 0", "A234B678C|new", exitRefused,
			[]string{"y - take back this hunk\r\n", "j - leave it undecided", "? - this help\r\n", "!s - divide it"}},
		{"nobody answers", "y\n\x04", "revert -p 0", "A234B678C|new", exitRefused, []string{"nothing was changed"}},
		{"only there", "y\nn\nn\n", "revert -p 0 -- a", "1234B678C|new", exitDone, []string{"(3/3)"}},
		{"restore", "n\nn\ny\nn\n", "restore -p @~1", "A234B6789|new", exitDone, nil},
		{"restore files", "y\nn\nn\n", "restore -p start a", "1234B678C|new", exitDone, nil},
		{"only look", "n\ny\nn\nn\n", "revert -n -p 0", "A234B678C|new", exitDone, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			do, _, holds := newAsking(t)
			code, out, said := do(tt.answers, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit code %d, output %q, says %q, want %d", code, out, said, tt.code)
			}
			for _, want := range tt.said {
				text, not := strings.CutPrefix(want, "!")
				if strings.Contains(said, text) == not {
					t.Errorf("says %q, want %q", said, want)
				}
			}
			holds(tt.want)
			if tt.code == exitDone && !strings.Contains(tt.args, "-n") {
				if code, _, said := do("", "undo"); code != exitDone {
					t.Errorf("undo: %d, %s", code, said)
				}
				holds("A234B678C|new")
			}
		})
	}
}

// Where turns made the same change it is asked for the hunks of each.
func TestAskHunksSameChange(t *testing.T) {
	do, write, holds := newAsking(t)
	for _, text := range []string{"1 2 3 4 5 6 7 8 9", "A 2 3 4 B 6 7 8 C"} {
		write("a", text)
		if code, _, said := do("", "snapshot"); code != exitDone {
			t.Fatalf("snapshot: %d, %s", code, said)
		}
	}
	code, _, said := do("y\nn\nn\nn\nn\nn\nn\n", "revert", "-p", "0", "2")
	if code != exitDone || !strings.Contains(said, "(7/7)") {
		t.Errorf("exit code %d, says %q", code, said)
	}
	holds("1234B678C|new")
}

// A hunk that was written anew can be divided; one in conflict says who is in its way;
// one that is back already is not asked for.
func TestAskHunksDivided(t *testing.T) {
	dir := t.TempDir()
	on := onTerminal(t, t.TempDir())
	text := func(mark string) (list []string) {
		for i := range 10 {
			for range 5 {
				list = append(list, mark+string(rune('0'+i)))
			}
			list = append(list, "")
		}
		return list
	}
	write := func(lines []string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(text("old"))
	on("", "--root", dir, "snapshot")
	write(text("new"))
	on("", "--root", dir, "snapshot")
	mine := text("new")
	mine[56] = "mine"
	write(mine)
	code, out, said := on("?\ns\nn\ny\nq\n", "--root", dir, "revert", "-p", "0")
	if code != exitDone || !strings.Contains(said, "conflict with user\r\n") ||
		!strings.Contains(said, "s - divide it into smaller ones\r\n") ||
		!strings.Contains(said, "divided into 10 hunks\r\n") ||
		!strings.Contains(said, "(2/10) take back this hunk [y,n,q,a,d,j,k,?]?") ||
		!strings.Contains(said, ",j,k,s,?]") && !strings.Contains(said, "d,s,?]") {
		t.Errorf("exit code %d, output %q, says %q", code, out, said)
	}
	b, _ := os.ReadFile(filepath.Join(dir, "a"))
	if got := string(b); strings.Count(got, "old1\n") != 5 || strings.Count(got, "old") != 5 ||
		strings.Count(got, "mine\n") != 1 {
		t.Errorf("a holds %q", got)
	}
	code, out, said = on("s\nq\n", "--root", dir, "revert", "-p", "0")
	if code != exitRefused || !strings.Contains(said, "no hunk was chosen") {
		t.Errorf("exit code %d, output %q, says %q", code, out, said)
	}
}
