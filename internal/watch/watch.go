// Package watch tells which names in a directory tree may have changed.
//
// It says too much rather than too little: whatever it cannot be sure of, it
// calls changed.
package watch

import "sync"

// Changes are the names below a directory that may have changed, or been made,
// or gone, as a tree. The nil *Changes has none.
type Changes struct {
	// the name itself: what is in the file, or its attributes; for a directory, its
	// attributes
	Touched bool
	Named   bool                // the name came or went
	Written bool                // a file that has, or had, the name was written, or its attributes were set
	During  bool                // Written, but only before the last Looked: perhaps before somebody looked at it
	Whole   bool                // the directory and all that is below it
	Names   map[string]*Changes // names in the directory that are touched, or lead to others; nil if Whole
}

// Of returns what has changed below a name.
func (c *Changes) Of(name string) *Changes {
	if c == nil {
		return nil
	}
	return c.Names[name]
}

// AnyNamed reports whether a name, or one below it, came or went.
func (c *Changes) AnyNamed() bool {
	if c == nil {
		return false
	}
	for _, below := range c.Names {
		if below.AnyNamed() {
			return true
		}
	}
	return c.Named
}

// Empty reports whether nothing has changed.
func (c *Changes) Empty() bool { return c == nil || !c.Touched && !c.Whole && len(c.Names) == 0 }

// Stats count what a watcher has been through.
type Stats struct {
	Directories int `json:"directories"` // that are watched
	// directories that could not be, say because the system allows no more watches
	Refused int64 `json:"refused"`
	Events  int64 `json:"events"`
	Lost    int64 `json:"lost"` // how often events were lost, or something else made all that is watched doubtful
}

// maxNames bounds a set: beyond, everything may have changed.
const maxNames = 1 << 17

// A set collects changes. The zero value is empty.
type set struct {
	mu    sync.Mutex // guards the rest
	root  *Changes
	names int
}

// whole notes that everything may have changed. The caller holds mu.
func (s *set) whole() { s.root, s.names = &Changes{Whole: true}, 0 }

// mark notes that the name at the end of a path may have changed, or with whole
// all below it. The path of the root is empty. The caller holds mu.
func (s *set) mark(path []string, whole bool) {
	if s.root == nil {
		s.root = new(Changes)
	}
	c := s.root
	for _, name := range path {
		if c.Whole {
			return
		}
		next := c.Names[name]
		if next == nil {
			if s.names++; s.names > maxNames {
				s.whole()
				return
			}
			if c.Names == nil {
				c.Names = make(map[string]*Changes)
			}
			next = new(Changes)
			c.Names[name] = next
		}
		c = next
	}
	c.Touched = true
	if whole {
		c.Whole, c.Names = true, nil
	}
}

// note notes more of a name that is marked. The caller holds mu.
func (s *set) note(path []string, named, written, during bool) {
	c := s.root
	for _, name := range path {
		c = c.Of(name)
	}
	if c != nil {
		c.Named = c.Named || named
		if written {
			c.During = during && (c.During || !c.Written)
			c.Written = true
		}
	}
}

// looked notes that all that is in the set happened before Looked.
func (c *Changes) looked() {
	if c != nil {
		c.During = c.Written
		for _, below := range c.Names {
			below.looked()
		}
	}
}

// add notes what another set has. The caller holds mu.
func (s *set) add(path []string, c *Changes) {
	if c.Empty() {
		return
	}
	if c.Touched || c.Whole {
		s.mark(path, c.Whole)
	}
	s.note(path, c.Named, c.Written, c.During)
	for name, below := range c.Names {
		s.add(append(path[:len(path):len(path)], name), below)
	}
}
