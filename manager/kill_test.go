package manager

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/testseed"
)

var crashRounds = flag.Int("crash.rounds", 5, "how often TestKilled kills a session's process")

// TestMain runs a session or a restore instead of the tests if it is told to:
// see TestKilled and TestIncidentKilled.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SESSION_DIR"); dir != "" {
		if err := runSession(dir, os.Getenv("SESSION_STORES")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv("RESTORE_DIR"); dir != "" {
		at, err := strconv.ParseInt(os.Getenv("RESTORE_KILL"), 10, 64)
		if err == nil {
			err = runRestore(dir, os.Getenv("SESSION_STORES"), at)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runSession runs turns until it is killed, and says which it was told were
// recorded.
func runSession(dir, stores string) error {
	ctx, cancel := testContext()
	defer cancel()
	m, err := Open(ctx, dir, &Options{StoreRoot: stores, Session: "s"})
	if err != nil {
		return err
	}
	if _, err := m.Initialize(ctx); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := m.OnTurnStart(ctx, nil); err != nil {
			return err
		}
		name := fmt.Sprintf("file-%d-%d", os.Getpid(), i%7)
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "turn %d\n", i), 0o644); err != nil {
			return err
		}
		r, err := m.OnTurnEnd(ctx, nil)
		if err != nil {
			return err
		}
		fmt.Println(r.EntryID, r.Data.SnapshotTreeHash)
	}
}

// A process that runs a session is killed at random, over and over: each turn
// that was acknowledged is there, and the next process goes on.
func TestKilled(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(testseed.Of(t), 0))
	acked := make(map[string]string) // entry: tree
	interrupted := 0
	for round := range *crashRounds {
		known := len(acked)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SESSION_DIR="+b.dir, "SESSION_STORES="+b.stores)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Every second one may be killed before it begins a turn, the others
		// only after they ended one, however slow the machine is.
		delay := time.Duration(10+rng.IntN(150)) * time.Millisecond
		patience := delay
		if round%2 == 0 {
			patience = time.Minute
		}
		kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			entry, tree, ok := strings.Cut(lines.Text(), " ")
			if !ok || len(tree) != 64 {
				continue // the last line, cut off
			}
			if round%2 == 0 && len(acked) == known {
				kill.Reset(delay)
			}
			acked[entry] = tree
		}
		cmd.Wait()
		byItself := kill.Stop()
		if byItself || runtime.GOOS != "windows" && cmd.ProcessState.ExitCode() == 1 { // where a kill is a 1
			t.Fatalf("round %d: the session ended by itself: %v", round, cmd.ProcessState)
		}
	}
	m := b.open("s")
	b.start(m)
	b.write("last", "last")
	b.end(m)
	steps := make(map[string]string)
	turns := -1
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if mo.Kind == history.KindStep {
			steps[mo.EntryID] = mo.Snapshot.Tree.String()
			if turns >= 0 && mo.TurnIndex >= turns {
				t.Errorf("turn %d comes before turn %d", mo.TurnIndex, turns)
			}
			turns = mo.TurnIndex
		}
		if mo.Interrupted {
			interrupted++
		}
	}
	for entry, tree := range acked {
		if steps[entry] != tree {
			t.Errorf("turn %s was acknowledged with tree %s, and has %q", entry, tree, steps[entry])
		}
	}
	t.Logf("%d kills, %d turns acknowledged, %d on record, %d interrupted",
		*crashRounds, len(acked), len(steps), interrupted)
	if len(acked) == 0 {
		t.Error("no turn was acknowledged: nothing was tested")
	}
}
