package checkpoint

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

// How a statement fails.
const (
	refused    = "refused"        // it fails, and the connection is as good as before
	lost       = "lost"           // it is not done, and nothing reaches the database any more
	unanswered = "unanswered"     // it is done, the answer does not come, and nothing reaches the database any more
	cut        = "cut"            // it is done, the answer does not come, and another connection is good
	killBefore = "killed before"  // the process dies
	killAfter  = "killed after"   // it is done, and the process dies
	killStep   = "killed between" // the process dies at a step of ours
)

// faults makes the statement with a number fail.
type faults struct {
	mu    sync.Mutex
	mode  string
	left  int // statements until then; negative: it was
	off   bool
	query string // that failed
}

var errInjected = errors.New("injected fault")

// before is called before a statement, after after it.
func (f *faults) before(c *faultConn, query string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mode == "" {
		return nil
	}
	if f.off || c.bad {
		c.die()
		return errInjected
	}
	if f.left--; f.left != -1 {
		return nil
	}
	f.query = query
	switch f.mode {
	case refused:
		return errInjected
	case lost:
		f.off = true
		c.die()
		return errInjected
	case killBefore:
		kill()
	}
	return nil
}

func (f *faults) after(c *faultConn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left != -1 {
		return nil
	}
	f.left--
	switch f.mode {
	case unanswered:
		f.off = true
		c.die()
		return errInjected
	case cut:
		c.die()
		return errInjected
	case killAfter:
		kill()
	}
	return nil
}

// isDue reports whether the statement that runs is the one that fails.
func (f *faults) isDue() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode != "" && f.left == -1
}

func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // until it has come
}

// openFaulty opens a database whose statements fail.
func openFaulty(t testing.TB, name *database, f *faults) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&faultConnector{name.open(t).Driver(), name.dsn, f})
	t.Cleanup(func() { db.Close() })
	return db
}

type faultConnector struct {
	driver driver.Driver
	dsn    string
	faults *faults
}

func (c *faultConnector) Driver() driver.Driver { return c.driver }

func (c *faultConnector) Connect(context.Context) (driver.Conn, error) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	if c.faults.off {
		return nil, errInjected
	}
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &faultConn{fullConn: conn.(fullConn), faults: c.faults}, nil
}

// A fullConn is what both drivers have.
type fullConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

type faultConn struct {
	fullConn
	faults *faults
	bad    bool
}

func (c *faultConn) die() {
	if !c.bad {
		c.bad = true
		c.fullConn.Close()
	}
}

func (c *faultConn) Close() error {
	if c.bad {
		return nil
	}
	return c.fullConn.Close()
}

func (c *faultConn) IsValid() bool { return !c.bad }

func (c *faultConn) ResetSession(ctx context.Context) error {
	if c.bad {
		return driver.ErrBadConn
	}
	return c.fullConn.ResetSession(ctx)
}

func (c *faultConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *faultConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.faults.before(c, query); err != nil {
		return nil, err
	}
	r, err := c.fullConn.ExecContext(ctx, query, args)
	return r, errors.Join(err, c.faults.after(c))
}

func (c *faultConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.faults.before(c, query); err != nil {
		return nil, err
	}
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	if err == nil && c.faults.isDue() { // a connection is closed without them
		rows.Close()
	}
	if ferr := c.faults.after(c); ferr != nil {
		return nil, ferr
	}
	return rows, err
}

// A seesaw goes from the old state to the new one by a restore and back by its
// undo, and knows both states.
type seesaw struct {
	*runtime
	checkpoint string
	restored   string // the restore that led to the new state
	old, new   []string
}

func newSeesaw(t *testing.T, name *database) *seesaw {
	t.Helper()
	s := &seesaw{runtime: newRuntime(t, name)}
	s.checkpoint = s.threeTurns()[1].ID
	s.old = s.all()
	s.restore()
	s.new = s.all()
	s.undo()
	s.expect("after the undo", s.old, s.all())
	if slices.Equal(s.old, s.new) {
		t.Fatal("a restore changes nothing")
	}
	return s
}

func (s *seesaw) restore() {
	s.Helper()
	r, err := s.Restore(s.Context(), s.session, s.checkpoint, nil)
	if err != nil {
		s.Fatal(err)
	}
	s.restored = r.RestoreID
}

func (s *seesaw) undo() {
	s.Helper()
	if _, err := s.Undo(s.Context(), s.session, s.restored, nil); err != nil {
		s.Fatal(err)
	}
}

// isNew says in which state all is, and fails if that is neither.
func (s *seesaw) isNew(what string) bool {
	s.Helper()
	now := s.all()
	switch {
	case slices.Equal(now, s.new):
		return true
	case !slices.Equal(now, s.old):
		s.expect(what+": neither the old state nor the new one", s.old, now)
		s.FailNow()
	}
	return false
}

// newest returns the restore that was done last and not undone.
func (s *seesaw) newestRestore() (id string) {
	s.Helper()
	err := s.DB.queryRow(s.Context(), s.db, `SELECT id FROM checkpoint_restores WHERE state = 'done' AND undoes IS NULL ORDER BY seq DESC LIMIT 1`).Scan(&id)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// goTo brings all to a state.
func (s *seesaw) goTo(isNew bool) {
	s.Helper()
	switch {
	case isNew == s.isNew("before"):
	case isNew:
		s.restore()
	default:
		s.restored = s.newestRestore()
		s.undo()
	}
	if s.isNew("before") != isNew {
		s.Fatal("a restore or an undo has led nowhere")
	}
	if isNew {
		s.restored = s.newestRestore()
	}
}

// run runs a restore, or with undo the undo of the last one.
func (s *seesaw) run(d *DB, undo bool) error {
	if undo {
		_, err := d.Undo(s.Context(), s.session, s.restored, nil)
		return err
	}
	_, err := d.Restore(s.Context(), s.session, s.checkpoint, nil)
	return err
}

// settled checks what Recover makes of what was cut off. err is what was said
// then; nil, true if there was nobody to say it.
func (s *seesaw) settled(what string, undo bool, err error, nobody bool) {
	s.Helper()
	if err != nil && !errors.Is(err, ErrUndecided) && s.isNew(what) != undo {
		s.Errorf("%s: the new state holds, after %v", what, err)
	}
	if err == nil && !nobody && s.isNew(what) == undo {
		s.Errorf("%s: the old state holds, and there was no error", what)
	}
	undecided, isUndecided := errors.AsType[*UndecidedError](err)
	if isUndecided && len(what)%2 == 0 { // the others are left to Recover
		done, err := s.Outcome(s.Context(), s.session, undecided.RestoreID)
		if err != nil || done != (s.isNew(what) != undo) {
			s.Errorf("%s: outcome %v, %v, new: %v", what, done, err, s.isNew(what))
		}
	}
	list, rerr := s.Recover(s.Context())
	if rerr != nil {
		s.Fatalf("%s: %v", what, rerr)
	}
	now := s.isNew(what)
	if len(list) > 1 || len(list) == 1 && (list[0].Done != (now != undo) || list[0].FilesStay) {
		s.Errorf("%s: recovered %+v, new: %v", what, list, now)
	}
	if isUndecided {
		done, err := s.Outcome(s.Context(), s.session, undecided.RestoreID)
		if err != nil || done != (now != undo) {
			s.Errorf("%s: outcome %v, %v, new: %v", what, done, err, now)
		}
	}
	if n := s.count(`SELECT count(*) FROM checkpoint_restores WHERE state IN ('begun', 'taking back')`); n != 0 {
		s.Errorf("%s: %d restores are not settled", what, n)
	}
}

// stride returns how many statements a test goes on at a time.
func stride() int {
	switch {
	case *all:
		return 1
	case testing.Short():
		return 23
	}
	return 17
}

var all = flag.Bool("all", false, "let every statement fail, and the process die at each")

func TestFaults(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		f := new(faults)
		faulty, err := Open(t.Context(), openFaulty(t, name, f), name.dialect,
			&Options{Manager: s.manager, Reset: s.backend.Reset})
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{refused, lost, unanswered, cut} {
			for _, undo := range []bool{false, true} {
				for n := 0; ; n += stride() {
					s.goTo(undo)
					f.mode, f.left, f.off, f.query = mode, n, false, ""
					err := s.run(faulty, undo)
					fired := f.query != ""
					f.mode, f.off = "", false
					what := fmt.Sprintf("%s, undo %v, statement %d (%s)", mode, undo, n, firstLine(f.query))
					if !fired && err != nil {
						t.Fatalf("%s: %v without a fault", what, err)
					}
					s.settled(what, undo, err, false)
					if t.Failed() {
						t.FailNow()
					}
					if !fired {
						if n < 20 {
							t.Errorf("%s: only %d statements", mode, n)
						}
						break
					}
				}
			}
		}
	})
}

func TestFailingSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		for _, undo := range []bool{false, true} {
			for n := 0; ; n++ {
				for _, cause := range []string{"step", "backend"} {
					s.goTo(undo)
					left, at := n, ""
					s.step = func(step string) error {
						if left--; left != -1 || step == "settle" || step == "settled" {
							return nil
						}
						at = step
						if cause == "backend" {
							s.backend.err = errInjected
							return nil
						}
						return errInjected
					}
					err := s.run(s.DB, undo)
					s.step = func(string) error { return nil }
					s.backend.err = nil
					if at == "" && err == nil {
						if n < 4 {
							t.Errorf("only %d steps", n)
						}
						n = 1 << 30
						break
					}
					s.settled(fmt.Sprintf("%s fails at %s, undo %v", cause, at, undo), undo, err, false)
				}
				if n >= 1<<30 {
					break
				}
			}
		}
	})
}

// A child is what a process of its own is to do to a seesaw.
type child struct {
	Name                                database
	Driver, DSN                         string
	Dir, Stores                         string
	Chat, Session, Worktree, Checkpoint string
	Restored                            string
	Undo                                bool
	Mode                                string
	N                                   int
	Dialect                             Dialect
}

const childEnv = "CHECKPOINT_TEST_CHILD"

// TestChild is run by the tests that kill it.
func TestChild(t *testing.T) {
	text := os.Getenv(childEnv)
	if text == "" {
		t.Skip("for other tests")
	}
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	name := &database{dialect: c.Dialect, driver: c.Driver, dsn: c.DSN}
	f := new(faults)
	rt := &runtime{TB: t, db: openFaulty(t, name, f), name: name, dir: c.Dir, stores: c.Stores, backend: new(backend),
		chat: c.Chat, session: c.Session, worktree: c.Worktree}
	rt.reopen(rt.db)
	s := &seesaw{runtime: rt, checkpoint: c.Checkpoint, restored: c.Restored}
	if c.Mode == killStep {
		left := c.N
		rt.step = func(string) error {
			if left--; left == -1 {
				kill()
			}
			return nil
		}
	} else {
		f.mode, f.left = c.Mode, c.N
	}
	if err := s.run(rt.DB, c.Undo); err != nil {
		fmt.Println("CHILD:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// spawn starts a child.
func (s *seesaw) spawn(undo bool, mode string, n int) (*exec.Cmd, *bytes.Buffer) {
	s.Helper()
	b, err := json.Marshal(child{Driver: s.name.driver, DSN: s.name.dsn, Dialect: s.name.dialect, Dir: s.dir,
		Stores: s.stores,
		Chat:   s.chat, Session: s.session, Worktree: s.worktree, Checkpoint: s.checkpoint, Restored: s.restored,
		Undo: undo, Mode: mode, N: n})
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

func TestKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		for _, mode := range []string{killStep, killBefore, killAfter} {
			for _, undo := range []bool{false, true} {
				step := stride()
				if mode == killStep {
					step = 1
				}
				for n := 0; ; n += step {
					s.goTo(undo)
					cmd, out := s.spawn(undo, mode, n)
					err := cmd.Run()
					what := fmt.Sprintf("%s, undo %v, %d", mode, undo, n)
					if cmd.ProcessState.ExitCode() > 0 {
						t.Fatalf("%s: %v\n%s", what, err, out)
					}
					s.settled(what, undo, nil, err != nil)
					if err == nil {
						break
					}
				}
			}
		}
	})
}

// TestKilledAnywhere kills at a moment that nobody has chosen, as while files
// are written.
func TestKilledAnywhere(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 4
	}
	onBoth(t, func(t *testing.T, name *database) {
		s := newSeesaw(t, name)
		rnd := rand.New(rand.NewPCG(testseed.Of(t), 0))
		landed := 0
		for n := range rounds {
			undo := n%2 == 1
			s.goTo(undo)
			cmd, out := s.spawn(undo, "", 0)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(20+rnd.IntN(80)) * time.Millisecond)
			cmd.Process.Kill()
			err := cmd.Wait()
			if cmd.ProcessState.ExitCode() > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			if s.count(`SELECT count(*) FROM checkpoint_restores WHERE state = 'begun'`) > 0 {
				landed++
			}
			s.settled(fmt.Sprintf("round %d", n), undo, nil, err != nil)
		}
		t.Logf("%d of %d were cut off in the middle", landed, rounds)
	})
}
