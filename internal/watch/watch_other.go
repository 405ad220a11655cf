//go:build !linux

package watch

import "errors"

// A Watcher is something that this system does not have.
type Watcher struct{}

// New returns an error that matches [errors.ErrUnsupported].
func New(root string, limit int) (*Watcher, error) { return nil, errors.ErrUnsupported }

func (w *Watcher) Close() error                  { return nil }
func (w *Watcher) News() <-chan struct{}         { return nil }
func (w *Watcher) Add(path string, fd int) error { return errors.ErrUnsupported }
func (w *Watcher) Take() *Changes                { return &Changes{Whole: true} }
func (w *Watcher) Return(c *Changes)             {}
func (w *Watcher) Doubt()                        {}
func (w *Watcher) Looked()                       {}
func (w *Watcher) Stats() Stats                  { return Stats{} }
