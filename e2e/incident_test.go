package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPiCollision: two contents that have one key in a store of weak hashes.
func TestPiCollision(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt token=00721f84 ;; fin")
		a.prompt("write a.txt token=8564b520 ;; fin")
		a.prompt("write a.txt other ;; fin")
		a.goTo(a.user(3), both)
		w.has("a.txt", "token=8564b520\n")
		a.goTo(a.user(2), both)
		w.has("a.txt", "token=00721f84\n")
	})
}

// TestPiDamage: content that the store has lost is no reason to delete a file.
func TestPiDamage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.start()
		a.prompt("write a.txt 3kq9zv7xw1mf8 ;; fin")
		a.prompt("write a.txt second ;; write b.txt b ;; fin")
		a.stop()
		packs, err := filepath.Glob(filepath.Join(w.home, ".boo/file-store/*/packs/*.pack"))
		if err != nil || len(packs) == 0 {
			t.Fatal("no packs", err)
		}
		hurt := false
		for _, name := range packs {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if i := bytes.Index(b, []byte("3kq9zv7xw1mf8")); i > 0 {
				b[i]++
				w.put(name, string(b))
				hurt = true
			}
		}
		if !hurt {
			t.Fatal("no pack holds the content")
		}
		a = w.start("--continue")
		a.answers(both)
		a.slash("/goto " + a.user(2))
		a.hears("Left 1 path as it is: blob ")
		w.has("a.txt", "second\n", "b.txt", "-")
	})
}

// TestPiSymlink: a directory that became a symlink leads no restore out of the
// project.
func TestPiSymlink(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		outside := t.TempDir()
		w.put(filepath.Join(outside, "f"), "outside\n")
		a := w.start()
		a.prompt("bash mkdir d; echo one > d/f ;; fin")
		a.prompt("write d/f two ;; fin")
		if err := os.RemoveAll(w.path("d")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, w.path("d")); err != nil {
			t.Fatal(err)
		}
		a.slash("/rewind " + a.user(2) + " both overwrite")
		a.slash("/rewind " + a.user(1) + " both overwrite")
		a.hears("Deleted 1 file and 1 directory: d/f, d/")
		if b, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(b) != "outside\n" {
			t.Errorf("outside there is %q (%v)", b, err)
		}
	})
}

// TestPiWithout: pi goes on without snapctl, and says so.
func TestPiWithout(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		was := snapctl
		snapctl = "/nowhere/snapctl"
		defer func() { snapctl = was }()
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		if said := a.said(); !strings.Contains(said, "No file snapshots: /nowhere/snapctl: not found") {
			t.Errorf("shown: %s", said)
		}
		w.has("a.txt", "a\n")
		a.answers(talk)
		a.slash("/goto " + a.user(1))
		a.hears("goto done")
		w.has("a.txt", "a\n")
	})
}

// TestPiBroad: a home directory is not captured unasked.
func TestPiBroad(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.dir = w.home
		a := w.start()
		a.prompt("write a.txt a ;; fin")
		if said := a.said(); !strings.HasPrefix(said, "No file snapshots") || strings.Contains(said, "\nNo file") {
			t.Errorf("shown: %s", said)
		}
	})
}

// TestPiInstall: pi install takes the package, and print mode loses no step.
func TestPiInstall(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		extension, err := filepath.Abs("../integrations/pi")
		if err != nil {
			t.Fatal(err)
		}
		pi := func(args ...string) string {
			cmd := exec.Command(w.command[0], append(w.command[1:2:2], args...)...)
			cmd.Dir, cmd.Env = w.dir, w.env()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("pi %q: %v\n%s", args, err, out)
			}
			return string(out)
		}
		pi("install", extension)
		if list := pi("list"); !strings.Contains(list, "integrations/pi") {
			t.Errorf("pi list: %s", list)
		}
		out := pi("-p", "--provider", "stub", "--model", "stub-1", "--offline", "--no-context-files", "--session-dir",
			w.logs, "write a.txt a ;; bash echo b > b.txt ;; fin")
		if strings.Contains(out, "stale") || strings.Contains(out, "rror") {
			t.Errorf("pi -p: %s", out)
		}
		log := w.snapctl("log")
		if !strings.Contains(log, "turn") {
			t.Errorf("log:\n%s", log)
		}
		w.snapctl("restore", "start")
		w.has("a.txt", "-", "b.txt", "-")
		pi("remove", extension)
		if list := pi("list"); strings.Contains(list, "integrations/pi") {
			t.Errorf("pi list: %s", list)
		}
	})
}

// TestPiLook: what the commands show.
func TestPiLook(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("a.txt", "one\n")
		a := w.start()
		a.slash("/changes")
		a.hears("No file was changed")
		a.slash("/rewind")
		a.hears("Nothing to go back to")
		a.slash("/undo")
		a.hears("/undo: ")
		a.prompt("write a.txt two ;; write d/b.txt b ;; bash mkdir empty; rm d/b.txt; echo b > d/b.txt ;; fin")
		a.said()
		a.slash("/changes")
		a.hears("modified a.txt\nadded    d/b.txt\nadded    empty")
		a.slash("/diff a.txt")
		if said := a.hears("-one\n+two"); strings.Contains(said, "---") || strings.Contains(said, "+++") {
			t.Errorf("/diff shows what names the file: %s", said)
		}
		a.slash("/diff nothing.txt")
		a.hears("no such file")
		a.answers("d/b.txt")
		a.slash("/diff")
		a.hears("+b")
		a.prompt("write a.txt three ;; fin")
		a.answers(`1. before "write a.txt three`, "Files only")
		a.slash("/rewind")
		a.hears("Restored 1 file: a.txt")
		w.has("a.txt", "two\n", "d/b.txt", "b\n")
		a.slash("/undo")
		a.hears("Restored 1 file: a.txt")
		w.has("a.txt", "three\n")
		a.slash("/redo")
		a.hears("Restored 1 file: a.txt")
		w.has("a.txt", "two\n")
		w.write("a.txt", "mine\n")
		a.slash("/rewind " + a.user(1) + " files")
		a.hears("Deleted 1 file and 2 directories: d/b.txt, d/, empty/\n" +
			"Left 1 path as it is: conflict: you and turn 0 changed the same lines\n    a.txt")
		w.has("a.txt", "mine\n", "d/b.txt", "-")
		a.slash("/rewind " + a.user(1) + " files overwrite")
		a.hears("Restored 1 file: a.txt")
		w.has("a.txt", "one\n")
		a.slash("/undo")
		a.hears("Restored 1 file: a.txt")
		w.has("a.txt", "mine\n")
		a.slash("/rewind " + a.user(2) + " files") // the first turn is in again, and so is its directory
		a.hears("Restored 1 file and 1 directory: d/b.txt, empty/\nMade 1 directory: d\n" +
			"Turn 0, which was taken back before, was put back.")
		w.has("d/b.txt", "b\n")
	})
}

// TestPiNoSession: without a session file there is still a record.
func TestPiNoSession(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write("a.txt", "one\n")
		a := w.start("--no-session")
		a.prompt("write a.txt two ;; fin")
		if said := a.hears("modified a.txt"); strings.Contains(said, "No ") {
			t.Errorf("shown: %s", said)
		}
		titles := make(chan string, 10)
		a.asked(func(title string, options []any) string {
			titles <- title
			for _, o := range options {
				if s := fmt.Sprint(o); s == talk || strings.HasPrefix(s, "1. ") {
					return s
				}
			}
			return ""
		})
		a.slash("/rewind")
		a.slash("/changes") // the move is over
		if <-titles; !strings.Contains(<-titles, "--no-session") {
			t.Error("/rewind does not say that files stay")
		}
		w.has("a.txt", "two\n")
		a.stop()
		w.snapctl("restore", "start")
		w.has("a.txt", "one\n")
	})
}

// TestPiHanging: an engine that never answers keeps a tool waiting until the
// user stops the agent, and pi from ending for some seconds.
func TestPiHanging(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		was := snapctl
		snapctl = filepath.Join(t.TempDir(), "hanging")
		defer func() { snapctl = was }()
		if err := os.WriteFile(snapctl, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		a := w.start()
		a.begin("write a.txt a ;; fin")
		time.Sleep(time.Second)
		w.has("a.txt", "-")
		a.do("abort", nil) // which is answered when pi is idle
		a.stop()
	})
}

// TestPiTypes: the extension fits pi's types.
func TestPiTypes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if w.release.name != "0.73.1" {
			t.Skip("the other release comes without the types that its own refer to")
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		tsc := filepath.Join(cache, "filestore-e2e", "typescript")
		if _, err := os.Stat(filepath.Join(tsc, "node_modules/typescript")); err != nil {
			if err := os.MkdirAll(tsc, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := run(tsc, "npm", "install", "typescript@5.9.3", "@types/node@22", "--no-audit",
				"--no-fund", "--prefix", tsc); err != nil {
				t.Fatal(err)
			}
		}
		repository, err := filepath.Abs("..")
		if err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(w.dir, "tsconfig.json")
		w.put(config, fmt.Sprintf(`{"compilerOptions": {"strict": true, "noEmit": true, "module": "nodenext", "target": "es2023", "allowImportingTsExtensions": true,
			"skipLibCheck": true, "noUnusedLocals": true, "noUnusedParameters": true, "types": ["node"], "typeRoots": [%q], "paths": {"@earendil-works/pi-coding-agent": [%q]}},
			"files": [%q, %q]}`, filepath.Join(tsc, "node_modules/@types"), filepath.Join(cache, "filestore-e2e/pi-0.73.1/node_modules/@mariozechner/pi-coding-agent/dist/index.d.ts"),
			filepath.Join(repository, "integrations/pi/index.ts"), filepath.Join(repository, "e2e/testdata/goto.ts")))
		if err := run(w.dir, "node", filepath.Join(tsc, "node_modules/typescript/bin/tsc"), "-p", config); err != nil {
			t.Error(err)
		}
	})
}

// TestPiNotCovered: what snapshots leave out unasked is shown, once.
func TestPiNotCovered(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write(".gitignore", "ignored\n")
		w.write("ignored", "")
		a := w.start()
		a.prompt("bash truncate -s 2G large ;; fin")
		a.prompt("write a.txt a ;; fin")
		said := a.hears("Not in snapshots, and so not restored: large (too-large)")
		if strings.Count(said, "Not in snapshots") != 1 || strings.Contains(said, "ignored") {
			t.Errorf("shown: %s", said)
		}
	})
}
