package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/manager"
)

// terminal returns the two ends of a terminal: what a user has, and what a program
// has.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// Nobody looks at another device, or answers there: a restore that a cron job makes asks nothing.
func TestIsTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	user, program := terminal(t)
	for _, tt := range []struct {
		name string
		file *os.File
		want bool
	}{{os.DevNull, null, false}, {"a terminal", program, true}, {"its other side", user, true}} {
		if got := isTerminal(tt.file); got != tt.want {
			t.Errorf("isTerminal(%s) = %v", tt.name, got)
		}
	}
}

// onTerminal returns what runs a command with an answer, in its own terminal: what
// it prints and what it says there.
func onTerminal(t *testing.T, stores string) func(answer string, args ...string) (code int, out, said string) {
	getenv := func(name string) string {
		if name == "BOO_ENGINE" {
			return "off"
		}
		return ""
	}
	return func(answer string, args ...string) (code int, out, said string) {
		t.Helper()
		user, program := terminal(t)
		if _, err := user.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		var stdout bytes.Buffer
		code = run(t.Context(), append([]string{"--store", stores}, args...), program, &stdout, program, getenv)
		program.Close()
		b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
		return code, stdout.String(), string(b)
	}
}

// A title has as much of a line as the terminal is wide.
func TestTitleWidth(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	m, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: stores, Session: "s"})
	if err == nil {
		_, err = m.OnTurnStart(t.Context(), &manager.Turn{Title: strings.Repeat("0123456789", 40)})
	}
	if err == nil {
		_, err = m.OnTurnEnd(t.Context(), nil)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range []uint16{0, 40, 120, 200} {
		user, program := terminal(t)
		if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ,
			&unix.Winsize{Col: columns, Row: 24}); err != nil {
			t.Skip(err)
		}
		args := []string{"--store", stores, "--root", dir, "log", "--oneline"}
		if code := run(t.Context(), args, program, program, io.Discard,
			func(string) string { return "" }); code != exitDone {
			t.Errorf("log: %d", code)
		}
		program.Close()
		b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
		first, _, _ := strings.Cut(string(b), "\r\n")
		plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(first, "")
		want := int(columns)
		switch columns {
		case 0: // it does not say
			want = 80
		case 40: // what comes before is longer
			want = utf8.RuneCountInString(plain[:strings.Index(plain, `"`)]) + 19
		}
		if got := utf8.RuneCountInString(plain); got != want || !strings.HasSuffix(plain, `…"`) {
			t.Errorf("on %d columns the line has %d: %s", columns, got, plain)
		}
	}
}

// Ctrl-C at a question ends the command at once: it does not wait for a line, and takes
// none for an answer.
func TestInterruptedQuestion(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	on := onTerminal(t, stores)
	for _, session := range []string{"a", "b"} {
		for _, text := range []string{"1\n", "2\n"} {
			if err := os.WriteFile(filepath.Join(dir, session), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, _, said := on("", "--root", dir, "--session", session, "snapshot"); code != exitDone {
				t.Fatalf("snapshot: %d, %s", code, said)
			}
		}
	}
	for _, tt := range []struct{ question, what string }{
		{"which one? [1-2] ", "restore @~1"},
		{"[y/N] ", "--session b prune --drop-session"},
		{"[y/N] ", "stores rm " + dir},
	} {
		user, program := terminal(t)
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan string)
		go func() {
			var said []byte
			b := make([]byte, 1)
			for !bytes.HasSuffix(said, []byte(tt.question)) {
				if n, err := user.Read(b); n == 0 || err != nil {
					break
				}
				said = append(said, b[0])
			}
			cancel()
			seen <- string(said)
		}()
		args := append([]string{"--root", dir, "--store", stores}, strings.Fields(tt.what)...)
		code := run(ctx, args, program, io.Discard, program, func(string) string { return "" })
		program.Close() // the user's end is told so, if nothing was asked
		if said := <-seen; code != exitInterrupted {
			t.Errorf("%s: exit code %d after %q, want %d", tt.what, code, said, exitInterrupted)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("there are %v, %v; want a and b", names, err)
	}
}

// A restore that deletes asks, and says whether files go, directories, or both.
func TestAskedToDelete(t *testing.T) {
	dir := t.TempDir()
	on := onTerminal(t, t.TempDir())
	do := func(args ...string) (said string) {
		t.Helper()
		code, _, said := on("n\n", append([]string{"--root", dir}, args...)...)
		if want := map[bool]int{true: exitRefused, false: exitDone}[args[0] == "restore"]; code != want {
			t.Errorf("%q: exit code %d, %s", args, code, said)
		}
		return said
	}
	do("snapshot")
	for _, c := range []struct{ make, asks string }{
		{"empty/", "go on and delete 1 directory? [y/N] "},
		{"f", "go on and delete 1 file? [y/N] "},
		{"g empty/ other/", "go on and delete 1 file and 2 directories? [y/N] "},
	} {
		for name := range strings.FieldsSeq(c.make) {
			name, isDir := strings.CutSuffix(name, "/")
			name = filepath.Join(dir, name)
			err := os.RemoveAll(name)
			if isDir {
				err = errors.Join(err, os.Mkdir(name, 0o755))
			} else {
				err = errors.Join(err, os.WriteFile(name, []byte("x"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		do("snapshot")
		if said := do("restore", "@~1"); !strings.Contains(said, c.asks) {
			t.Errorf("with %s new it says %q, want %q", c.make, said, c.asks)
		}
		for name := range strings.FieldsSeq(c.make) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		do("snapshot")
	}
}

// Of a file that was named and that the user has changed a restore asks, with how
// much would go. Of several it asks once.
func TestAskedToOverwrite(t *testing.T) {
	dir := t.TempDir()
	on := onTerminal(t, t.TempDir())
	do := func(answer string, args ...string) (code int, out, said string) {
		t.Helper()
		return on(answer, append([]string{"--root", dir}, args...)...)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(name, text string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
			t.Errorf("%s holds %q (%v), want %q", name, b, err, text)
		}
	}
	write("p.txt", "1\n2\n")
	write("kept", "start\n")
	for _, text := range []string{"1\n2\n3\n", "1\n2\n3\n4\n"} {
		if code, _, said := do("", "snapshot"); code != exitDone {
			t.Fatalf("snapshot: %d, %s", code, said)
		}
		write("p.txt", text)
	}
	do("", "snapshot")
	write("p.txt", "1\nmine\nand mine\n4\n5\n")
	write("kept", "mine\n")

	const question = "p.txt: you changed it after turn 1 (+3 -2 lines); overwrite? [y/N]"
	code, out, said := do("n\n", "restore", "turn:0", "p.txt")
	if code != exitPart || !strings.Contains(out, "skipped p.txt: ") || strings.Count(said, question) != 1 ||
		!strings.Contains(said, " restore turn:0 --exact -- p.txt; ") {
		t.Errorf("no: exit code %d, output %q, says %q", code, out, said)
	}
	holds("p.txt", "1\nmine\nand mine\n4\n5\n")
	for _, args := range [][]string{{"-n", "turn:0", "p.txt"}, {"-y", "turn:0", "p.txt"},
		{"--on-dirty", "skip", "turn:0", "p.txt"}} {
		if code, _, said := do("y\n", append([]string{"restore"}, args...)...); code != exitPart ||
			strings.Contains(said, "[y/N]") {
			t.Errorf("restore %q: exit code %d, says %q", args, code, said)
		}
	}
	code, out, said = do("y\n", "restore", "turn:0", "p.txt")
	if code != exitDone || out != "restored p.txt\n" || strings.Count(said, question) != 1 {
		t.Errorf("yes: exit code %d, output %q, says %q", code, out, said)
	}
	holds("p.txt", "1\n2\n3\n")
	if code, _, said := do("", "undo"); code != exitDone {
		t.Errorf("undo: %d, %s", code, said)
	}
	holds("p.txt", "1\nmine\nand mine\n4\n5\n")

	code, out, said = do("y\n", "restore", "start", "p.txt", "kept")
	if code != exitDone || out != "restored kept\nrestored p.txt\n" ||
		!strings.Contains(said, "kept: you changed it after the session began (+1 -1 lines)\r\n") ||
		!strings.Contains(said, "overwrite all 2 files (+4 -3 lines)? [y/N]") || strings.Count(said, "?") != 1 {
		t.Errorf("two: exit code %d, output %q, says %q", code, out, said)
	}
	holds("kept", "start\n")
	for i := range 12 {
		write(fmt.Sprintf("made%02d", i), "turn\n")
	}
	do("", "snapshot")
	for i := range 12 {
		write(fmt.Sprintf("made%02d", i), "mine\n")
	}
	code, _, said = do("y\n", "restore", "start", "made*")
	if code != exitDone || !strings.Contains(said, "delete all 12 files (+12 -12 lines)? [y/N]") ||
		!strings.Contains(said, "made09: you changed it after turn 2 (+1 -1 lines)\r\nand 2 more\r\n") {
		t.Errorf("many: exit code %d, says %q", code, said)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "made*")); err != nil || len(list) > 0 {
		t.Errorf("left %q, %v", list, err)
	}
}

// On a terminal a command asks once whether the history of a directory that was
// moved goes on, and goes on itself; so does one that removes a store.
func TestAskedToAdopt(t *testing.T) {
	base := t.TempDir()
	old, now, stores := filepath.Join(base, "old"), filepath.Join(base, "now"), filepath.Join(base, "stores")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	do := onTerminal(t, stores)
	if code, _, said := do("", "--root", old, "snapshot", "--label", "one"); code != exitDone {
		t.Fatalf("snapshot: %d, %s", code, said)
	}
	if err := os.Rename(old, now); err != nil {
		t.Skip(err)
	}
	const question = "continue its history here? [y/N]"
	code, out, said := do("n\n", "--root", now, "log")
	if code != exitRefused || out != "" || strings.Count(said, question) != 1 || !strings.Contains(said, "--fresh") {
		t.Errorf("no: exit code %d, output %q, says %q", code, out, said)
	}
	code, out, said = do("y\n", "--root", now, "log")
	if code != exitDone || !strings.Contains(out, " one\n") || strings.Count(said, question) != 1 {
		t.Errorf("yes: exit code %d, output %q, says %q", code, out, said)
	}
	if code, out, said = do("", "--root", now, "log"); code != exitDone ||
		!strings.Contains(out, " one\n") || strings.Contains(said, "?") {
		t.Errorf("afterwards: exit code %d, output %q, says %q", code, out, said)
	}
	if code, _, said = do("n\n", "stores", "rm", now); code != exitRefused ||
		!strings.Contains(said, "remove it, for good? [y/N]") {
		t.Errorf("stores rm, no: exit code %d, says %q", code, said)
	}
	if code, _, said = do("y\n", "stores", "rm", now); code != exitDone {
		t.Errorf("stores rm, yes: exit code %d, says %q", code, said)
	}
	if names, err := filepath.Glob(filepath.Join(stores, "*", "FORMAT")); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
}

// TestControlsOnTerminal: what a file holds does not get to a terminal as it is, and
// into a pipe, or with --raw, it does.
func TestControlsOnTerminal(t *testing.T) {
	const nasty = "\x1b]52;c;cm0gLXJmIH4=\a\x1b]0;title\x07 \u009b31m \x9b2J up\x1b[A\rover\ttab\r\n"
	base := t.TempDir()
	root, stores := filepath.Join(base, "p"), filepath.Join(base, "stores")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(root, 0o755),
			os.WriteFile(filepath.Join(root, "f"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string {
		if name == "BOO_ENGINE" {
			return "off"
		}
		return ""
	}
	do := func(stdout, stderr io.Writer, args ...string) {
		t.Helper()
		if code := run(t.Context(), append([]string{"--store", stores, "--root", root}, args...), nil,
			stdout, stderr, getenv); code != exitDone {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
	write("one\n")
	do(io.Discard, io.Discard, "--session", "s", "snapshot")
	write(nasty)
	do(io.Discard, io.Discard, "--session", "s", "snapshot")
	write("one\n")
	for _, args := range [][]string{{"diff"}, {"diff", "start", "@"}, {"show", "-p", "@"}, {"log", "-p"},
		{"cat", "@", "f"}, {"diff", "--turn", "@"}, {"diff", "--json", "-p"}} {
		for _, colour := range []string{"always", "never"} {
			user, program := terminal(t)
			done := make(chan []byte)
			go func() {
				b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
				done <- b
			}()
			do(program, program, append(args, "--color", colour)...)
			program.Close()
			seen := string(<-done)
			for colour == "always" { // ours
				before, after, ok := strings.Cut(seen, "\x1b[")
				code, rest, end := strings.Cut(after, "m")
				if !ok || !end || strings.Trim(code, "0123456789") != "" {
					break
				}
				seen = before + rest
			}
			if i := strings.IndexFunc(seen, func(c rune) bool {
				return c < ' ' && c != '\t' && c != '\r' && c != '\n' || 0x7f <= c && c < 0xa0 || c == utf8.RuneError
			}); i >= 0 {
				t.Errorf("%q, colours %s: a terminal gets %q at %d of %q", args, colour, seen[i:i+1], i, seen)
			}
			if strings.Contains(strings.ReplaceAll(seen, "\r\n", ""), "\rover") {
				t.Errorf("%q, colours %s: a terminal gets a CR in %q", args, colour, seen)
			}
			if !slices.Contains(args, "--json") && !strings.Contains(seen, `^[]52;c;cm0gLXJmIH4=^G^[]0;title^G \x9b31m \x9b2J up^[[A^Mover`+"\ttab") {
				t.Errorf("%q, colours %s: not in visible form: %q", args, colour, seen)
			}
		}
		if slices.Contains(args, "--json") {
			continue
		}
		var pipe bytes.Buffer
		do(&pipe, io.Discard, args...)
		if !strings.Contains(pipe.String(), nasty) {
			t.Errorf("%q into a pipe: %q, want the bytes of the file", args, pipe.String())
		}
		user, program := terminal(t)
		done := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(user)
			done <- b
		}()
		do(program, program, slices.Insert(slices.Clone(args), 1, "--raw")...)
		program.Close()
		if seen := string(<-done); !strings.Contains(seen, strings.TrimSuffix(nasty, "\r\n")) {
			t.Errorf("%q --raw: %q, want the bytes of the file", args, seen)
		}
	}
}

// TestLogContested: files of which it is not known whose change they are count as changed, and
// log says that they are such.
func TestLogContested(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	var turns []*manager.FileSnapshotManager
	for _, id := range []string{"one", "two"} {
		m, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: stores, Session: id, Detached: true})
		if err == nil {
			_, err = m.Initialize(t.Context())
		}
		if err == nil {
			_, err = m.OnTurnStart(t.Context(), &manager.Turn{Title: "make a"})
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		turns = append(turns, m)
	}
	err := os.WriteFile(filepath.Join(dir, "a"), []byte("a\n"), 0o644)
	if err == nil {
		_, err = turns[0].OnTurnEnd(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	user, program := terminal(t)
	args := []string{"--store", stores, "--root", dir, "--session", "one", "log"}
	code := run(t.Context(), args, nil, program, program, func(string) string { return "" })
	program.Close()
	b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
	if s := string(b); code != exitDone || !strings.Contains(s, "1 file  ") ||
		!strings.Contains(s, "1 file contested: it may have been another session, or the user") {
		t.Errorf("exit code %d, log shows\n%s", code, s)
	}
}

// TestAskedToGoBeside: where a turn of another session is open, what takes something back asks
// about that first, and not after it was told to go on.
func TestAskedToGoBeside(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	on := onTerminal(t, stores)
	write := func(m *manager.FileSnapshotManager, name string) {
		t.Helper()
		_, err := m.OnTurnStart(t.Context(), &manager.Turn{Title: "make " + name})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var sessions []*manager.FileSnapshotManager
	for _, id := range []string{"one", "two"} {
		m, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: stores, Session: id, Detached: true})
		if err == nil {
			_, err = m.Initialize(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		sessions = append(sessions, m)
	}
	write(sessions[0], "a")
	if _, err := sessions[0].OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	write(sessions[1], "b")
	has := func(want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(dir, "a")); (err == nil) != want {
			t.Errorf("stat a: %v, want it there: %v", err, want)
		}
	}
	const about = `("make b") has not ended: it is of session two`
	const question = "Go on beside it? [y/N]"
	for _, test := range []struct {
		command, answers, said string
		code                   int
		has                    bool // afterwards
	}{
		{"restore @~1", "n\n", "snapctl: nothing was changed", exitRefused, true},
		{"restore @~1", "y\ny\n", "go on and delete 1 file? [y/N]", exitDone, false},
		{"undo", "y\n", "takes it back", exitDone, true},
		{"revert turn:0", "y\ny\n", "take back turn 0 and delete 1 file? [y/N]", exitDone, false},
	} {
		args := append(strings.Fields(test.command), "--root", dir, "--session", "one")
		code, out, said := on(test.answers, args...)
		_, behind, asked := strings.Cut(said, question)
		if code != test.code || !asked || !strings.Contains(said, about) || !strings.Contains(behind, test.said) {
			t.Errorf("%s: exit code %d, output %q, says %q, want %d and %q", test.command, code, out, said, test.code,
				test.said)
		}
		has(test.has)
	}
}

// Where a turn is open of which no tool runs, a restore offers to end it first.
func TestAskedToEndTurn(t *testing.T) {
	dir, stores := t.TempDir(), t.TempDir()
	on := onTerminal(t, stores)
	m, err := manager.Open(t.Context(), dir, &manager.Options{StoreRoot: stores, Session: "s",
		ToolWindows: true, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	must := func(_ *manager.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := func(title string, tools ...string) {
		t.Helper()
		must(m.OnTurnStart(t.Context(), &manager.Turn{Title: title}))
		must(m.OnToolStart(t.Context(), "Write"))
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(title), 0o644); err != nil {
			t.Fatal(err)
		}
		must(m.OnToolEnd(t.Context(), "Write"))
		for _, tool := range tools {
			must(m.OnToolStart(t.Context(), tool))
		}
	}
	holds := func(want string) {
		t.Helper()
		if b, _ := os.ReadFile(filepath.Join(dir, "a")); string(b) != want {
			t.Errorf("a holds %q, want %q", b, want)
		}
	}
	restore := func(answer, wantSaid string, wantCode int) {
		t.Helper()
		code, out, said := on(answer, "--root", dir, "restore", "@~1")
		if code != wantCode || !strings.Contains(said, wantSaid) {
			t.Errorf("exit code %d, output %q, says %q, want %d and %q", code, out, said, wantCode, wantSaid)
		}
	}
	must(m.Initialize(t.Context()))
	turn("one")
	must(m.OnTurnEnd(t.Context(), nil))
	turn("two\x1b[2J")
	const question = ` ("two\033[2J") has not ended: end it and take it back as a whole? [Y/n]`
	restore("n\n", question, exitRefused)
	holds("two\x1b[2J")
	restore("\n", question, exitDone)
	holds("one")
	turn("three", "Bash")
	restore("\n", `("three") has not ended: it seems that its tool "Bash" has been running for 0 s. End the turn all the same? [y/N]`, exitRefused)
	holds("three")
	restore("y\n", "[y/N]", exitDone)
	holds("one")
}
