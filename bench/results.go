package main

import (
	"encoding/json"
	"os"
	"slices"
	"time"
)

// results is all that a run of bench has found out, as it is written to a file.
type results struct {
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Memory   string            `json:"memory"`
	System   string            `json:"system"`
	Disk     string            `json:"disk"` // the file system of everything that is made
	Commit   string            `json:"commit"`
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions"` // by contender
	Runs     int               `json:"runs"`     // asked for
	Seed     uint64            `json:"seed"`
	Trees    []*measuredTree   `json:"trees"`
	Rows     []*row            `json:"rows"`
	Notes    []string          `json:"notes"`
}

type measuredTree struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// A row is all runs of one contender in one part on one tree: times, or sizes.
type row struct {
	Tree      string  `json:"tree"`
	Part      string  `json:"part"`
	Contender string  `json:"contender"`
	Runs      []usage `json:"runs,omitempty"`
	Bytes     []int64 `json:"bytes,omitempty"`
}

// row returns the row of a contender, which it adds if it is not there.
func (r *results) row(tree, part, contender string) *row {
	if found := r.find(tree, part, contender); found != nil {
		return found
	}
	added := &row{Tree: tree, Part: part, Contender: contender}
	r.Rows = append(r.Rows, added)
	return added
}

// find returns the row of a contender; nil: it has none.
func (r *results) find(tree, part, contender string) *row {
	for _, row := range r.Rows {
		if row.Tree == tree && row.Part == part && row.Contender == contender {
			return row
		}
	}
	return nil
}

func (r *results) tree(name string) *measuredTree {
	for _, t := range r.Trees {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (r *results) write(name string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o666)
}

func readResults(name string) (*results, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(results)
	return r, json.Unmarshal(data, r)
}

// values returns the wall times in nanoseconds, or the sizes.
func (r *row) values() []int64 {
	if r == nil {
		return nil
	}
	all := slices.Clone(r.Bytes)
	for _, u := range r.Runs {
		all = append(all, int64(u.Wall))
	}
	return all
}

// text prints one of values.
func (r *row) text(n int64) string {
	if r.Bytes != nil {
		return size(n)
	}
	return seconds(time.Duration(n))
}

// peak returns the most memory that a run has had; 0: unknown.
func (r *row) peak() (most int64) {
	for _, u := range r.Runs {
		most = max(most, u.RSS)
	}
	return most
}

// median returns the middle of values, or the mean of the two in the middle.
// It is 0 for none.
func median[T ~int64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
