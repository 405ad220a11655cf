package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/boocode/filestore/manager"
)

// A span is what recording some snapshots took.
type span struct {
	Changed   changed       `json:"changed"`
	Snapshots int           `json:"snapshots"`
	Sessions  int           `json:"sessions"`
	Took      time.Duration `json:"took"`
	Median    time.Duration `json:"median"` // of the ends of the last thousand turns
	P99       time.Duration `json:"p99"`
	Opened    time.Duration `json:"opened"` // median of opening a session and its first look
}

// A recorder records turns in a process that stays.
type recorder struct {
	dir     string
	turns   int
	seed    uint64
	profile string
}

func (r *recorder) run(ctx context.Context, n int, stdout io.Writer) (err error) {
	if r.profile != "" {
		f, err := os.Create(r.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	root := filepath.Join(r.dir, "tree")
	w, err := newWorker(root, r.seed)
	if err != nil {
		return err
	}
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: storeRoot(r.dir)})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := e.Close(); err == nil {
			err = cerr
		}
	}()
	begin := time.Now()
	s := new(span)
	var ends, opens []time.Duration
	for s.Snapshots < n {
		s.Sessions++
		w.session()
		start := time.Now()
		m, err := manager.Open(ctx, root, &manager.Options{Engine: e,
			Session: fmt.Sprintf("s%d-%d", r.seed, s.Sessions)})
		if err != nil {
			return err
		}
		if _, err := m.Initialize(ctx); err != nil {
			return err
		}
		opens = append(opens, time.Since(start))
		for range min(n-s.Snapshots, r.turns/2+w.rng.IntN(r.turns+1)) {
			if _, err := m.OnTurnStart(ctx, nil); err != nil {
				return err
			}
			if err := w.turn(); err != nil {
				return err
			}
			start := time.Now()
			result, err := m.OnTurnEnd(ctx, nil)
			if err != nil {
				return err
			}
			ends = append(ends, time.Since(start))
			if result.Data != nil {
				s.Snapshots++
			}
		}
		if err := m.Close(); err != nil {
			return err
		}
	}
	s.Took, s.Changed = time.Since(begin), w.changed
	s.Median, s.P99 = quantile(ends[max(0, len(ends)-1000):], 0.5), quantile(ends[max(0, len(ends)-1000):], 0.99)
	s.Opened = quantile(opens, 0.5)
	return json.NewEncoder(stdout).Encode(s)
}

// quantile sorts a copy.
func quantile(all []time.Duration, q float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

func storeRoot(dir string) string { return filepath.Join(dir, "home", ".boo", "file-store") }
