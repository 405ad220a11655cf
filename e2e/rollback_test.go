package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// goTo moves the conversation as /tree does.
func (a *agent) goTo(entry string, answers ...string) {
	a.w.t.Helper()
	a.answers(answers...)
	a.slash("/goto " + entry)
	a.hears("goto ")
}

// hears waits until the extension has shown something, and returns all that it
// has shown.
func (a *agent) hears(text string) string {
	a.w.t.Helper()
	var all string
	for range 600 {
		all += a.said()
		if strings.Contains(all, text) {
			return all
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.w.t.Fatalf("%q was not shown, but %q", text, all)
	return ""
}

const (
	both = "Files and conversation"
	talk = "Conversation only"
)

// TestPiBasic: each turn leaves a step-snapshot behind its tool results, and the
// conversation takes the files along.
func TestPiBasic(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("own.txt", "mine\n")
		a := w.start()
		a.prompt("write a.txt one ;; write b.txt two ;; fin")
		a.prompt("write a.txt ONE ;; bash rm b.txt; echo three > c.txt ;; fin")
		if steps := a.custom("step-snapshot"); len(steps) != 4 {
			t.Fatalf("%d steps, want 4: %+v", len(steps), steps)
		}
		log := a.log()
		for i, e := range log {
			if e.CustomType == "step-snapshot" && log[i-1].Message.Role != "toolResult" {
				t.Errorf("a step stands behind %+v", log[i-1])
			}
		}
		for turn, want := range []string{`"title":"write a.txt one ;; write b.txt two ;; fin","agent":"pi","model":"`, `"title":"write a.txt ONE`} {
			if shown := w.snapctl("show", "--json", fmt.Sprint("turn:", turn)); !strings.Contains(shown, want) {
				t.Errorf("turn %d is %s, want %s", turn, shown, want)
			}
		}
		a.goTo(a.user(2), both)
		w.has("a.txt", "one\n", "b.txt", "two\n", "c.txt", "-", "own.txt", "mine\n")
		points := a.custom("unrevert-point")
		if len(points) != 1 || !slices.Equal(points[0].Data.RestoredFiles, []string{"a.txt", "b.txt"}) ||
			!slices.Equal(points[0].Data.DeletedFiles, []string{"c.txt"}) {
			t.Errorf("unrevert-points: %+v", points)
		}
		a.goTo(a.user(1), both)
		w.has("a.txt", "-", "b.txt", "-", "c.txt", "-", "own.txt", "mine\n")
		// And forward again, to the end of the other branch.
		a.goTo(log[len(log)-1].ID, both)
		w.has("a.txt", "ONE\n", "b.txt", "-", "c.txt", "three\n", "own.txt", "mine\n")
	})
}

// TestPiConversationOnly: the user may leave the files alone, and go on from there.
func TestPiConversationOnly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt v1 ;; fin")
		a.prompt("write b.txt v1 ;; fin")
		a.prompt("write a.txt v2 ;; fin")
		a.goTo(a.user(3), talk)
		w.has("a.txt", "v2\n", "b.txt", "v1\n")
		if len(a.custom("unrevert-point")) != 0 {
			t.Error("there is an unrevert-point, and nothing was restored")
		}
		// What goes on there is a branch of its own: the files are what they are.
		a.prompt("write a.txt v3 ;; fin")
		a.goTo(a.user(4), both)
		w.has("a.txt", "v2\n", "b.txt", "v1\n")
		// What was kept of the branch that was left is the agent's still: it goes
		// with the files, which have it since.
		a.goTo(a.user(2), both)
		w.has("a.txt", "v1\n", "b.txt", "-")
		// To before the first message, where there is no entry to stand at.
		a.goTo(a.user(1), talk)
		w.has("a.txt", "v1\n", "b.txt", "-")
		a.prompt("write a.txt v4 ;; fin")
		a.goTo(a.user(5), both)
		w.has("a.txt", "v1\n", "b.txt", "-")
	})
}

// TestPiNo: no stops the move.
func TestPiNo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt v1 ;; fin")
		w.write("a.txt", "the user's\n")
		a.answers("Cancel")
		a.slash("/goto " + a.user(1))
		if said := a.hears("goto "); !strings.Contains(said, "goto cancelled") {
			t.Errorf("shown: %s", said)
		}
		w.has("a.txt", "the user's\n")
		// Nothing but what the user has changed is left to do: files are not offered.
		a.goTo(a.user(1), talk)
		w.has("a.txt", "the user's\n")
		a.goTo(a.log()[len(a.log())-1].ParentID, talk)
	})
}

// TestPiCompaction: a compaction off the path takes no file along.
func TestPiCompaction(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.prompt("write b.txt b ;; fin")
		a.do("compact", nil)
		a.prompt("write c.txt c ;; fin")
		a.do("compact", nil)
		a.prompt("write d.txt d ;; fin")
		a.goTo(a.user(3), talk)
		w.has("a.txt", "a\n", "b.txt", "b\n", "c.txt", "c\n", "d.txt", "d\n")
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\n", "b.txt", "-", "c.txt", "-", "d.txt", "-")
	})
}

// TestPiOnly: what a prompt in the middle did is taken back, and what came after it stays,
// in the same file, too.
func TestPiOnly(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("a.txt", "1\n2\n3\n4\n5\n")
		a := w.start()
		a.prompt("bash sed -i s/1/one/ a.txt ;; write b.txt b ;; fin")
		a.prompt("bash sed -i s/5/five/ a.txt ;; write c.txt c ;; fin")
		a.asked(func(title string, options []any) string {
			for _, o := range options {
				if s := fmt.Sprint(o); strings.HasPrefix(s, "2. ") ||
					strings.HasPrefix(s, "Only the file changes of this prompt") {
					return s
				}
			}
			return "yes"
		})
		a.slash("/rewind")
		a.hears("Merged 1 file (later edits in it stay): a.txt\nDeleted 1 file: b.txt")
		w.has("a.txt", "1\n2\n3\n4\nfive\n", "b.txt", "-", "c.txt", "c\n")
		a.slash("/undo")
		a.hears("Restored 2 files: a.txt, b.txt")
		w.has("a.txt", "one\n2\n3\n4\nfive\n", "b.txt", "b\n", "c.txt", "c\n")
		w.write("a.txt", "mine\n2\n3\n4\nfive\n")
		a.slash("/rewind " + a.user(1) + " only")
		a.hears("Deleted 1 file: b.txt\nLeft 1 path as it is: conflict: ")
		w.has("a.txt", "mine\n2\n3\n4\nfive\n", "b.txt", "-", "c.txt", "c\n")
	})
}

// TestPiAgain: back, on, and back again; the branch that was left stays.
func TestPiAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.prompt("write b.txt b ;; fin")
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\n", "b.txt", "-")
		a.prompt("write c.txt c ;; fin")
		w.has("a.txt", "a\n", "b.txt", "-", "c.txt", "c\n")
		a.goTo(a.user(3), both)
		w.has("a.txt", "a\n", "b.txt", "-", "c.txt", "-")
		// Into the branch that was left.
		for _, e := range a.log() {
			if e.CustomType == "step-snapshot" && e.Data.Diff != nil && slices.Contains(e.Data.Diff.Added, "b.txt") {
				a.goTo(e.ID, both)
			}
		}
		w.has("a.txt", "a\n", "b.txt", "b\n", "c.txt", "-")
	})
}

// TestPiRedo: what was taken back with the conversation comes again with it.
func TestPiRedo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.prompt("write b.txt b ;; fin")
		first := a.user(2)
		at := func() (leaf string) {
			a.asked(func(_ string, options []any) string { leaf = fmt.Sprint(options...); return "" })
			a.slash("/rewind")
			return leaf
		}
		if s := at(); !strings.Contains(s, "write b.txt") {
			t.Errorf("before: %s", s)
		}
		a.goTo(first, both)
		w.has("b.txt", "-")
		asked := make(chan string, 1)
		yes := func(title string, _ []any) string { asked <- title; return "yes" }
		for _, c := range []struct{ command, b string }{{"/undo", "b\n"}, {"/redo", "-"}, {"/undo", "b\n"}} {
			a.asked(yes)
			a.slash(c.command)
			<-asked
			a.slash("/changes")
			time.Sleep(300 * time.Millisecond) // what was done is said when the conversation was drawn
			w.has("a.txt", "a\n", "b.txt", c.b)
			if said := a.said(); !strings.Contains(said, "1 file: b.txt") {
				t.Errorf("%s shows %q", c.command, said)
			}
			if s := at(); strings.Contains(s, "write b.txt") != (c.b != "-") {
				t.Errorf("after %s the conversation has %s", c.command, s)
			}
		}
	})
}

// TestPiFork: a fork has its own line, and the original is as it was.
func TestPiFork(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.prompt("write b.txt b ;; fin")
		original := a.file()
		before, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		a.do("fork", map[string]any{"entryId": a.user(2)})
		w.has("a.txt", "a\n", "b.txt", "b\n")
		a.prompt("write a.txt A ;; write c.txt c ;; fin")
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\n", "b.txt", "b\n", "c.txt", "-")
		// Of what it has inherited it can go back, too.
		a.goTo(a.user(1), both)
		w.has("a.txt", "-", "b.txt", "b\n")
		a.slash("/undo")
		a.hears("Restored")
		w.has("a.txt", "a\n", "b.txt", "b\n")
		a.do("clone", nil)
		a.prompt("write d.txt d ;; fin")
		a.do("clone", nil)
		a.prompt("write e.txt e ;; fin")
		a.slash("/rewind " + lastUser(a) + " files")
		a.hears("Deleted")
		w.has("a.txt", "a\n", "d.txt", "d\n", "e.txt", "-")
		if after, err := os.ReadFile(original); err != nil || string(after) != string(before) {
			t.Errorf("the original's log was changed (%v)", err)
		}
		a.stop()
		a = w.start("--session", original)
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\n", "b.txt", "-", "d.txt", "d\n")
	})
}

func lastUser(a *agent) string {
	log := a.log()
	for i := len(log) - 1; ; i-- {
		if log[i].Message.Role == "user" {
			return log[i].ID
		}
	}
}

// TestPiResume: the next process goes on where the last one left off, and what
// was changed in between is the user's.
func TestPiResume(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.stop()
		w.write("a.txt", "a\nand the user's\n")
		w.write("own.txt", "mine\n")
		a = w.start("--continue")
		a.prompt("write b.txt b ;; bash echo more >> a.txt ;; fin")
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\nand the user's\n", "b.txt", "-", "own.txt", "mine\n")
		a.stop()
		a = w.start("--continue")
		a.slash("/undo")
		a.hears("Restored")
		w.has("a.txt", "a\nand the user's\nmore\n", "b.txt", "b\n")
		a.slash("/redo")
		a.hears("Deleted")
		w.has("a.txt", "a\nand the user's\n", "b.txt", "-")
	})
}

// TestPiEditor: what an editor saves while the model is thinking is the user's.
func TestPiEditor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("own.txt", "mine\n")
		w.write("shared.txt", "0\n")
		a := w.start()
		a.prompt("hello")
		w.model.onPause(func() {
			w.write("own.txt", "mine, changed\n")
			w.write("new.txt", "new\n")
		})
		a.prompt("write a.txt a ;; bash echo agent >> shared.txt ;; pause ;; write b.txt b ;; fin")
		for _, e := range a.custom("step-snapshot") {
			if d := e.Data.Diff; d != nil && (slices.Contains(d.Modified, "own.txt") ||
				slices.Contains(d.Added, "new.txt")) {
				t.Errorf("a turn has what the user did: %+v", d)
			}
		}
		a.goTo(a.user(2), both)
		w.has("a.txt", "-", "b.txt", "-", "shared.txt", "0\n", "own.txt", "mine, changed\n", "new.txt", "new\n")
	})
}

// TestPiKilled: pi is killed in the middle of a tool call, whose command goes on.
func TestPiKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		a.begin("bash echo cut > b.txt; sleep 1; echo off >> b.txt; touch done.txt ;; fin")
		for range 200 {
			if _, err := os.Stat(w.path("b.txt")); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		a.cmd.Process.Kill()
		a.stop()
		for range 200 {
			if _, err := os.Stat(w.path("done.txt")); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		w.has("a.txt", "a\n", "b.txt", "cut\noff\n")
		w.snapctl("check", "--read-data")
		a = w.start("--continue")
		a.hears("The last turn was cut off. It is not known whether you " +
			"or the agent changed 2 files since it began, so a rewind leaves them as they are: b.txt, done.txt")
		list := make(chan string, 1)
		a.asked(func(_ string, options []any) string { list <- fmt.Sprint(options...); return "" })
		a.slash("/rewind")
		if s := <-list; !strings.Contains(s, "(turn 1, at least 0 files since, 2 of unknown origin)") ||
			!strings.Contains(s, "(turn 0, at least 1 file since, 2 of unknown origin)") {
			t.Errorf("/rewind lists %s", s)
		}
		a.prompt("write c.txt c ;; fin")
		a.goTo(lastUser(a), both)
		w.has("a.txt", "a\n", "b.txt", "cut\noff\n", "c.txt", "-")
		a.goTo(a.user(1), both)
		w.has("a.txt", "-", "b.txt", "cut\noff\n") // it is not known whose it is
	})
}

// TestPiTwo: two processes at work on one project.
func TestPiTwo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, b := w.start(), w.start()
		a.prompt("write a.txt a ;; fin")
		b.prompt("write b.txt b ;; fin")
		a.begin("write a2.txt a ;; bash sleep 0.3 ;; write a3.txt a ;; fin")
		b.begin("write b2.txt b ;; bash sleep 0.3 ;; write b3.txt b ;; fin")
		a.settle()
		b.settle()
		a.goTo(a.user(2), both)
		w.has("a.txt", "a\n", "a2.txt", "-", "a3.txt", "-", "b.txt", "b\n", "b2.txt", "b\n", "b3.txt", "b\n")
		b.goTo(b.user(1), both)
		w.has("a.txt", "a\n", "b.txt", "-", "b2.txt", "-", "b3.txt", "-")
		w.snapctl("check", "--read-data")
	})
}

// TestPiLong is a session of 20 prompts with all that shells do: each of its
// states comes back to the byte.
func TestPiLong(t *testing.T) {
	steps := []string{
		"write a.txt one", "bash mkdir -p d/e && head -c 100000 /dev/urandom > d/e/bin", "bash chmod 755 a.txt",
		"bash ln -s d/e/bin link",
		"bash printf '\\377\\376\\000\\001' > utf16", "bash mv d x", "bash rm link; ln -s x link",
		"bash sed -i s/one/two/ a.txt",
		"bash mkdir empty", "bash printf no-newline > n; printf 'crlf\\r\\n' > c", "bash rm -r x",
		"bash rm a.txt; mkdir a.txt; echo in > a.txt/in",
		"bash head -c 3000000 /dev/urandom > large", "bash rmdir empty", "bash chmod 600 utf16; chmod +x n",
		"bash mv large 'with blank'",
		"bash printf odd > \"$(printf 'new\\nline')\"", "bash rm -r a.txt; echo file > a.txt",
		"bash git init -q . && echo x > tracked && git add -A >/dev/null", "bash rm -f n c utf16",
	}
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		copies := t.TempDir()
		keep := func(i int) string {
			to := filepath.Join(copies, string(rune('a'+i)))
			if out, err := exec.Command("cp", "-a", w.dir, to).CombinedOutput(); err != nil {
				t.Fatalf("%s", out)
			}
			return to
		}
		var states, users []string
		for i, s := range steps {
			states = append(states, keep(i))
			a.prompt(s + " ;; fin")
			users = append(users, lastUser(a))
		}
		last := keep(len(steps))
		for _, i := range []int{len(steps) - 1, 17, 12, 5, 11, 16, 3, 0, 8, 19, 1} {
			a.said()
			a.slash("/rewind " + users[i] + " files")
			a.hears("")
			same(t, states[i], w.dir)
		}
		end := a.log()
		var newest string
		for _, e := range end {
			if e.CustomType == "step-snapshot" {
				newest = e.ID
			}
		}
		a.slash("/rewind " + newest + " files")
		same(t, last, w.dir)
		a.stop()
		w.snapctl("check", "--read-data")
	})
}

// same fails the test unless two trees are the same, but for git's own.
func same(t *testing.T, want, got string) {
	t.Helper()
	list := func(dir string) string {
		cmd := exec.Command("sh", "-c", `find . -path ./.git -prune -o \( -type f -printf '%P %m ' -exec sha256sum {} \; \) -o \( -not -name . -printf '%P %y %m %l\n' \) | sort`)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, out)
		}
		return string(out)
	}
	if w, g := list(want), list(got); w != g {
		t.Errorf("the tree is\n%s\nwant\n%s", g, w)
	}
}
