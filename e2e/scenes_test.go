package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// A scene is what agents and a user do in a project. What the log has to say of it is
// recorded from outside meanwhile, and compared at the end: who changed what, and every
// byte of every state.
type scene struct {
	*actor
	was   disk     // when it was looked at last
	want  []moment // oldest first
	mu    sync.Mutex
	asked []disk // at each request to the model; guarded by mu
}

// A moment is a line of the log.
type moment struct {
	kind    string // as in the log: start, turn, offline
	changes []string
	state   disk
}

// scenes are played with each agent that can.
var scenes = []struct {
	name string
	play func(s *scene)
}{
	{"edits", playEdits},
	{"permission", playPermission},
	{"esc", playEsc},
	{"error", playError},
	{"subagent", playSubagent},
	{"resume", playResume},
	{"fork", playFork},
	{"two", playTwo},
	{"engine killed", playKilled},
	{"engine hung", playHung},
	{"store damaged", playDamaged},
}

// begin has the scene begin with files, given as name and content.
func (s *scene) begin(files ...string) {
	s.t.Helper()
	for i := 0; i < len(files); i += 2 {
		s.write(files[i], files[i+1])
	}
	s.was = diskOf(s.t, s.dir)
	s.want = []moment{{"start", nil, s.was}}
	s.model.onRequest(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, diskOf(s.t, s.dir))
	})
}

// looks records what others did since the last look, and what is there now.
func (s *scene) looks() {
	s.t.Helper()
	now := diskOf(s.t, s.dir)
	if changes := s.was.changes(now); len(changes) > 0 {
		s.want = append(s.want, moment{"offline", changes, now})
	}
	s.was = now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
}

// closes records that a turn has ended which did all that happened since the last look, but
// for what is contested.
func (s *scene) closes(contested ...string) {
	s.t.Helper()
	s.ended()
	s.records(contested...)
}

func (s *scene) records(contested ...string) {
	s.t.Helper()
	s.mu.Lock()
	states := append(s.asked, diskOf(s.t, s.dir))
	s.asked = nil
	s.mu.Unlock()
	if !s.perTurn {
		states = states[len(states)-1:]
	}
	for _, now := range states {
		changes := s.was.changes(now)
		for i, line := range changes {
			if slices.Contains(contested, line[2:]) {
				changes[i] = line + " (contested)"
			}
		}
		if len(changes) > 0 {
			s.want = append(s.want, moment{"turn", changes, now})
		}
		s.was = now
	}
}

// turn has the agent do steps, to the end, and nobody else is at work.
func (s *scene) turn(how, steps string) {
	s.t.Helper()
	s.looks()
	s.say(how, steps)
	s.closes()
	if s.want[len(s.want)-1].kind != "turn" {
		s.t.Fatalf("the turn has changed nothing: %s", steps)
	}
}

// logLine is a line of "snapctl log" about a moment: its kind, turn, revision and time.
var logLine = regexp.MustCompile(`^(\S+)(?: (\d+))? +(\S+) +\d{4}-\d\d-\d\d `)

// check compares the log of a session with what was recorded; of moments at which nothing
// changed it may tell or not.
func (s *scene) check(session string) {
	s.t.Helper()
	var got []moment
	var revs []string
	for line := range strings.Lines(s.snapctl("log", "--name-status", "--session", session)) {
		line = strings.TrimRight(line, "\n")
		if change, ok := strings.CutPrefix(line, "  "); ok {
			last := &got[len(got)-1]
			last.changes = append(last.changes, change)
		} else if m := logLine.FindStringSubmatch(line); m != nil {
			got, revs = append(got, moment{kind: m[1]}), append(revs, m[3])
		} else if !strings.HasPrefix(line, "session ") {
			s.t.Errorf("a line of the log: %q", line)
		}
	}
	tell := func(list []moment) string {
		var b strings.Builder
		for _, m := range list {
			slices.SortFunc(m.changes, func(a, b string) int { return cmp.Compare(a[2:], b[2:]) })
			if len(m.changes) > 0 || m.kind == "start" {
				fmt.Fprintf(&b, "%s: %s\n", m.kind, strings.Join(m.changes, ", "))
			}
		}
		return b.String()
	}
	slices.Reverse(got)
	slices.Reverse(revs)
	if d := gocmp.Diff(tell(s.want), tell(got)); d != "" {
		s.t.Errorf("log (-want +got):\n%s", d)
		return
	}
	i := 0
	for n, m := range got {
		if len(m.changes) == 0 && m.kind != "start" {
			continue
		}
		dir := filepath.Join(s.t.TempDir(), "state")
		s.snapctl("export", "--session", session, revs[n], dir)
		if d := s.want[i].state.changes(diskOf(s.t, dir)); len(d) > 0 {
			s.t.Errorf("the state of %s %q differs: %q", m.kind, m.changes, d)
		}
		i++
	}
	s.snapctl("check", "--read-data")
}

func playEdits(s *scene) {
	s.begin("old.txt", "old\n", "mv.txt", "to be moved\n", "sed.txt", "one\ntwo\n")
	gate := filepath.Join(s.home, "gate")
	s.turn(fresh, "write a.txt one ;; bash rm old.txt; mv mv.txt moved.txt; sed -i s/one/1/ sed.txt ;; "+
		// It is in a session of its own when the tool ends, or it may end with that.
		"bash setsid sh -c 'touch "+gate+".set; while [ ! -e "+gate+" ]; do sleep 0.1; done; echo late > late.txt' "+
		"> /dev/null 2>&1 & while [ ! -e "+gate+".set ]; do sleep 0.1; done ;; fin")
	s.put("gate", "")
	s.until("late.txt is written", func() bool { return s.is("late.txt", "late\n") })
	s.turn(goesOn, "bash mkdir d; mv moved.txt d/; ln -s d link; chmod 700 a.txt ;; write a.txt two ;; fin")
	s.check(s.session())
	s.snapctl("restore", "-y", "start")
	s.has("old.txt", "old\n", "mv.txt", "to be moved\n", "sed.txt", "one\ntwo\n", "a.txt", "-", "link", "-",
		"d/moved.txt", "-", "late.txt", "late\n")
	s.snapctl("undo")
	if d := s.was.changes(diskOf(s.t, s.dir)); len(d) > 0 {
		s.t.Errorf("undo leaves %q", d)
	}
}

// until waits until something is so.
func (s *scene) until(what string, ok func() bool) {
	s.t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			s.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// is reports whether a file of the project holds a text.
func (s *scene) is(name, content string) bool {
	b, err := os.ReadFile(s.path(name))
	return err == nil && string(b) == content
}

func playPermission(s *scene) {
	s.begin("own.txt", "0\n")
	tty := s.open(s.asking)
	ask := func(steps string) {
		s.looks()
		tty.enter(script + " " + steps)
		tty.sees(s.shows.asks)
	}
	ask("ask echo yes > yes.txt ;; first")
	s.write("meanwhile.txt", "counts as the tool's\n")
	tty.press("Enter")
	tty.sees("done: first")
	s.closes()
	for i, key := range s.shows.noes {
		ask("ask echo no > no.txt ;; second")
		doubt := fmt.Sprintf("doubt%d.txt", i)
		s.write(doubt, "the user's, or the tool's\n")
		tty.press(key)
		s.until("the dialog is gone", func() bool { return !strings.Contains(tty.shown(), s.shows.asks) })
		if s.tellsRefusal {
			s.looks()
		} else {
			s.records(doubt)
		}
	}
	ask("ask echo again > again.txt ;; third")
	tty.press("Enter")
	tty.sees("done: third")
	s.closes()
	s.has("no.txt", "-")
	s.check(s.session())
}

func playEsc(s *scene) {
	s.begin("old.txt", "old\n", "own.txt", "0\n")
	tty := s.open(s.tty)
	stop := func() {
		for range s.shows.escapes {
			tty.press("Escape")
		}
	}
	tty.enter(script + " bash echo half > half.txt; rm old.txt; sleep 20 ;; fin")
	s.until("the tool runs", func() bool { return s.is("half.txt", "half\n") && !s.is("old.txt", "old\n") })
	time.Sleep(time.Second)
	stop()
	tty.sees(s.shows.stopped)
	s.records()
	thinks, stopped := make(chan bool, 1), make(chan bool)
	release := sync.OnceFunc(func() { close(stopped) })
	s.t.Cleanup(release)
	s.model.onPause(func() {
		select {
		case thinks <- true:
		default: // it is asked again
		}
		<-stopped
	})
	tty.enter(script + " write before.txt x ;; pause ;; write never.txt x ;; fin")
	s.until("the model thinks", func() bool { return len(thinks) > 0 })
	s.records()
	stop()
	time.Sleep(time.Second)
	s.write("own.txt", "1\n")
	release()
	if s.late { // what it did before ends when the user goes on
		last := len(s.want) - 1
		turn := s.want[last]
		s.want = s.want[:last]
		s.looks()
		turn.state = s.was
		s.want = append(s.want, turn)
	} else {
		s.looks()
	}
	tty.enter(script + " write last.txt x ;; third")
	tty.sees("done: third")
	s.closes()
	s.has("never.txt", "-")
	s.check(s.session())
}

func playError(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt a ;; bash echo b > b.txt ;; fail")
	s.write("own.txt", "mine\n")
	s.turn(goesOn, "write c.txt c ;; fin")
	s.check(s.session())
	s.snapctl("restore", "-y", "@~1")
	s.has("a.txt", "a\n", "b.txt", "b\n", "c.txt", "-", "own.txt", "mine\n")
}

func playSubagent(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt a ;; task write sub.txt s &&& bash echo t > sub2.txt &&& bye ;; "+s.subagent+
		" write b.txt b ;; fin")
	s.has("sub.txt", "s\n", "sub2.txt", "t\n")
	s.check(s.session())
}

func playResume(s *scene) {
	s.begin("both.txt", "0\n")
	s.turn(fresh, "write a.txt a ;; bash echo agent >> both.txt ;; fin")
	s.write("own.txt", "mine\n")
	s.write("both.txt", "0\nagent\nmine\n")
	s.turn(goesOn, "write b.txt b ;; bash rm a.txt ;; fin")
	if n := strings.Count(s.snapctl("sessions"), "\n"); n != 1 {
		s.t.Errorf("%d sessions:\n%s", n, s.snapctl("sessions"))
	}
	s.check(s.session())
	s.part("restore", "-y", "start")
	s.has("a.txt", "-", "b.txt", "-", "own.txt", "mine\n", "both.txt", "0\nagent\nmine\n")
}

func playFork(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt a ;; fin")
	s.turn(goesOn, "write b.txt b ;; fin")
	original := slices.Clone(s.want)
	parent := s.session()
	if !s.inherits {
		s.want = []moment{{"start", nil, s.was}}
	}
	s.turn(forked, "write c.txt c ;; bash rm a.txt ;; fin")
	if s.session() == parent {
		s.t.Fatal("the fork has recorded nothing")
	}
	s.check(s.session())
	s.snapctl("restore", "-y", "--session", s.session(), "start")
	if s.inherits {
		s.has("a.txt", "-", "b.txt", "-", "c.txt", "-")
	} else {
		s.has("a.txt", "a\n", "b.txt", "b\n", "c.txt", "-")
	}
	s.snapctl("undo")
	s.want = original
	s.check(parent)
}

func playTwo(s *scene) {
	partner := makers[0]
	if s.maker == partner {
		partner = makers[1]
	}
	world := &world{t: s.t, model: newModel(s.t), home: s.home, dir: s.dir}
	other := &scene{actor: newActorIn(world, partner)}
	s.begin("shared.txt", "0\n")
	s.turn(fresh, "write a.txt a ;; fin")
	mine := s.session()
	other.begin()
	other.turn(fresh, "write b.txt b ;; bash echo other >> shared.txt ;; fin")
	others := s.session()
	// What a session has recorded is not told of again in others.
	s.was = diskOf(s.t, s.dir)
	s.turn(goesOn, "write c.txt c ;; fin")
	// Both at once: each writes when both tools run, and ends when both have written.
	s.looks()
	other.was = s.was
	var all sync.WaitGroup
	for _, one := range []struct {
		*scene
		name, next string
	}{{s, "1", "2"}, {other, "2", "1"}} {
		all.Go(func() {
			one.plays(goesOn,
				fmt.Sprintf("bash touch %[1]s/%[2]s; while [ ! -e %[1]s/%[3]s ]; do sleep 0.1; done; sleep 0.5; "+
					"echo x > %[2]s.txt; while [ ! -e %[3]s.txt ]; do sleep 0.1; done ;; fin", s.home,
					one.name, one.next))
		})
	}
	all.Wait()
	s.closes("1.txt", "2.txt")
	other.closes("1.txt", "2.txt")
	s.check(mine)
	other.check(others)
}

// engines sends a signal to the engine that records.
func (s *scene) engines(signal string) {
	found := false
	for _, pid := range s.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(args), "\x00")
		if words[0] == snapctl && (slices.Contains(words, "serve") || slices.Contains(words, "rpc")) {
			found = send(pid, signal) || found
		}
	}
	if !found {
		s.t.Errorf("no engine to be sent %v", signal)
	}
}

func playKilled(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt a ;; fin")
	if !s.child {
		s.engines("KILL")
	}
	s.write("own.txt", "mine\n")
	s.model.onPause(func() { s.engines("KILL") })
	s.turn(goesOn, "write b.txt b ;; pause ;; bash echo c > c.txt ;; fin")
	s.check(s.session())
}

func playHung(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt a ;; fin")
	s.model.onPause(func() { s.engines("STOP") })
	begun := time.Now()
	s.looks()
	// opencode writes its log a second late, and what is left at its end not at all.
	s.say(goesOn, "bash echo b > b.txt ;; pause ;; bash echo c > c.txt ;; write d.txt d ;; bash sleep 2 ;; fin")
	s.t.Logf("with a hung engine the turn takes %v", time.Since(begun).Round(100*time.Millisecond))
	if !s.child {
		s.engines("CONT")
	} else if told := s.told(s.actor); strings.Count(told, "stopped answering and was restarted") != 1 {
		s.t.Errorf("the user is to be told once that the engine was ended, which nothing else ends:\n%s", told)
	}
	s.closes()
	s.turn(goesOn, "write e.txt e ;; fin")
	s.check(s.session())
}

func playDamaged(s *scene) {
	s.begin()
	s.turn(fresh, "write a.txt 3kq9zv7xw1mf8 ;; fin")
	s.turn(goesOn, "write a.txt second ;; write b.txt b ;; fin")
	hurt := 0
	packs, err := filepath.Glob(filepath.Join(s.home, ".boo/file-store/*/packs/*.pack"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range packs {
		b, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		if i := strings.Index(string(b), "3kq9zv7xw1mf8"); i > 0 {
			b[i]++
			s.world.put(name, string(b))
			hurt++
		}
	}
	if hurt == 0 {
		s.t.Fatal("no pack holds the content")
	}
	s.turn(goesOn, "write c.txt c ;; fin")
	if out := s.ends(4, "check", "--read-data"); !strings.Contains(out, "payload does not match its checksum") {
		s.t.Errorf("check says\n%s", out)
	}
	s.part("restore", "-y", "@~2")
	s.has("a.txt", "second\n", "b.txt", "-", "c.txt", "-")
}

// TestScenes plays all scenes with all agents, and prints who played what. At least four
// agents must have played.
func TestScenes(t *testing.T) {
	needsNPM(t)
	results := map[string]string{}
	var notes []string
	played, tried := map[string]bool{}, 0
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			tried++
			for _, sc := range scenes {
				key := m.name + "/" + sc.name
				if why := m.cannot[sc.name]; why != "" {
					results[key] = "-"
					notes = append(notes, fmt.Sprintf("%s, %s: %s", m.name, sc.name, why))
					continue
				}
				results[key] = "not run"
				t.Run(sc.name, func(t *testing.T) {
					begun := time.Now()
					defer func() {
						results[key] = fmt.Sprintf("%.0f s", time.Since(begun).Seconds())
						if t.Failed() {
							results[key] = "FAILED"
						} else if t.Skipped() {
							results[key] = "SKIPPED"
						} else {
							played[strings.TrimSuffix(m.name, "-0")] = true
						}
					}()
					sc.play(&scene{actor: newActor(t, m)})
				})
			}
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s", "")
	for _, m := range makers {
		fmt.Fprintf(&b, "%-18s", m.name+" "+m.version)
	}
	for _, sc := range scenes {
		fmt.Fprintf(&b, "\n%-16s", sc.name)
		for _, m := range makers {
			fmt.Fprintf(&b, "%-18s", results[m.name+"/"+sc.name])
		}
	}
	t.Logf("\n%s\n%s", b.String(), strings.Join(notes, "\n"))
	if tried == len(makers) && len(played) < 4 { // -run may want less
		t.Errorf("only %d agents have run, want 4", len(played))
	}
}
