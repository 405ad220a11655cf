package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/words"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // those that are parallel wait for what hangs
	programs := map[string]func(){"snapctl": mainOfScript}
	maps.Copy(programs, otherPrograms)
	testscript.Main(&withDrivers{M: m}, programs)
}

var update = flag.Bool("update", false, "rewrite what scripts compare output with")

// TestScript runs what users do, in a home of their own. Scripts start in the
// project p.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			project := filepath.Join(env.WorkDir, "p")
			for _, dir := range []string{home, project} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			env.Cd = project
			env.Setenv("HOME", home)
			env.Setenv("USERPROFILE", home) // which is HOME on Windows
			env.Setenv("TZ", "UTC")
			env.Setenv(scriptVariable, "1")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else 1 s for each command
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "A")
				env.Setenv("GIT_"+who+"_EMAIL", "a@example.com")
			}
			env.Defer(func() {
				if _, err := os.Stat(filepath.Join(env.WorkDir, damageMark)); err != nil {
					checkStores(t, filepath.Join(home, ".boo", "file-store"))
				}
			})
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   cmdExits,
			"write":   cmdWrite,
			"get":     cmdGet,
			"same":    cmdSame,
			"find":    cmdFind,
			"damage":  cmdDamage,
			"large":   cmdLarge,
			"fifo":    cmdFifo,
			"await":   cmdAwait,
			"sum":     cmdSum,
			"drivers": cmdDrivers,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// checkStores requires that no store below a directory has damage.
func checkStores(t *testing.T, base string) {
	names, _ := filepath.Glob(filepath.Join(base, "*", "FORMAT"))
	for _, name := range names {
		dir := filepath.Dir(name)
		s, err := cas.Open(context.Background(), dir, &cas.Options{ReadOnly: true})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Errorf("open store after the test: %v", err)
			continue
		}
		defer s.Close()
		r, err := s.Check(context.Background(), true)
		if err != nil {
			t.Errorf("check after the test: %v", err)
			continue
		}
		for _, d := range r.Damage {
			t.Errorf("check after the test: %v", d)
		}
		if lost, err := history.LostRecords(context.Background(), s); err != nil || len(lost) > 0 {
			t.Errorf("records lost after the test: %v, %v", lost, err)
		}
		c := audit.NewChecker(s)
		for snap, err := range s.Snapshots(context.Background()) {
			if err != nil {
				t.Errorf("check after the test: %v", err)
				break
			}
			problems, err := c.Snapshot(context.Background(), snap)
			if err != nil || len(problems) > 0 {
				t.Errorf("check of snapshot %d after the test: %v, %v", snap.Seq, problems, err)
			}
		}
	}
}

// cmdExits runs a program and requires its exit code: exits 2 snapctl foo.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("%q: exit code %d, want %s\nstdout:\n%sstderr:\n%s", args[1:], code, want,
			ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// unquote reads the escapes of a Go string: \n, \xff.
func unquote(ts *testscript.TestScript, s string) string {
	out, err := strconv.Unquote(`"` + s + `"`)
	ts.Check(err)
	return out
}

// cmdWrite writes a file, with escapes in its name and its text.
func cmdWrite(ts *testscript.TestScript, _ bool, args []string) {
	name, text := ts.MkAbs(unquote(ts, args[0])), unquote(ts, args[1])
	ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
	ts.Check(os.WriteFile(name, []byte(text), 0o644))
}

// cmdGet sets a variable to what a regular expression finds in the last
// output: get ENTRY '"entryId":"(\w+)"'.
func cmdGet(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match for %q in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

// cmdSame remembers all that is in a directory, or fails if anything there is
// not as it was remembered: same DIR begin, same DIR.
func cmdSame(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	var b bytes.Buffer
	ts.Check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%q %v %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if e.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %v", object.Hash(object.Blob, content))
		}
		b.WriteByte('\n')
		return nil
	}))
	name := "SAME_" + strings.Map(func(r rune) rune {
		if r == '/' || r == '.' {
			return '_'
		}
		return r
	}, dir)
	if len(args) > 1 {
		ts.Setenv(name, b.String())
	} else if was := ts.Getenv(name); was != b.String() {
		ts.Fatalf("%s has changed from\n%s\nto\n%s", dir, was, b.String())
	}
}

// cmdFind sets a variable to the only file that a pattern matches.
func cmdFind(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(names) != 1 {
		ts.Fatalf("%s matches %q", args[1], names)
	}
	ts.Setenv(args[0], names[0])
}

const damageMark = ".damaged"

// cmdDamage spoils a file of a store: damage FILE flip OFFSET, or damage FILE
// cut LENGTH; negative numbers count from the end.
func cmdDamage(ts *testscript.TestScript, _ bool, args []string) {
	b, err := os.ReadFile(args[0])
	ts.Check(err)
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n < 0 {
		n += len(b)
	}
	if args[1] == "cut" {
		b = b[:n]
	} else {
		b[n] ^= 0xff
	}
	ts.Check(os.WriteFile(args[0], b, 0o600))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), damageMark), nil, 0o600))
}

// cmdLarge makes a file of a size without writing it.
func cmdLarge(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(n), f.Close()))
}

// cmdDrivers puts snapctl-checkpoints into the path.
func cmdDrivers(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := buildDrivers()
	ts.Check(err)
	ts.Setenv("PATH", dir+string(filepath.ListSeparator)+ts.Getenv("PATH"))
}

// cmdSum requires that the last output, of du --json, adds up to what is in a
// directory: sum DIR.
func cmdSum(ts *testscript.TestScript, _ bool, args []string) {
	var u duAnswer
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &u))
	sum := u.Shared.Stored + u.Unnamed.Stored + u.Copies.Stored + u.PackBytes + u.IndexBytes +
		u.JournalBytes + u.WorktreeBytes + u.TrashBytes + u.QuarantineBytes + u.BallastBytes + u.OtherBytes
	for _, s := range u.Sessions {
		sum += s.Alone.Stored
	}
	dirs, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(dirs) != 1 {
		ts.Fatalf("%s matches %q", args[0], dirs)
	}
	disk, err := places.BytesBelow(dirs[0])
	ts.Check(err)
	if sum != disk || u.TotalBytes != disk {
		ts.Fatalf("the sum is %d, the total %d, the disk has %d", sum, u.TotalBytes, disk)
	}
}

// cmdAwait waits until a pattern matches a file.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	for range 1000 {
		if names, _ := filepath.Glob(ts.MkAbs(args[0])); len(names) > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not come", args[0])
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "2000000": 2000000, "300MB": 300e6, "2GiB": 2 << 30, "1.5k": 1536, "10 MB": 10e6, "1B": 1, "none": -1,
	} {
		if got, err := parseQuantity(text); err != nil || got != want {
			t.Errorf("parseQuantity(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "MB", "1XB", "1e30", "NaN", "Inf", "0.1"} {
		if got, err := parseQuantity(text); err == nil {
			t.Errorf("parseQuantity(%q) = %d, want an error", text, got)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 KB", 9949: "9.9 KB", 9950: "10 KB", 41_000: "41 KB", 999_499: "999 KB",
		999_500: "1.0 MB", 1_300_000_000: "1.3 GB", 1<<63 - 1: "9.2 EB",
	} {
		if got := words.Size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 files": words.Count(0, "file"), "1 file": words.Count(1, "file"),
		"1,234,567 files": words.Count(1234567, "file"),
		"2 directories":   words.Count(2, "directory"), "2 days": words.Count(2, "day"),
		"999 files": words.Count(999, "file"), "1,000 files": words.Count(1000, "file"),
	} {
		if got != want {
			t.Errorf("count = %q, want %q", got, want)
		}
	}
}

// TestCancelled: what is interrupted has an exit code of its own, and records
// nothing.
func TestCancelled(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	base := t.TempDir()
	var out, stderr bytes.Buffer
	none := func(string) string { return "" }
	code := run(ctx, []string{"--store", base, "--root", dir, "snapshot", "--json"}, nil, &out, &stderr, none)
	if code != exitInterrupted || out.Len() > 0 {
		t.Errorf("cancelled snapshot: exit code %d, output %q", code, &out)
	}
	if want := "snapctl: snapshot: interrupted, nothing was recorded\n"; stderr.String() != want {
		t.Errorf("cancelled snapshot says %q, want %q", &stderr, want)
	}
	ctx = t.Context()
	if code := run(ctx, []string{"--store", base, "--root", dir, "log"}, nil,
		&out, &stderr, none); code != exitRefused {
		t.Errorf("log after a cancelled snapshot: exit code %d, output %q", code, &out)
	}

	if code := run(ctx, []string{"--store", base, "--root", dir, "snapshot"}, nil,
		&out, &stderr, none); code != exitDone {
		t.Fatalf("snapshot: exit code %d: %s", code, &stderr)
	}
	ctx, cancel = context.WithCancel(ctx)
	cancel()
	unwritten := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		want string // "": only that it was interrupted
	}{
		{args: []string{"status"}},
		{args: []string{"log"}},
		{args: []string{"diff"}},
		{args: []string{"coverage"}},
		{args: []string{"du"}},
		{[]string{"find", "a"}, "snapctl: find: interrupted, not all was searched\n"},
		{args: []string{"log", "-S", "a"}},
		{args: []string{"blame", "a"}},
		{[]string{"restore", "@", "a"}, "snapctl: restore: interrupted, nothing was changed\n"},
		{[]string{"undo"}, "snapctl: undo: interrupted, nothing was changed\n"},
		{[]string{"redo"}, "snapctl: redo: interrupted, nothing was changed\n"},
		{[]string{"revert", "-y", "turn:0"}, "snapctl: revert: interrupted, nothing was changed\n"},
		{[]string{"navigate", "@"}, "snapctl: navigate: interrupted, nothing was changed\n"},
		{[]string{"export", "@", unwritten}, "snapctl: export: interrupted, nothing was written\n"},
		{[]string{"check"},
			"snapctl: check: interrupted, the store is as it was\nhint: 'snapctl AT check' can be run again\n"},
		{[]string{"repair"},
			"snapctl: repair: interrupted, the store is no worse than it was\nhint: 'snapctl AT repair' continues\n"},
		{[]string{"prune"}, "snapctl: prune: interrupted, the store is whole\n" +
			"hint: 'snapctl AT prune', with the same flags, continues\n"},
		{[]string{"compact"}, "snapctl: compact: interrupted, the store is whole, and what was written anew stays\n" +
			"hint: 'snapctl AT compact' goes on where it was\n"},
		{[]string{"forget", "-y", "a"},
			"snapctl: forget: interrupted, the store is whole, and may still hold the content\n" +
				"hint: run the same command again\n"},
		{[]string{"patch", "undo"}, "snapctl: patch undo: interrupted, nothing was changed\n"},
	} {
		stderr.Reset()
		at := []string{"--store", base, "--root", dir}
		code := run(ctx, append(at, tt.args...), nil, &out, &stderr, none)
		tt.want = strings.ReplaceAll(tt.want, "AT", strings.Join(at, " "))
		if want := cmp.Or(tt.want, "snapctl: interrupted\n"); code != exitInterrupted || stderr.String() != want {
			t.Errorf("cancelled %q: exit code %d, says %q, want %q", tt.args, code, &stderr, want)
		}
	}
	if _, err := os.Stat(unwritten); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled export has made its directory: %v", err)
	}
}

// TestOwnerHint: who has run snapctl with sudo in a home can take over what that made there.
func TestOwnerHint(t *testing.T) {
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	store := filepath.Join(u.HomeDir, ".boo")
	for path, want := range map[string]string{
		store:    "'sudo chown -R nobody " + store + "' makes it yours",
		"/srv/s": "'sudo -u root snapctl …' runs as its owner",
	} {
		if got := ownerHint(&cas.OwnerError{Path: path, Owner: 0, Self: uid}); !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}
