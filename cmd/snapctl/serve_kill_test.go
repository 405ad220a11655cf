//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

// TestServeKilled kills a resident engine at random points, while two clients
// record turns and restore. Every turn that it had acknowledged comes back, a
// file holds what it held before a restore or after it, and the CLI goes on.
func TestServeKilled(t *testing.T) {
	r := newRunner(t)
	project, err := capture.FindProject(r.project)
	if err != nil {
		t.Fatal(err)
	}
	storeDir := filepath.Join(r.home, ".boo", "file-store", project.Hash())
	acked := make(map[string]string) // tree → state of the session's files
	var mu sync.Mutex                // guards acked
	rounds := *crashRounds
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		serve := r.command("serve", "--quiet")
		var dead atomic.Bool
		answered := make(chan struct{})
		answer := sync.OnceFunc(func() { close(answered) })
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		for c := range 2 {
			clients.Go(func() {
				for {
					conn, err := client.Dial(t.Context(), storeDir)
					if err == nil {
						r.session(conn, fmt.Sprint("s", c), round, func(hash, state string) {
							mu.Lock()
							defer mu.Unlock()
							acked[hash] = state
							answer()
						})
						conn.Close()
						return
					}
					if dead.Load() {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		if round%2 == 0 { // in the middle of turns; else also while it starts
			select {
			case <-answered:
			case <-time.After(time.Minute):
				t.Fatal("the engine acknowledged no turn in a minute")
			}
		}
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		serve.Process.Kill()
		dead.Store(true)
		clients.Wait()
		serve.Wait()
		if rand.IntN(2) == 0 {
			r.must("--session", "s0", "snapshot") // finishes what was cut off
		}
	}
	r.must("--session", "s0", "snapshot")
	r.must("check", "--read-data")
	for hash, want := range acked {
		dir := filepath.Join(t.TempDir(), "out")
		r.must("export", hash, dir)
		name := want[:2]
		if got := name + r.state(filepath.Join(dir, name)); got != want {
			t.Errorf("turn %s comes back as\n%s\nwas\n%s", hash, got, want)
		}
	}
	if len(acked) == 0 {
		t.Error("no turn was acknowledged")
	}
	t.Logf("%d turns acknowledged in %d lives", len(acked), rounds)
}

// TestDetachWaits: who starts an engine waits for one that is coming to an end,
// and hears why, if none can be started.
func TestDetachWaits(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	r.must("snapshot")
	project, err := capture.FindProject(r.project)
	if err != nil {
		t.Fatal(err)
	}
	storeDir := filepath.Join(r.home, ".boo", "file-store", project.Hash())
	ending, err := vfs.OS(storeDir).OpenFile("locks/serve", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := ending.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatalf("lock: %v, %v", ok, err)
	}
	time.AfterFunc(300*time.Millisecond, func() { ending.Close() })
	r.must("serve", "--detach")
	r.must("serve", "--stop")

	if err := os.WriteFile(filepath.Join(storeDir, "FORMAT"), []byte("of another time"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, herr := r.command("serve", "--quiet").CombinedOutput()
	there, terr := r.command("serve", "--detach").CombinedOutput()
	if herr == nil || terr == nil || herr.Error() != terr.Error() || string(here) != string(there) {
		t.Errorf("serve says %q, %v\nserve --detach says %q, %v", here, herr, there, terr)
	}
}

// session records turns of one session, in a directory of its own, until the
// engine dies.
func (r *runner) session(c *client.Client, id string, round int, ack func(hash, state string)) {
	ctx := context.Background()
	s, _, err := c.Open(ctx, &client.Initialize{CWD: r.project, SessionID: id, OwnLog: true})
	if err != nil {
		return
	}
	dir := filepath.Join(r.project, id)
	os.MkdirAll(dir, 0o755)
	for turn := 0; ; turn++ {
		if _, err := s.OnTurnStart(ctx, nil); err != nil {
			return
		}
		for i := range 5 {
			name := filepath.Join(dir, fmt.Sprint("f", i))
			if err := os.WriteFile(name, fmt.Appendf(nil, "%d %d %d", round, turn, i), 0o644); err != nil {
				r.t.Error(err)
			}
		}
		if s.Claim(ctx, id) != nil {
			return
		}
		end, err := s.OnTurnEnd(ctx, nil)
		if err != nil {
			return
		}
		ack(end.SnapshotTreeHash.String(), id+r.state(dir))
		if turn%5 == 4 {
			if err := s.Call(ctx, "restore", &manager.RestoreOptions{Target: "@~2", Force: true}, nil); err != nil {
				if _, ok := err.(*client.Error); ok {
					b, _ := json.Marshal(err)
					r.t.Errorf("restore: %v %s", err, b)
				}
				return
			}
		}
	}
}
