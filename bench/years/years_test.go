package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRecord records a few snapshots of a small tree, twice the same.
func TestRecord(t *testing.T) {
	var spans [2]span
	for i := range spans {
		dir := t.TempDir()
		if err := makeTree(filepath.Join(dir, "tree"), 60, 1); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		r := &recorder{dir: dir, turns: 4, seed: 2}
		if err := r.run(t.Context(), 10, &out); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &spans[i]); err != nil {
			t.Fatal(err)
		}
		if stores, err := filepath.Glob(filepath.Join(storeRoot(dir), "*", "packs", "*.pack")); err != nil ||
			len(stores) == 0 {
			t.Errorf("no packs in %s: %v", storeRoot(dir), err)
		}
	}
	s := spans[0]
	if s.Snapshots != 10 || s.Sessions < 2 || s.Changed.Files < 10 || s.Changed.Edited == 0 ||
		s.Changed.Whole < s.Changed.Edited || s.P99 < s.Median {
		t.Errorf("%+v", s)
	}
	if s.Changed != spans[1].Changed || s.Sessions != spans[1].Sessions {
		t.Errorf("by one seed: %+v, then %+v", s, spans[1])
	}
}

func TestTable(t *testing.T) {
	m := &measurer{marks: []int{10}}
	m.set("one", "1")
	m.marks = append(m.marks, 100000)
	m.set("one", "2")
	m.set("two", ms(1234*time.Microsecond)+", "+size(3<<20))
	const want = `| after so many snapshots; of commands: time, processor time, memory | 10 | 100,000 |
|---|---|---|
| one | 1 | 2 |
| two |  | 1.2 ms, 3.0 MiB |
`
	if got := m.table(); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestQuantile(t *testing.T) {
	all := []time.Duration{5, 1, 4, 2, 3}
	if q := []time.Duration{quantile(all, 0), quantile(all, 0.5), quantile(all, 1)}; q[0] != 1 || q[1] != 3 ||
		q[2] != 5 || all[0] != 5 {
		t.Errorf("quantiles %v of %v", q, all)
	}
}

// TestWorker: what a worker says that it did is what is there.
func TestWorker(t *testing.T) {
	dir := t.TempDir()
	if err := makeTree(dir, 50, 3); err != nil {
		t.Fatal(err)
	}
	w, err := newWorker(dir, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.session()
		for range 20 {
			if err := w.turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range w.names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	again, err := newWorker(dir, 4)
	if err != nil || len(again.names) != len(w.names) {
		t.Errorf("%d files, want %d (%v)", len(again.names), len(w.names), err)
	}
}
