package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/boocode/filestore/client"
)

const (
	manyAgents = 20
	turnsEach  = 15
	thinking   = time.Second // between two turns of an agent, on average
)

// agents has twenty agents work at once, each in a git worktree of one repository and so all with one
// store and one engine, and tells how long each waits for the end of a turn that changed 10 files;
// beside that, one agent that is alone. All of them think as long between two turns.
func (l *lab) agents(ctx context.Context) error {
	t := l.tool(residentName)
	if t == nil || t.missing {
		return nil
	}
	dirs, err := l.worktrees(ctx, manyAgents)
	if err != nil {
		return err
	}
	defer func() {
		for _, dir := range dirs {
			discard(dir)
		}
	}()
	t.tree = dirs[0]
	if err := t.reset(ctx); err != nil {
		return err
	}
	if err := t.serve(ctx); err != nil {
		return err
	}
	defer t.stop()
	of := make([]*client.Session, len(dirs))
	for i, dir := range dirs {
		a := &client.Initialize{CWD: dir, SessionID: fmt.Sprint("agent", i)}
		if of[i], _, err = t.engine.client.Open(ctx, a); err != nil {
			return err
		}
	}
	for _, n := range []int{1, len(dirs)} {
		took, err := l.work(ctx, dirs[:n], of[:n])
		if err != nil {
			return err
		}
		slices.Sort(took)
		for _, q := range []struct {
			name string
			at   int
		}{{"p50", len(took) / 2}, {"p99", len(took) * 99 / 100}} {
			who := "an agent alone"
			if n > 1 {
				who = fmt.Sprintf("%d agents", n)
			}
			l.add(fmt.Sprintf("%s, %s of %d turns", who, q.name, len(took)), usage{Wall: took[q.at]})
		}
	}
	return nil
}

// worktrees makes a repository of the tree, with so many worktrees beside it.
func (l *lab) worktrees(ctx context.Context, n int) ([]string, error) {
	repo := filepath.Join(l.tmp, "agents", "repo")
	if err := os.MkdirAll(repo, 0o777); err != nil {
		return nil, err
	}
	if _, _, err := execute(ctx, "", nil, "cp", "-a", l.tree+"/.", repo); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "-A"}, {"commit", "-q", "-m", "all"}} {
		if _, _, err := git(ctx, repo, nil, args...); err != nil {
			return nil, err
		}
	}
	dirs := []string{repo}
	for i := 1; i < n; i++ {
		dir := filepath.Join(l.tmp, "agents", fmt.Sprint("tree", i))
		if _, _, err := git(ctx, repo, nil, "worktree", "add", "-q", "--detach", dir); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// work has an agent work in each directory until it has made its turns, and returns how long it waited
// for the end of each. The first turn of each, which looks at the whole tree, does not count.
func (l *lab) work(ctx context.Context, dirs []string, of []*client.Session) ([]time.Duration, error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		took []time.Duration
		errs []error
	)
	turns := turnsEach
	if len(dirs) == 1 {
		turns = 100
	}
	for i, dir := range dirs {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for turn := range turns + 1 {
				at := rng.IntN(max(1, len(l.names)-10))
				d, err := agentTurn(ctx, of[i], dir, turn, l.names[at:min(at+10, len(l.names))],
					time.Duration(rng.Int64N(int64(2*thinking))))
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else if turn > 0 {
					took = append(took, d)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}

// agentTurn is a turn: the agent changes files, thinks, and waits for the end.
func agentTurn(ctx context.Context, s *client.Session, dir string, turn int, names []string,
	think time.Duration) (time.Duration, error) {
	if _, err := s.OnTurnStart(ctx, nil); err != nil {
		return 0, err
	}
	if err := change(dir, names, fmt.Sprintf("turn %d of %s\n", turn, filepath.Base(dir))); err != nil {
		return 0, err
	}
	select {
	case <-time.After(think):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	began := time.Now()
	r, err := s.OnTurnEnd(ctx, nil)
	took := time.Since(began)
	if err == nil && r.Data == nil {
		err = errors.New("files changed, and it recorded nothing")
	}
	if err == nil {
		err = told(ctx, s, r)
	}
	return took, err
}
