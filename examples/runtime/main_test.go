package main

import (
	"bytes"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// needShell skips a test where the agent's tools do not run.
func needShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("SKIPPED: there is no sh")
	}
}

// A terminal gives a line at a time and shows it, as one where a user types.
type terminal struct {
	lines []string
	out   bytes.Buffer
}

func (tt *terminal) Read(p []byte) (int, error) {
	if len(tt.lines) == 0 {
		return 0, io.EOF
	}
	line := tt.lines[0] + "\n"
	tt.lines = tt.lines[1:]
	tt.out.WriteString(line)
	return copy(p, line), nil
}

// A user starts the program as often as they like, with one state.
type user struct {
	*testing.T
	state string
	logs  bytes.Buffer
}

func newUser(t *testing.T) *user {
	t.Helper()
	needShell(t)
	return &user{T: t, state: t.TempDir()}
}

// types runs the program and returns what the terminal shows.
func (u *user) types(lines ...string) string {
	u.Helper()
	tt := &terminal{lines: lines}
	if code := run(u.Context(), []string{"-state", u.state}, tt, &tt.out, &u.logs); code != 0 {
		u.Fatalf("it exits with %d:\n%s%s", code, &tt.out, &u.logs)
	}
	return tt.out.String()
}

// shown runs the program and returns what it shows of one command.
func (u *user) shown(line string) string {
	u.Helper()
	_, after, ok := strings.Cut(u.types(line), "> "+line+"\n")
	if !ok {
		u.Fatalf("%q is not shown", line)
	}
	return strings.TrimSuffix(after, "> ")
}

func (u *user) expect(what, want, got string) {
	u.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		u.Errorf("%s: (-want +got)\n%s", what, diff)
	}
}

func (u *user) has(text string, want ...string) {
	u.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			u.Errorf("%q is not in\n%s", w, text)
		}
	}
}

// all is what is in the chat, what can be gone back to, and each file.
func (u *user) all() string {
	u.Helper()
	return u.shown("messages") + u.shown("checkpoints") + u.shown("diff") + u.files()
}

func (u *user) files() string {
	u.Helper()
	return u.shown(`!for f in $(find . -type f | sort); do echo "$f: $(cat $f)"; done`)
}

func (u *user) exec(query string, args ...any) {
	u.Helper()
	db, err := sql.Open("sqlite", filepath.Join(u.state, "chats.db"))
	if err != nil {
		u.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query, args...); err != nil {
		u.Fatal(err)
	}
}

// threeTurns uses all tools, each turn in a process of its own.
func (u *user) threeTurns() {
	u.Helper()
	u.types("!echo yours > kept.txt", "say create a.txt one then create sub/b.txt two")
	u.types("say edit a.txt one -> three then ask So? then run cat a.txt > c.txt", "!echo yours > meanwhile.txt", "so")
	u.types("say run rm sub/b.txt; echo four > d.txt")
}

func TestRestoreAndUndo(t *testing.T) {
	u := newUser(t)
	u.threeTurns()
	before := u.all()
	u.expect("files", `./a.txt: three
./c.txt: three
./d.txt: four
./kept.txt: yours
./meanwhile.txt: yours
`, u.files())

	u.expect("preview", `3 messages would be deleted
a.txt: would be restored
sub/b.txt: would be restored
c.txt: would be deleted
d.txt: would be deleted
`, u.shown("preview 2"))
	u.expect("after the preview", before, u.all())

	u.has(u.shown("restore 2"), "* chat-main: 3 messages deleted", "files changed: true")
	u.expect("files, restored", `./a.txt: one
./kept.txt: yours
./meanwhile.txt: yours
./sub/b.txt: two
`, u.files())
	u.expect("messages, restored", `1 user: create a.txt one then create sub/b.txt two
2 assistant: [write a.txt] written [write sub/b.txt] written
3 user: edit a.txt one -> three then ask So? then run cat a.txt > c.txt
`, u.shown("messages"))
	u.has(u.shown("diff"), "added a.txt, by the agent (claimed)", "added sub/b.txt")

	u.has(u.shown("undo"), "3 brought back")
	u.expect("after the undo", before, u.all())
	u.has(u.shown("undo"), "error: nothing was restored")
}

func TestDiffTellsWhose(t *testing.T) {
	u := newUser(t)
	u.types("say create a.txt one then ask So?", "!echo yours > meanwhile.txt", "so")
	u.has(u.shown("diff"), "added a.txt, by the agent (claimed)\n", "+one\n", "added meanwhile.txt, by you\n")
}

func TestDirty(t *testing.T) {
	u := newUser(t)
	u.threeTurns()
	u.types("!echo mine > a.txt")
	before := u.all()
	u.has(u.shown("restore 1"), "a.txt: is not as the agent left it", "error: restore: files were changed by others")
	u.expect("after it was refused", before, u.all())

	u.has(u.shown("restore 1 skip"), "a.txt: left as it is", "d.txt: deleted")
	u.expect("files", "./a.txt: mine\n./kept.txt: yours\n./meanwhile.txt: yours\n", u.files())
	u.has(u.shown("undo"), "brought back")
	u.expect("after the undo", before, u.all())
}

// The agent forgets what is gone, and knows the rest.
func TestAgentForgets(t *testing.T) {
	u := newUser(t)
	got := u.types("say create a.txt one", "say create b.txt two", "restore 2", "say", "say recall")
	u.has(got, "(the agent knew 0 messages and has read 1)", "(the agent knew 1 messages and has read 2)",
		"agent reset: true",
		"(the agent knew 0 messages and has read 3)",
		"You have asked 3 times, and I have written 2 files: a.txt, b.txt.")
	got = u.types("restore 2", "say recall")
	u.has(got, "(the agent knew 0 messages and has read 4)",
		"You have asked 3 times, and I have written 1 files: a.txt.")
}

func TestToolFails(t *testing.T) {
	u := newUser(t)
	got := u.types("say create ../a.txt out then edit no.txt a -> b then run exit 3 then create a.txt in",
		"messages", "files")
	u.has(got, "outside", "(edit: ", "(exit status 3)", "[write a.txt] written\n", "a.txt, 3 bytes")
}

// A turn goes on without its checkpoint.
func TestNoCheckpoint(t *testing.T) {
	u := newUser(t)
	u.types("say create a.txt one")
	u.exec(`CREATE UNIQUE INDEX one ON checkpoints(chat_id)`) // so that a second cannot be made
	u.has(u.types("say create b.txt two", "files"), "written", "b.txt, 4 bytes")
	u.has(u.logs.String(), "no checkpoint for this turn", "UNIQUE constraint failed")
	u.expect("checkpoints", "1 before message 2: create a.txt one\n", u.shown("checkpoints"))
}

// What a process has left that died is put right by the next.
func TestCrash(t *testing.T) {
	u := newUser(t)
	u.types("say create a.txt one")
	u.exec(`INSERT INTO messages (id, chat_id, role, status) VALUES ('m', 'chat-main', 'assistant', 'streaming')`)
	u.exec(`UPDATE agent_sessions SET status = 'running'`)
	u.exec(`INSERT INTO checkpoint_restores (id, checkpoint_id, chat_id, session_id, worktree_id, directory, state, anchor_order, newest_order)
		VALUES ('r', 'c', 'chat-main', 'main', 'main', '` + filepath.Join(u.state, "worktrees", "main") + `', 'begun', 1, 2)`)
	got := u.types("messages", "restore 1")
	u.has(got, "a restore of chat-main was cut off; done: false\n", "3 assistant (interrupted):", "a.txt: deleted")
}

// A restore that the database does not take down is not done: whoever starts
// next, be it another session, takes its files back.
func TestUndecided(t *testing.T) {
	u := newUser(t)
	u.threeTurns()
	before := u.all()
	u.exec(`CREATE TRIGGER mute BEFORE UPDATE ON checkpoint_restores BEGIN SELECT RAISE(ABORT, 'mute'); END`)
	u.has(u.types("restore 2", "!cat a.txt"), "not decided whether the restore was done", "> !cat a.txt\none\n")
	u.exec(`DROP TRIGGER mute`)
	var out bytes.Buffer
	if code := run(u.Context(), []string{"-state", u.state, "-session", "other"},
		strings.NewReader("files\n"), &out, &u.logs); code != 0 {
		u.Errorf("the other session exits with %d:\n%s", code, &u.logs)
	}
	u.expect("the other session", "state in "+u.state+
		"\na restore of chat-main was cut off; done: false\nsession other; restores that were cut off: 1\n> > ",
		out.String())
	u.expect("afterwards", before, u.all())
}

func TestOneProcess(t *testing.T) {
	u := newUser(t)
	in, typed := io.Pipe()
	started, show := io.Pipe()
	done := make(chan int)
	go func() { done <- run(t.Context(), []string{"-state", u.state}, in, show, &bytes.Buffer{}) }()
	waitFor(t, started, "> ")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-state", u.state}, strings.NewReader(""), &out, &errs); code != 1 {
		t.Errorf("a second process exits with %d", code)
	}
	u.has(errs.String(), "runs in another process")
	typed.Close()
	if code := <-done; code != 0 {
		t.Errorf("it exits with %d", code)
	}
}

// waitFor reads until a text comes.
func waitFor(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var got []byte
	b := make([]byte, 1)
	for !bytes.HasSuffix(got, []byte(text)) {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("%v, and no %q after\n%s", err, text, got)
		}
		got = append(got, b...)
	}
}

func TestInterrupt(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("SKIPPED: no process can interrupt itself")
	}
	u := newUser(t)
	in, typed := io.Pipe()
	shown, show := io.Pipe()
	done := make(chan int)
	go func() { done <- run(t.Context(), []string{"-state", u.state}, in, show, &bytes.Buffer{}) }()
	waitFor(t, shown, "> ")
	go io.WriteString(typed, "say run echo half > a.txt; exec sleep 60\n")
	waitFor(t, shown, "exec sleep 60]\n")
	for range 500 {
		if _, err := os.Stat(filepath.Join(u.state, "worktrees", "main", "a.txt")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, shown, "interrupted\n> ")
	if err := self.Signal(os.Interrupt); err != nil { // at the prompt it ends the program
		t.Fatal(err)
	}
	if code := <-done; code != 0 {
		t.Errorf("it exits with %d", code)
	}
	u.has(u.shown("messages"), "2 assistant (interrupted): [run echo half > a.txt; exec sleep 60]")
	u.has(u.shown("diff"), "added a.txt, by the agent")
	u.has(u.shown("restore 1"), "a.txt: deleted")
}

// TestReadme does what README.md shows, and finds that it is so.
func TestReadme(t *testing.T) {
	needShell(t)
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, part := range strings.Split(string(b), "```") {
		if code, ok := strings.CutPrefix(part, "console\n"); ok && i%2 == 1 {
			want.WriteString(code)
		}
	}
	t.Chdir(t.TempDir())
	var got strings.Builder
	for _, process := range strings.Split(want.String(), "$ ")[1:] {
		command, shown, _ := strings.Cut(process, "\n")
		got.WriteString("$ " + command + "\n")
		args, ok := strings.CutPrefix(command, "./runtime ")
		if !ok {
			out, err := exec.Command("sh", "-c", command).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			got.Write(out)
			continue
		}
		tt := new(terminal)
		for line := range strings.Lines(shown) {
			if typed, ok := strings.CutPrefix(line, "> "); ok {
				tt.lines = append(tt.lines, strings.TrimSuffix(typed, "\n"))
			} else if typed, ok := strings.CutPrefix(line, "? "); ok {
				tt.lines = append(tt.lines, strings.TrimSuffix(typed, "\n"))
			}
		}
		var logs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), tt, &tt.out, &logs); code != 0 || logs.Len() > 0 {
			t.Errorf("%s: exits with %d\n%s", command, code, &logs)
		}
		got.WriteString(tt.out.String())
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-README +got)\n%s\nAll of it:\n%s", diff, got.String())
	}
}
