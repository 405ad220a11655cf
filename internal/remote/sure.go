package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

// Sure is a [Backend] that asks another again where an answer was lost, until it knows. That
// an object exists is no answer by itself: the request that made it may have been its own, the
// answer to which was lost. So it reads the object and compares: if it has the bytes that were
// to be put there, they are there.
//
// An error of it that leaves something open says so, with the last cause.
type Sure struct {
	b        Backend
	patience time.Duration
	wait     func(context.Context, time.Duration) error

	mu      sync.Mutex // guards the rest
	retries int
	last    error
}

// NewSure returns a Backend that asks b again for so long; 0: two minutes.
func NewSure(b Backend, patience time.Duration) *Sure {
	if patience == 0 {
		patience = 2 * time.Minute
	}
	return &Sure{b: b, patience: patience, wait: sleep}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Retries returns how often something was asked again, and the error that was the reason last.
func (s *Sure) Retries() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retries, s.last
}

// errNoAnswer is what there was of a request before it was given up.
var errNoAnswer = errors.New("no answer")

// until calls try until its error leaves nothing open, or patience ends.
func (s *Sure) until(ctx context.Context, try func() error) error {
	pause, left := 50*time.Millisecond, s.patience
	before := errNoAnswer
	for {
		err := try()
		if !IsUnsure(err) {
			return err
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			before = err
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w (before: %w)", cause, before)
		}
		if left <= 0 {
			return fmt.Errorf("not known whether it was done, after %v: %w", s.patience, err)
		}
		s.mu.Lock()
		s.retries, s.last = s.retries+1, err
		s.mu.Unlock()
		// Many who were cut off at once are not to come back at once.
		d := min(pause/2+rand.N(pause/2), left)
		left -= d
		if werr := s.wait(ctx, d); werr != nil {
			return fmt.Errorf("%w (before: %w)", werr, before)
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// errWas says that there is an object of which it has to be found out whose it is.
var errWas = errors.New("exists, and is not known")

// Create implements [Backend]. The error matches ErrExists only if another's bytes are there.
func (s *Sure) Create(ctx context.Context, key string, data []byte) error {
	return s.until(ctx, func() error {
		err := s.b.Create(ctx, key, data)
		if err == nil || errors.Is(err, ErrRefused) {
			return err
		}
		got, gerr := s.b.Get(ctx, key, 0, -1)
		switch {
		case gerr == nil && bytes.Equal(got, data):
			return nil
		case gerr == nil:
			return fmt.Errorf("create %s: %w", key, ErrExists)
		case errors.Is(gerr, ErrNoKey) && errors.Is(err, ErrExists): // removed in between
			return fmt.Errorf("create %s: %w", key, errWas)
		case errors.Is(gerr, ErrNoKey): // again: what comes late of the first has the same bytes
			return err
		case errors.Is(gerr, ErrRefused):
			return gerr
		}
		return gerr
	})
}

// Overwrite implements [Backend].
func (s *Sure) Overwrite(ctx context.Context, key string, data []byte) error {
	return s.until(ctx, func() error { return s.b.Overwrite(ctx, key, data) })
}

// Get implements [Backend].
func (s *Sure) Get(ctx context.Context, key string, off, n int64) (b []byte, err error) {
	err = s.until(ctx, func() (err error) {
		b, err = s.b.Get(ctx, key, off, n)
		return err
	})
	return b, err
}

// Stat implements [Backend].
func (s *Sure) Stat(ctx context.Context, key string) (n int64, err error) {
	err = s.until(ctx, func() (err error) {
		n, err = s.b.Stat(ctx, key)
		return err
	})
	return n, err
}

// Delete implements [Backend].
func (s *Sure) Delete(ctx context.Context, key string) error {
	return s.until(ctx, func() error { return s.b.Delete(ctx, key) })
}

// List implements [Backend]. It goes on behind the last item if it was cut off.
func (s *Sure) List(ctx context.Context, prefix, after string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		done := false
		err := s.until(ctx, func() error {
			for item, err := range s.b.List(ctx, prefix, after) {
				if err != nil {
					return err
				}
				after = item.Key
				if !yield(item, nil) {
					done = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !done {
			yield(Item{}, err)
		}
	}
}
