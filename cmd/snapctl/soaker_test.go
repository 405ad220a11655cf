//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// A manifest is what a directory holds: by path, the mode and SHA-256 of a file,
// the target of a link, or "dir".
type manifest map[string]string

func readManifest(dir string) (manifest, error) {
	m := make(manifest)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.Name() == ".git" {
			return skip(d)
		}
		rel := path[len(dir)+1:]
		switch {
		case d.IsDir():
			m[rel] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			m[rel] = "-> " + target
			return err
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			b, err := os.ReadFile(path)
			m[rel] = fmt.Sprintf("%o %x", info.Mode().Perm(), sha256.Sum256(b))
			return err
		}
		return nil
	})
	return m, err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

// files is the manifest without directories, which a restore may leave empty.
func (m manifest) files() manifest {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_, what string) bool { return what == "dir" })
	return m
}

// compare says how two manifests differ, "" if they do not.
func (m manifest) compare(want manifest) string {
	var b strings.Builder
	n := 0
	for _, p := range slices.Sorted(maps.Keys(m)) {
		if m[p] != want[p] {
			n++
			fmt.Fprintf(&b, "%s: %q, want %q\n", p, m[p], want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if _, ok := m[p]; !ok {
			n++
			fmt.Fprintf(&b, "%s: missing, want %q\n", p, want[p])
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d paths differ:\n%s", n, len(want), b.String())
}

// A soakJob is what a soaker is told on its command line.
type soakJob struct {
	Root    string // directory that is captured
	Lane    string // what of it is the soaker's: a directory in it, or "."
	Stores  string
	Store   string // directory of the store
	Session string
	By      string // "manager", "serve", "cli" or "hook"
	Seed    uint64
	Targets []soakAck // of this session, that may be gone if Prunes
	Prunes  bool
	Calm    bool // turns only
}

// A soakAck is a snapshot that a soaker was told was recorded.
type soakAck struct {
	Entry    string    `json:"entry"`
	Tree     string    `json:"tree"`
	Seq      uint64    `json:"seq"` // 0: not known
	Start    time.Time `json:"start"`
	Manifest manifest  `json:"manifest"`
}

// A soakLine is what a soaker prints.
type soakLine struct {
	Ack   *soakAck  `json:"ack,omitempty"`
	Begin string    `json:"begin,omitempty"` // restore, revert, undo or redo
	Pre   manifest  `json:"pre,omitempty"`   // before it
	Done  string    `json:"done,omitempty"`
	Fail  string    `json:"fail,omitempty"`
	At    time.Time `json:"at"`
}

// A hand is a way to record turns and to restore.
type hand interface {
	// turn has edit change files. The answer is nil if nothing was recorded.
	turn(edit func() error) (*soakAck, error)
	restore(target string, paths []string, exact bool, policy rollback.Policy) error
	revert(target string) error
	undo() error
	redo() error
}

var (
	errRefused = errors.New("refused")        // nothing was done, and that is all right
	errGone    = errors.New("engine is gone") // killed
)

// A soaker works in its lane until it is told to end, or killed.
type soaker struct {
	soakJob
	ctx  context.Context
	dir  string // of the lane
	rng  *rand.Rand
	hand hand
	out  *json.Encoder
}

// soakerMain is a process of [TestSoak].
func soakerMain() {
	s := &soaker{ctx: context.Background(), out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(os.Args[1]), &s.soakJob)
	if err == nil {
		err = s.run()
	}
	if errors.Is(err, errGone) {
		os.Exit(3)
	}
	if err != nil {
		s.fail("%v", err)
		os.Exit(1)
	}
}

func (s *soaker) fail(format string, args ...any) {
	s.out.Encode(soakLine{Fail: s.By + ": " + fmt.Sprintf(format, args...), At: time.Now()})
}

func (s *soaker) run() error {
	var ended atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	s.rng = rand.New(rand.NewPCG(s.Seed, 7))
	s.dir = filepath.Join(s.Root, s.Lane)
	done, err := s.takeHand()
	if err != nil {
		return err
	}
	for !ended.Load() {
		if s.Calm || s.rng.IntN(10) < 7 || len(s.Targets) == 0 {
			err = s.turn()
		} else {
			err = s.back()
		}
		if errors.Is(err, errRefused) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return done()
}

func (s *soaker) takeHand() (done func() error, err error) {
	none := func() error { return nil }
	switch s.By {
	case "serve":
		c, err := client.Dial(s.ctx, s.Store)
		if err != nil {
			return nil, errGone
		}
		session, _, err := c.Open(s.ctx, &client.Initialize{CWD: s.Root, SessionID: s.Session, OwnLog: true})
		s.hand = &clientHand{s, session}
		return none, s.explain(err)
	case "manager":
		m, err := manager.Open(s.ctx, s.Root, &manager.Options{StoreRoot: s.Stores, Session: s.Session})
		if err != nil {
			return nil, err
		}
		_, err = m.Initialize(s.ctx)
		s.hand = &managerHand{s, m}
		return m.Close, err
	case "cli":
		s.hand = &cliHand{s}
	default:
		s.hand = &hookHand{cliHand{s}}
		return none, s.hand.(*hookHand).event("SessionStart", "")
	}
	return none, nil
}

// turn changes files and has that recorded.
func (s *soaker) turn() error {
	start := time.Now()
	ack, err := s.hand.turn(func() error {
		for range 1 + s.rng.IntN(4) {
			if err := s.edit(); err != nil {
				return err
			}
		}
		return nil
	})
	if ack == nil || err != nil {
		return err
	}
	ack.Start = start
	if ack.Manifest, err = readManifest(s.dir); err != nil {
		return err
	}
	s.Targets = append(s.Targets, *ack)
	if len(s.Targets) > 30 {
		s.Targets = s.Targets[1:]
	}
	return s.out.Encode(soakLine{Ack: ack, At: time.Now()})
}

// content is new, or one of those that come again and again, in all lanes.
func (s *soaker) content() []byte {
	if s.rng.IntN(3) == 0 {
		n := s.rng.IntN(300)
		return bytes.Repeat(fmt.Appendf(nil, "text %d that comes again\n", n), 1+n)
	}
	size := s.rng.IntN(3000)
	if s.rng.IntN(40) == 0 {
		size = s.rng.IntN(600_000)
	}
	b := fmt.Appendf(nil, "%d\n", s.rng.Uint64())
	for len(b) < size {
		b = fmt.Appendf(b, "%x %d\n", s.rng.Uint64(), len(b))
	}
	return b
}

// edit changes a file, a link or a directory.
func (s *soaker) edit() error {
	name := fmt.Sprintf("d%d/f%d", s.rng.IntN(4), s.rng.IntN(12))
	if s.rng.IntN(3) == 0 {
		name = fmt.Sprintf("d%d/sub/ü%d", s.rng.IntN(4), s.rng.IntN(5))
	}
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	st, err := os.Lstat(path)
	switch n := s.rng.IntN(20); {
	case n < 3 && err == nil:
		return os.Remove(path)
	case n < 4 && err == nil && st.Mode().IsRegular():
		return os.Chmod(path, []fs.FileMode{0o644, 0o755, 0o600}[s.rng.IntN(3)])
	case n < 5:
		os.Remove(path)
		return os.Symlink(fmt.Sprint("to/", s.rng.IntN(9)), path)
	case n < 6: // a directory goes
		return os.RemoveAll(filepath.Dir(path))
	case n < 7: // or gets another name
		other := filepath.Join(s.dir, fmt.Sprint("d", s.rng.IntN(4)))
		if _, err := os.Lstat(other); err == nil || filepath.Dir(filepath.Dir(path)) != s.dir {
			return nil
		}
		return os.Rename(filepath.Dir(path), other)
	case n < 12: // replaced, as editors do
		tmp := filepath.Join(s.dir, "tmp~")
		return errors.Join(os.WriteFile(tmp, s.content(), 0o644), os.Rename(tmp, path))
	default:
		if err == nil && !st.Mode().IsRegular() {
			os.Remove(path)
		}
		return os.WriteFile(path, s.content(), 0o644)
	}
}

// back restores or reverts, and perhaps takes that back, once or twice. The user may edit a file in between:
// what he wrote stays.
func (s *soaker) back() error {
	target := s.Targets[s.rng.IntN(len(s.Targets))]
	pre, err := readManifest(s.dir)
	if err != nil {
		return err
	}
	var paths []string
	exact, policy := false, rollback.Policy("")
	want := func(manifest) manifest { return nil } // what there is to be then; nil: the rules of turns say it
	switch n := s.rng.IntN(6); {
	case n > 3:
		what := "revert " + target.Entry
		post, err := s.step("revert", what, pre, nil, func() error { return s.hand.revert(target.Entry) })
		if err != nil {
			return err
		}
		return s.again(what, pre, post)
	case n == 0: // a file
		all := slices.Sorted(maps.Keys(target.Manifest.files()))
		if len(all) == 0 {
			return nil
		}
		p := all[s.rng.IntN(len(all))]
		if pre[p] == "dir" {
			return nil
		}
		paths, policy = []string{filepath.Join(s.Lane, p)}, rollback.Overwrite
		want = func(pre manifest) manifest {
			pre[p] = target.Manifest[p]
			for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
				delete(pre, dir) // if it was a file
			}
			return pre
		}
	case n == 1 || s.Lane != ".": // all that is ours
		if s.Lane == "." {
			exact = true
		} else {
			paths, policy = []string{s.Lane}, rollback.Overwrite
		}
		want = func(manifest) manifest { return target.Manifest.files() }
	default: // what turns did
		policy = []rollback.Policy{"", rollback.Skip, rollback.Overwrite}[s.rng.IntN(3)]
	}
	what := fmt.Sprintf("restore %s %q exact %v %q", target.Entry, paths, exact, policy)
	post, err := s.step("restore", what, pre, want(pre.files()), func() error {
		return s.hand.restore(target.Entry, paths, exact, policy)
	})
	if err != nil {
		return err
	}
	return s.again(what, pre, post)
}

// again takes back what has made pre to post, or not, and perhaps does it again.
func (s *soaker) again(what string, pre, post manifest) error {
	if post.compare(pre) == "" || s.rng.IntN(2) == 0 {
		return nil
	}
	want := pre.files()
	mine, err := "", error(nil)
	if s.rng.IntN(3) == 0 {
		if mine, err = s.write(pre, post); err != nil {
			return err
		}
	}
	if mine != "" {
		want = nil // his lines come in where they can
		if post, err = readManifest(s.dir); err != nil {
			return err
		}
	}
	undone, err := s.step("undo", "undo of "+what, post, want, s.hand.undo)
	if serr := s.stays(mine, "undo of "+what); err != nil || serr != nil || s.rng.IntN(2) == 0 {
		return errors.Join(serr, err)
	}
	if undone.compare(post) == "" { // his line is in conflict with all of it
		return nil
	}
	_, err = s.step("redo", "redo of "+what, undone, nil, s.hand.redo)
	return errors.Join(s.stays(mine, "redo of "+what), err)
}

// write adds a line to one of the files that are others than they were, as a user does, and returns it.
func (s *soaker) write(pre, post manifest) (line string, err error) {
	var names []string
	for name, what := range post.files() {
		if pre[name] != what && !strings.HasPrefix(what, "-> ") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	f, err := os.OpenFile(filepath.Join(s.dir, names[s.rng.IntN(len(names))]), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", err
	}
	line = fmt.Sprintf("the user's %d\n", s.rng.Uint64())
	_, err = f.WriteString(line)
	return line, errors.Join(err, f.Close(), s.out.Encode(soakLine{Done: "edit before undo", At: time.Now()}))
}

// stays requires that a file has a line of the user's still.
func (s *soaker) stays(line, what string) error {
	found := line == ""
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || found || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found = bytes.Contains(b, []byte(line))
		return err
	})
	if err == nil && !found {
		s.fail("%s: no file has the line that the user wrote: %q", what, line)
	}
	return err
}

// step does something to the files that can be taken back, and returns what is
// there then.
func (s *soaker) step(name, what string, pre, want manifest, do func() error) (manifest, error) {
	if err := s.out.Encode(soakLine{Begin: name, Pre: pre, At: time.Now()}); err != nil {
		return nil, err
	}
	err := do()
	if errors.Is(err, errGone) {
		return nil, err // whoever reads what we print brings it to an end
	}
	post, merr := readManifest(s.dir)
	if merr != nil {
		return nil, merr
	}
	if err != nil {
		if d := post.files().compare(pre.files()); d != "" {
			s.fail("%s: %v, and yet %s", what, err, d)
		}
	} else if want != nil {
		if d := post.files().compare(want); d != "" {
			s.fail("%s: %s", what, d)
		}
	}
	if e := s.out.Encode(soakLine{Done: name, At: time.Now()}); e != nil {
		return nil, e
	}
	if err != nil && !errors.Is(err, errRefused) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return post, err
}

// explain tells an engine that was killed, and what a prune has taken, which may
// be said or no longer be listed, from what must not be.
func (s *soaker) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*client.Error](err); !ok && s.By == "serve" {
		return errGone
	}
	// as a command says it: nothing was done
	for _, stopped := range []string{"the engine has died", "interrupted"} {
		if strings.Contains(err.Error(), stopped) {
			return errRefused
		}
	}
	if errors.Is(err, context.Canceled) { // as the engine says it
		return errRefused
	}
	if s.Prunes && (strings.Contains(err.Error(), "pruned") || strings.Contains(err.Error(), "not found")) {
		return errRefused
	}
	return err
}

// ofRevert tells a turn of which nothing is left to revert from what must not be.
func ofRevert(err error) error {
	for _, nothing := range []string{"nothing to take back", "changed nothing"} {
		if err != nil && strings.Contains(err.Error(), nothing) {
			return errRefused
		}
	}
	return err
}

// A managerHand is a runtime with the library in it.
type managerHand struct {
	s *soaker
	m *manager.FileSnapshotManager
}

func (h *managerHand) turn(edit func() error) (*soakAck, error) {
	if _, err := h.m.OnTurnStart(h.s.ctx, nil); err != nil {
		return nil, err
	}
	if h.s.Lane != "." {
		if err := h.m.Claim(h.s.ctx, h.s.Lane); err != nil {
			return nil, err
		}
	}
	if err := edit(); err != nil {
		return nil, err
	}
	r, err := h.m.OnTurnEnd(h.s.ctx, nil)
	if err != nil || r.Data == nil {
		return nil, err
	}
	return &soakAck{Entry: r.EntryID, Tree: r.Tree.String(), Seq: r.Data.SnapshotSeq}, nil
}

func (h *managerHand) restore(target string, paths []string, exact bool, policy rollback.Policy) error {
	_, err := h.m.RestoreFiles(h.s.ctx, &manager.RestoreOptions{Target: target, Paths: paths, Exact: exact,
		OnDirty: policy, Force: true})
	return h.s.explain(err)
}

func (h *managerHand) revert(target string) error {
	_, err := h.m.Revert(h.s.ctx, &manager.RevertOptions{Turns: []string{target}, Force: true})
	return ofRevert(h.s.explain(err))
}

func (h *managerHand) undo() error {
	_, err := h.m.Undo(h.s.ctx, &manager.UndoOptions{Force: true})
	return h.s.explain(err)
}

func (h *managerHand) redo() error {
	_, err := h.m.Redo(h.s.ctx, &manager.UndoOptions{Force: true})
	return h.s.explain(err)
}

// A clientHand is a runtime that asks a resident engine.
type clientHand struct {
	s *soaker
	c *client.Session
}

func (h *clientHand) turn(edit func() error) (*soakAck, error) {
	if _, err := h.c.OnTurnStart(h.s.ctx, nil); err != nil {
		return nil, h.s.explain(err)
	}
	if h.s.Lane != "." {
		if err := h.c.Claim(h.s.ctx, h.s.Lane); err != nil {
			return nil, h.s.explain(err)
		}
	}
	if err := edit(); err != nil {
		return nil, err
	}
	r, err := h.c.OnTurnEnd(h.s.ctx, nil)
	if err != nil || r.Data == nil {
		return nil, h.s.explain(err)
	}
	return &soakAck{Entry: r.EntryID, Tree: r.SnapshotTreeHash.String(), Seq: r.SnapshotSeq}, nil
}

func (h *clientHand) restore(target string, paths []string, exact bool, policy rollback.Policy) error {
	opts := &manager.RestoreOptions{Target: target, Paths: paths, Exact: exact, OnDirty: policy, Force: true}
	return h.s.explain(h.c.Call(h.s.ctx, "restore", opts, nil))
}

func (h *clientHand) revert(target string) error {
	opts := &manager.RevertOptions{Turns: []string{target}, Force: true}
	return ofRevert(h.s.explain(h.c.Call(h.s.ctx, "revert", opts, nil)))
}

func (h *clientHand) undo() error {
	return h.s.explain(h.c.Call(h.s.ctx, "undo", &manager.UndoOptions{Force: true}, nil))
}

func (h *clientHand) redo() error {
	return h.s.explain(h.c.Call(h.s.ctx, "redo", &manager.UndoOptions{Force: true}, nil))
}

// A cliHand is a user at a terminal.
type cliHand struct{ s *soaker }

// snapctl runs the command. Code 3 is all right: others write meanwhile.
func (h *cliHand) snapctl(args ...string) ([]byte, error) {
	cmd := exec.Command("snapctl", append([]string{"--root", h.s.Root, "--session", h.s.Session}, args...)...)
	cmd.Dir = h.s.Root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitPart {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("snapctl %q: %w: %s", args, err, stderr.Bytes())
	}
	return out, h.s.explain(err)
}

func (h *cliHand) turn(edit func() error) (*soakAck, error) {
	if err := edit(); err != nil {
		return nil, err
	}
	out, err := h.snapctl("snapshot", "--json")
	if err != nil {
		return nil, err
	}
	var answer snapshotAnswer
	if err := json.Unmarshal(out, &answer); err != nil || answer.EntryID == nil {
		return nil, err
	}
	return &soakAck{Entry: *answer.EntryID, Tree: answer.SnapshotTreeHash.String()}, nil
}

func (h *cliHand) restore(target string, paths []string, exact bool, policy rollback.Policy) error {
	args := append([]string{"restore", "-y", "--force", target}, paths...)
	if exact {
		args = append(args, "--exact")
	}
	if policy != "" {
		args = append(args, "--on-dirty", string(policy))
	}
	_, err := h.snapctl(args...)
	if err != nil && strings.Contains(err.Error(), "no turn since") {
		return errRefused
	}
	return err
}

func (h *cliHand) revert(target string) error {
	_, err := h.snapctl("revert", "-y", "--force", target)
	return ofRevert(err)
}

func (h *cliHand) undo() error {
	_, err := h.snapctl("undo", "-y", "--force")
	return err
}

func (h *cliHand) redo() error {
	_, err := h.snapctl("redo", "-y", "--force")
	return err
}

// A hookHand is an agent that calls hooks; its user restores.
type hookHand struct{ cliHand }

func (h *hookHand) event(name, tool string) error {
	text, err := json.Marshal(map[string]any{"session_id": h.s.Session, "cwd": h.s.Root, "hook_event_name": name,
		"tool_name": tool, "tool_use_id": "t", "tool_input": map[string]string{"command": "edit"}})
	if err != nil {
		return err
	}
	cmd := exec.Command("snapctl", "hook", "claude", "--root", h.s.Root)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("hook %s: %w, says %q", name, err, out)
	}
	return nil
}

// newest returns the newest turn that changed something.
func (h *hookHand) newest() (*soakAck, error) {
	out, err := h.snapctl("log", "-n", "5", "--json")
	if err != nil {
		if strings.Contains(err.Error(), "no snapshots") {
			err = nil
		}
		return new(soakAck), err
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line struct {
			Kind, EntryID, SnapshotTreeHash string
			Seq                             uint64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		if line.Kind == "step" {
			return &soakAck{Entry: line.EntryID, Tree: line.SnapshotTreeHash, Seq: line.Seq}, nil
		}
	}
	return new(soakAck), nil
}

// turn has a hook's turn recorded. Hooks do not say whether it was, so the log
// is asked.
func (h *hookHand) turn(edit func() error) (*soakAck, error) {
	if err := h.event("UserPromptSubmit", ""); err != nil {
		return nil, err
	}
	if err := h.event("PreToolUse", "Bash"); err != nil {
		return nil, err
	}
	before, err := h.newest()
	if err != nil {
		return nil, err
	}
	if err := edit(); err != nil {
		return nil, err
	}
	if err := h.event("PostToolUse", "Bash"); err != nil {
		return nil, err
	}
	if err := h.event("Stop", ""); err != nil {
		return nil, err
	}
	ack, err := h.newest()
	if err != nil || ack.Entry == before.Entry {
		return nil, err
	}
	return ack, nil
}
