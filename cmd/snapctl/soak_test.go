//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

var (
	soakTime  = flag.Duration("soak.time", 3*time.Second, "how long TestSoak goes on")
	soakProcs = flag.Int("soak.procs", 4,
		"how many processes TestSoak has work at once, beside those that look after the store")
	soakCaptures = flag.Int("soak.captures", 0,
		"TestSoak: so many processes that only record, and are not killed, beside prunes")
	soakStore = flag.Duration("soak.store", 5*time.Minute, "TestSoak begins a new store after this time")
)

// A lane is a directory, or a part of one, in which one process works at a time.
type lane struct {
	root, dir string // dir in root, or "."
	name      string
	number    int

	mu   sync.Mutex // guards the rest
	acks []*soakedAck
}

func (l *lane) path() string { return filepath.Join(l.root, l.dir) }

// A soakedAck is a snapshot that was acknowledged, and what is known of it.
type soakedAck struct {
	soakAck
	session string
	lane    *lane
	loose   bool // a prune may have taken it
	gone    bool // and did
}

// A pruned is what one prune may have taken: by session, what comes before a
// record and was begun before a time.
type pruned struct {
	before map[string]uint64
	until  time.Time
}

// A soak is many processes on one store, a plain model of what must be in it, and
// what was counted.
type soak struct {
	t     *testing.T
	ctx   context.Context
	dir   string
	store string
	lanes []*lane
	prune bool // snapctl can

	remote string // "": there is none

	mu     sync.Mutex // guards the rest
	rng    *rand.Rand
	counts map[string]int
	acks   []*soakedAck
	prunes []pruned
}

// TestSoak has processes of all kinds work on one store at once: turns by the
// library, an engine, hooks and commands, in several directories; restores of all
// kinds, reverts, undo, redo, with edits of the user's in between; checks, repairs,
// prunes and compactions; pushes to a remote. They are killed at random. After
// each kill and each round all that was acknowledged and may not have been pruned
// is there to the byte, and restores that were cut off are brought to an end.
func TestSoak(t *testing.T) {
	seed := testseed.Of(t)
	d := *soakTime
	counts := make(map[string]int)
	for end := time.Now().Add(d); counts["stores"] == 0 || time.Now().Before(end); seed++ {
		soakOne(t, seed, min(time.Until(end), *soakStore), counts)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		counts["stores"]++
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "\n%8d %s", counts[name], name)
	}
	t.Logf("seed %d, %v, %d processes:%s", seed-uint64(counts["stores"]), d, max(*soakProcs, *soakCaptures), b.String())
}

func soakOne(t *testing.T, seed uint64, d time.Duration, counts map[string]int) {
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, ctx: t.Context(), dir: dir, rng: rand.New(rand.NewPCG(seed, 3)), counts: counts}
	defer func() {
		s.quiet("serve", "--stop")
		if t.Failed() {
			t.Logf("kept: %s", dir)
		} else {
			os.RemoveAll(dir)
		}
	}()
	s.makeLanes()
	help, err := s.command("prune", "--help").Output()
	s.prune = err == nil && bytes.Contains(help, []byte("--keep-last"))
	if *soakCaptures > 0 && !s.prune {
		t.Log("snapctl has no prune: only captures")
	}
	s.must("snapshot") // on a busy machine nobody may have come to one when a check is due
	if *soakCaptures == 0 {
		s.remote = filepath.Join(dir, "remote")
		if err := os.Mkdir(s.remote, 0o755); err != nil {
			t.Fatal(err)
		}
		s.must("remote", "init", s.remote)
		s.must("remote", "add", "team", s.remote)
	}
	for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); {
		s.round(min(time.Until(end), time.Second+time.Duration(s.intN(4000))*time.Millisecond))
	}
	if !t.Failed() {
		s.all()
	}
	if s.remote != "" && !t.Failed() {
		s.there()
	}
	s.counts["snapshots acknowledged"] += len(s.acks)
}

// makeLanes makes a repository with linked working trees, which share a store. The
// first two lanes share a directory.
func (s *soak) makeLanes() {
	main := filepath.Join(s.dir, "main")
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			s.t.Fatal(err)
		}
	}
	git := filepath.Join(main, ".git")
	write(filepath.Join(git, "HEAD"), "ref: refs/heads/main\n")
	write(filepath.Join(git, "config"), "[core]\n\trepositoryformatversion = 0\n")
	for _, dir := range []string{"objects", "refs"} {
		if err := os.Mkdir(filepath.Join(git, dir), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range max(*soakProcs, *soakCaptures) {
		l := &lane{root: main, dir: "ab"[min(i, 1) : min(i, 1)+1], name: fmt.Sprint("l", i), number: i}
		if i >= 2 {
			l.root, l.dir = filepath.Join(s.dir, fmt.Sprint("w", i)), "."
			of := filepath.Join(git, "worktrees", fmt.Sprint("w", i))
			write(filepath.Join(l.root, ".git"), "gitdir: "+of+"\n")
			write(filepath.Join(of, "HEAD"), "ref: refs/heads/w\n")
			write(filepath.Join(of, "commondir"), "../..\n")
			write(filepath.Join(of, "gitdir"), filepath.Join(l.root, ".git")+"\n")
		}
		if err := os.MkdirAll(l.path(), 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.lanes = append(s.lanes, l)
	}
	project, err := capture.FindProject(s.lanes[len(s.lanes)-1].root)
	if err != nil {
		s.t.Fatal(err)
	}
	s.store = filepath.Join(s.stores(), project.Hash())
}

func (s *soak) stores() string { return filepath.Join(s.dir, "home", ".boo", "file-store") }

func (s *soak) environ() []string {
	return append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "BOO_STORE=", "BOO_SESSION=",
		"CLAUDE_PROJECT_DIR=", "GORACE=atexit_sleep_ms=0")
}

// command is snapctl in the main directory.
func (s *soak) command(args ...string) *exec.Cmd {
	cmd := exec.Command("snapctl", append([]string{"--root", filepath.Join(s.dir, "main")}, args...)...)
	cmd.Env = s.environ()
	return cmd
}

// quiet runs a command that may fail.
func (s *soak) quiet(args ...string) error { return s.command(args...).Run() }

// must runs a command that has to succeed.
func (s *soak) must(args ...string) []byte {
	cmd := s.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("snapctl %q: %v\n%s%s", args, err, out, stderr.Bytes())
	}
	return out
}

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *soak) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// after is time.After some milliseconds, less than that.
func (s *soak) after(ms int) <-chan time.Time {
	return time.After(time.Duration(s.intN(ms)) * time.Millisecond)
}

// round has all work for a while, and looks at what is there then.
func (s *soak) round(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	var work sync.WaitGroup
	for _, l := range s.lanes {
		work.Go(func() {
			for ctx.Err() == nil && !s.t.Failed() {
				s.life(ctx, l)
			}
		})
	}
	work.Go(func() {
		for ctx.Err() == nil && !s.t.Failed() {
			s.care(ctx)
		}
	})
	if *soakCaptures > 0 || s.intN(2) == 0 {
		work.Go(func() {
			for ctx.Err() == nil {
				s.serve(ctx)
			}
		})
	}
	work.Wait()
	s.quiet("serve", "--stop") // hooks may have started one
	s.count("rounds")
	s.must("check", "--read-data")
	s.count("check --read-data when nobody works")
	if !s.t.Failed() {
		s.sample()
	}
}

// life is one process in a lane: until it is killed, or the round ends.
func (s *soak) life(ctx context.Context, l *lane) {
	job := soakJob{Root: l.root, Lane: l.dir, Stores: s.stores(), Store: s.store, Session: l.name, Prunes: s.prune,
		Calm: *soakCaptures > 0}
	job.By = []string{"manager", "manager", "serve", "cli", "hook"}[s.intN(5)]
	if job.Calm {
		job.By = []string{"manager", "serve"}[l.number%2]
	}
	if job.By == "hook" {
		job.Session += "-hook"
	}
	job.Seed = uint64(s.intN(1 << 62))
	l.mu.Lock()
	var targets []*soakedAck
	for _, a := range l.acks[max(0, len(l.acks)-200):] {
		if a.session == job.Session && !a.gone {
			targets = append(targets, a)
		}
	}
	l.mu.Unlock()
	for range min(len(targets), 8) {
		job.Targets = append(job.Targets, targets[s.intN(len(targets))].soakAck)
	}
	arg, err := json.Marshal(job)
	if err != nil {
		s.t.Error(err)
		return
	}
	cmd := exec.Command("soaker", string(arg))
	cmd.Env = s.environ()
	if s.intN(2) == 0 {
		cmd.Env = append(cmd.Env, "BOO_ENGINE=off")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its commands are killed with it
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Error(err)
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	s.count("processes of " + job.By)
	var killed atomic.Bool
	over := make(chan bool)
	go func() {
		soon := make(<-chan time.Time)
		if !job.Calm && s.intN(5) > 0 {
			soon = s.after(1500)
		}
		select {
		case <-soon:
			killed.Store(true)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case <-ctx.Done():
			if !job.Calm && s.intN(2) == 0 {
				killed.Store(true)
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
			stdin.Close()
		case <-over:
		}
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			s.t.Errorf("a process by %s does not end", job.By)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT)
		}
	}()
	var pending *soakLine
	for r := bufio.NewReader(stdout); ; {
		text, err := r.ReadBytes('\n')
		if err != nil {
			break // a line that was cut is none
		}
		line := new(soakLine)
		if err := json.Unmarshal(text, line); err != nil {
			s.t.Errorf("%v: %s%s", err, text, stderr.Bytes())
			break
		}
		switch {
		case line.Ack != nil:
			s.ack(l, job.Session, line.Ack)
			s.count("turns by " + job.By)
		case line.Begin != "":
			pending = line
		case line.Done != "":
			s.count(line.Done + " by " + job.By)
			pending = nil
		case line.Fail != "":
			s.t.Error(l.name, line.Fail)
		}
	}
	err = cmd.Wait()
	close(over)
	switch {
	case killed.Load():
		s.count("kills of processes that work")
	case err == nil:
	case cmd.ProcessState.ExitCode() == 3:
		s.count("engines gone under a client")
	default:
		s.t.Errorf("a process by %s ends by itself: %v\n%s", job.By, err, stderr.Bytes())
	}
	if pending != nil && !s.t.Failed() {
		s.recover(l, job.Session, pending)
	}
}

func (s *soak) ack(l *lane, session string, a *soakAck) {
	ack := &soakedAck{soakAck: *a, session: session, lane: l}
	l.mu.Lock()
	l.acks = append(l.acks, ack)
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(s.acks, ack)
}

// still stops the engine, waits until no restore is being done in any directory, and has none begin
// while f runs. An engine goes on with one whose client was killed, or has yet to begin it; another
// session of the directory rolls one back that was cut off, and until it has, status says of neither
// that it is cut off nor that it is not.
func (s *soak) still(f func()) {
	s.quiet("serve", "--stop")
	locks, err := filepath.Glob(filepath.Join(s.store, "worktrees", "*", "turns.lock"))
	if err != nil {
		s.t.Error(err)
	}
	for _, name := range locks {
		lock, err := vfs.OS(filepath.Dir(name)).OpenFile(filepath.Base(name), os.O_RDWR, 0)
		if err == nil {
			defer lock.Close()
			err = vfs.Lock(s.t.Context(), lock, vfs.Shared)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	f()
}

// recover brings a restore to its end that was cut off, and takes it back: all
// files are as they were before it.
func (s *soak) recover(l *lane, session string, line *soakLine) {
	snapctl := func(args ...string) (string, error) {
		cmd := exec.Command("snapctl", append([]string{"--root", l.root, "--session", session}, args...)...)
		cmd.Env = s.environ()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	same := func() string {
		now, err := readManifest(l.path())
		if err != nil {
			s.t.Error(err)
		}
		return now.files().compare(line.Pre.files())
	}
	cutOff, before := false, ""
	s.still(func() {
		out, _ := snapctl("status", "--json")
		cutOff = strings.Contains(out, `"restoreCutOff":true`)
		before = same()
	})
	how := "not begun, or recorded"
	if cutOff {
		how = []string{"--abort", "--continue", "snapshot"}[s.intN(3)]
		args := []string{"restore", how}
		if how == "snapshot" {
			args = []string{"snapshot"}
		}
		if said, err := snapctl(args...); err != nil && l.dir == "." {
			s.t.Errorf("%s of %q in %s: %v\n%s", how, line.Begin, l.name, err, said)
			return
		} else if err == nil && how == "--abort" && l.dir == "." { // else it may have been the other's there
			if d := same(); d != "" {
				s.t.Errorf("%q that was cut off in %s, aborted: %s", line.Begin, l.name, d)
			}
		}
	}
	s.count("cut off and recovered: " + how)
	if cutOff {
		s.still(func() { before = same() })
	}
	if before == "" {
		return
	}
	back := map[string]string{"restore": "undo", "revert": "undo", "undo": "redo", "redo": "undo"}[line.Begin]
	said, err := snapctl(back, "-y", "--force")
	if err != nil && s.prune && strings.Contains(said, "of a snapshot that was pruned") {
		s.count("cut off and pruned, said so")
		return
	}
	if d := same(); d != "" {
		s.t.Errorf("%q of %s that was cut off, %s, then %s (%v: %s): %s", line.Begin, session, how, back, err, said, d)
	}
	s.count("cut off and taken back")
}

// serve is an engine that is killed.
func (s *soak) serve(ctx context.Context) {
	cmd := s.command("serve", "--quiet")
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	done := make(chan bool)
	go func() {
		cmd.Wait() // fails if another serves
		close(done)
	}()
	soon := make(<-chan time.Time)
	if *soakCaptures == 0 {
		soon = s.after(3000)
	}
	select {
	case <-done:
	case <-soon:
		s.count("kills of engines")
	case <-ctx.Done():
	}
	cmd.Process.Kill()
	<-done
	select {
	case <-ctx.Done():
	case <-s.after(200):
	}
}

// care is a command that looks after the store. Some are killed.
func (s *soak) care(ctx context.Context) {
	all := [][]string{{"check"}, {"check", "--read-data"}, {"repair"}, {"repair", "-n"}, {"stats"}, {"du"},
		{"compact"}}
	if s.remote != "" {
		all = append(all, []string{"remote", "push", "--all"}, []string{"remote", "status"},
			[]string{"remote", "check"})
	}
	s.mu.Lock()
	if len(s.acks) > 0 { // else there may be none to list, which is an error
		all = append(all, []string{"log", "--all", "-n", "50"}, []string{"sessions", "--all"})
	}
	s.mu.Unlock()
	args := all[s.intN(len(all))]
	var rule *retention
	if s.prune && (*soakCaptures > 0 || s.intN(3) == 0) {
		rule = s.retention()
		args = rule.args
	}
	what := args[0]
	if args[0] == "remote" {
		what = strings.Join(args[:2], " ")
	}
	cmd := s.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if _, err := os.Stat(filepath.Join(s.store, "FORMAT")); err != nil { // nobody was there yet
		time.Sleep(10 * time.Millisecond)
		return
	}
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	soon := make(<-chan time.Time)
	if *soakCaptures == 0 && s.intN(3) == 0 {
		soon = s.after(500)
	}
	select {
	case err := <-done:
		code := cmd.ProcessState.ExitCode()
		over := rule != nil && code == exitPart // more must stay than --max-size has room for
		if args[0] == "compact" {               // somebody recorded something, or went on for long
			over = code == exitPart || code == exitRefused
		}
		if args[0] == "repair" && code == exitRefused && onlySummaries.Match(stdout.Bytes()) {
			over = true
			s.summarized(ctx, stdout.String())
		}
		if err != nil && !over {
			s.t.Errorf("snapctl %q beside others: %v\n%s%s", args, err, stdout.Bytes(), stderr.Bytes())
		}
		s.count(what + " beside others")
	case <-soon:
		cmd.Process.Kill()
		<-done
		s.count("kills of " + what)
	}
	if rule != nil {
		s.prunedBy(rule)
	}
	if *soakCaptures == 0 {
		select {
		case <-ctx.Done():
		case <-s.after(300):
		}
	}
}

// onlySummaries matches what repair -n prints where nothing but summaries of the journal is missing.
var onlySummaries = regexp.MustCompile(`^(journal/\d+\.sum: would be made again\n)+all can be mended\n$`)

// summarized waits until somebody has recorded something, and so made the summaries of the journal that
// repair -n misses: who closed a segment was killed before it wrote what is in it.
func (s *soak) summarized(ctx context.Context, missed string) {
	s.count("waits for summaries of the journal")
	for name := range strings.FieldsSeq(missed) {
		name, isSummary := strings.CutSuffix(name, ":")
		for deadline := time.Now().Add(time.Minute); isSummary && ctx.Err() == nil; {
			if _, err := os.Stat(filepath.Join(s.store, filepath.FromSlash(name))); err == nil {
				break
			}
			if time.Now().After(deadline) {
				s.t.Errorf("%s is missing, and in a minute nobody has made it", name)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// A retention is what a prune was told to keep: what any of its rules keeps.
type retention struct {
	args   []string
	last   int           // so many of each session
	within time.Duration // and what is younger
}

func (s *soak) retention() *retention {
	r := &retention{last: 1 + s.intN(40)}
	r.args = []string{"prune", "--keep-last", fmt.Sprint(r.last)}
	switch s.intN(4) {
	case 0:
		r.within = time.Duration(1+s.intN(30)) * time.Second
		r.args = append(r.args, "--keep-within", r.within.String())
	case 1: // older ones may go until it fits
		r.last = 1
		r.args = append(r.args, "--max-size", fmt.Sprint(1<<20+s.intN(20<<20)))
	}
	return r
}

// prunedBy takes note of what a prune that has ended may have taken. What came
// meanwhile has made others older for it at most.
func (s *soak) prunedBy(r *retention) {
	newest := make(map[string][]uint64)
	until := time.Now().Add(-r.within)
	for _, snap := range s.listed() {
		newest[snap.Session] = append(newest[snap.Session], snap.Seq)
	}
	p := pruned{make(map[string]uint64), until}
	for session, seqs := range newest {
		slices.Sort(seqs)
		p.before[session] = seqs[max(0, len(seqs)-r.last)]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prunes = append(s.prunes, p)
}

// open opens the store to look at it.
func (s *soak) open() *cas.Store {
	st, err := cas.Open(s.ctx, s.store, &cas.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// listed lists all that the store says it has.
func (s *soak) listed() (list []*store.Snapshot) {
	st := s.open()
	defer st.Close()
	for snap, err := range st.Snapshots(s.ctx) {
		if err != nil {
			s.t.Error(err)
			break
		}
		list = append(list, snap)
	}
	return list
}

// settle finds out which acknowledged snapshots must be there still, now that
// nobody works.
func (s *soak) settle() {
	seqs := make(map[string]uint64)
	for _, snap := range s.listed() {
		seqs[snap.Session+" "+snap.Tree.String()+" "+snap.Entry] = snap.Seq
		seqs[fmt.Sprint(snap.Session, " ", snap.Tree, " ", snap.Seq)] = snap.Seq
	}
	for _, a := range s.acks {
		if a.gone {
			continue
		}
		key := a.session + " " + a.Tree + " "
		seq, ok := seqs[key+a.Entry]
		if a.Seq != 0 {
			seq, ok = seqs[fmt.Sprint(key, a.Seq)]
		}
		if a.Seq == 0 {
			a.Seq = seq
		}
		for _, p := range s.prunes {
			// One without a number was pruned before we could look.
			a.loose = a.loose || a.Seq < p.before[a.session] && a.Start.Before(p.until)
		}
		if ok {
			continue
		}
		if a.gone = a.loose; !a.gone {
			s.t.Errorf("snapshot %s (%d, session %s) was acknowledged at %v and is not listed", a.Entry, a.Seq,
				a.session, a.Start)
		}
		s.counts["acknowledged, pruned, not listed"]++
	}
	s.prunes = nil
}

// sample exports some of what was acknowledged: the newest of each session, and
// others at random.
func (s *soak) sample() {
	s.settle()
	newest := make(map[string]*soakedAck)
	var some []*soakedAck
	for _, a := range s.acks {
		if !a.gone {
			newest[a.session] = a
		}
	}
	for range min(len(s.acks), 6) {
		if a := s.acks[s.intN(len(s.acks))]; !a.gone {
			some = append(some, a)
		}
	}
	for _, a := range slices.Concat(slices.Collect(maps.Values(newest)), some) {
		if a.gone {
			continue // since
		}
		dir := filepath.Join(s.dir, "out")
		args := []string{"--root", a.lane.root, "export", a.Tree, dir}
		if s.intN(2) == 0 {
			args = []string{"--root", a.lane.root, "--session", a.session, "export", a.Entry, dir}
		}
		cmd := exec.Command("snapctl", args...)
		cmd.Env = s.environ()
		out, err := cmd.CombinedOutput()
		s.count("exports compared")
		switch {
		case err != nil && a.loose && (bytes.Contains(out, []byte("pruned")) ||
			bytes.Contains(out, []byte("not found"))):
			a.gone = true
			s.count("acknowledged, pruned, said so")
		case err != nil:
			s.t.Errorf("snapctl %q: %v\n%s", args, err, out)
		default:
			got, err := readManifest(filepath.Join(dir, a.lane.dir))
			if err != nil {
				s.t.Error(err)
			}
			if d := got.compare(a.Manifest); d != "" {
				s.t.Errorf("snapshot %s of %s: %s", a.Entry, a.session, d)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
	}
}

// all reads all that was acknowledged.
func (s *soak) all() {
	s.settle()
	st := s.open()
	defer st.Close()
	blobs := make(map[store.ID]string) // SHA-256 by ID
	for _, a := range s.acks {
		if a.gone {
			continue
		}
		err := s.read(st, a, blobs)
		if err != nil && a.loose && strings.Contains(err.Error(), "pruned") {
			a.gone = true
			s.count("acknowledged, pruned, said so")
		} else if err != nil {
			s.t.Errorf("snapshot %s (%d) of %s: %v", a.Entry, a.Seq, a.session, err)
		}
		s.count("snapshots read at the end")
	}
}

// there has the newest of each session that was acknowledged be in the remote, from which somebody else
// clones it.
func (s *soak) there() {
	s.must("remote", "push", "--all", "--wait")
	s.must("remote", "check", "--data")
	newest := make(map[string]*soakedAck)
	for _, a := range s.acks {
		if !a.gone {
			newest[a.session] = a
		}
	}
	home := filepath.Join(s.dir, "other home")
	for session, a := range newest {
		dir := filepath.Join(s.dir, "clone of "+session)
		cmd := exec.Command("snapctl", "clone", s.remote, dir, "--session", session, "--at", a.Entry)
		cmd.Env = append(s.environ(), "HOME="+home,
			"BOO_IDENTITY="+filepath.Join(s.dir, "home", ".config", "snapctl", "identity.age"))
		out, err := cmd.CombinedOutput()
		if err != nil && a.loose && regexp.MustCompile("pruned|not found").Match(out) {
			continue
		}
		if err != nil {
			s.t.Errorf("clone of %s at %s: %v\n%s", session, a.Entry, err, out)
			continue
		}
		got, err := readManifest(filepath.Join(dir, a.lane.dir))
		if err != nil {
			s.t.Error(err)
		}
		if d := got.compare(a.Manifest); d != "" {
			s.t.Errorf("clone of %s at %s: %s", session, a.Entry, d)
		}
		s.count("sessions cloned from the remote")
	}
}

// read compares a snapshot with what was there.
func (s *soak) read(st *cas.Store, a *soakedAck, blobs map[store.ID]string) error {
	snap, err := st.Snapshot(s.ctx, a.Seq)
	if err != nil {
		return err
	}
	got := make(manifest)
	for e, err := range trees.Walk(s.ctx, st, snap.Tree) {
		if err != nil {
			return err
		}
		rel, ok := e.Path, true
		if a.lane.dir != "." {
			if rel, ok = strings.CutPrefix(e.Path, a.lane.dir+"/"); !ok {
				continue
			}
		}
		switch {
		case e.Mode.IsDir():
			got[rel] = "dir"
		case e.Mode.Kind() == tree.ModeSymlink:
			target, err := st.Get(s.ctx, object.Blob, e.ID)
			if err != nil {
				return err
			}
			got[rel] = "-> " + string(target)
		default:
			sum, ok := blobs[e.ID]
			if !ok {
				h := sha256.New()
				if _, err := st.CopyBlob(s.ctx, h, e.ID); err != nil {
					return fmt.Errorf("%q: %w", e.Path, err)
				}
				sum = fmt.Sprintf("%x", h.Sum(nil))
				blobs[e.ID] = sum
			}
			got[rel] = fmt.Sprintf("%o %s", e.Mode&0o777, sum)
		}
	}
	if d := got.compare(a.Manifest); d != "" {
		return errors.New(d)
	}
	return nil
}
