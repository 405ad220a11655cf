package remotetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/boocode/filestore/internal/remote"
)

// ErrLost is the error of an answer that was lost.
var ErrLost = errors.New("connection reset by peer")

// ErrKilled is the error of everything once Faulty was told to stop.
var ErrKilled = fmt.Errorf("%w: killed", remote.ErrRefused)

// Faulty is a [remote.Backend] whose requests go wrong: in each of the ways with a chance in
// a thousand.
type Faulty struct {
	remote.Backend

	Drop   int // it is done, and the answer is lost
	Lose   int // it is not done, and there is no answer
	Twice  int // it is done twice, and the second answer is given
	Ghost  int // a copy of a Create comes some requests later
	Status int // it is not done, and the answer says: try again

	// Stop has all requests fail from that many on, the first of them done but for its
	// answer if Done. 0: never.
	Stop int
	Done bool

	mu       sync.Mutex // guards the rest
	random   *rand.Rand
	Requests int // so far
	Faults   int
	ghosts   []func()
}

// NewFaulty returns a Faulty that chooses by a seed.
func NewFaulty(b remote.Backend, seed uint64) *Faulty {
	return &Faulty{Backend: b, random: rand.New(rand.NewPCG(seed, 31))}
}

// do does a request, or what becomes of it.
func (f *Faulty) do(ghost bool, request func() error) error {
	f.mu.Lock()
	f.Requests++
	n, how := f.Requests, f.random.IntN(1000)
	var late []func()
	if len(f.ghosts) > 0 && f.random.IntN(4) == 0 {
		i := f.random.IntN(len(f.ghosts))
		late = append(late, f.ghosts[i])
		f.ghosts = append(f.ghosts[:i:i], f.ghosts[i+1:]...)
	}
	in := func(chance int) bool {
		how -= chance
		hit := how < 0 && how >= -chance
		if hit {
			f.Faults++
		}
		return hit
	}
	drop, lose, twice := in(f.Drop), in(f.Lose), in(f.Twice)
	again, status := in(f.Ghost), in(f.Status)
	if again && ghost {
		f.ghosts = append(f.ghosts, func() { request() })
	}
	stopped := f.Stop > 0 && n >= f.Stop
	f.mu.Unlock()
	for _, fn := range late {
		fn()
	}
	switch {
	case stopped && n == f.Stop && f.Done:
		request()
		return ErrKilled
	case stopped:
		return ErrKilled
	case drop:
		request()
		return ErrLost
	case lose:
		return ErrLost
	case twice:
		request()
	case status:
		return errors.New("409 ConditionalRequestConflict")
	}
	return request()
}

// Flush has all copies come that are still under way.
func (f *Faulty) Flush() {
	f.mu.Lock()
	ghosts := f.ghosts
	f.ghosts = nil
	f.mu.Unlock()
	for _, fn := range ghosts {
		fn()
	}
}

// Create implements [remote.Backend].
func (f *Faulty) Create(ctx context.Context, key string, data []byte) error {
	later := context.WithoutCancel(ctx)
	return f.do(true, func() error { return f.Backend.Create(later, key, data) })
}

// Overwrite implements [remote.Backend].
func (f *Faulty) Overwrite(ctx context.Context, key string, data []byte) error {
	return f.do(false, func() error { return f.Backend.Overwrite(ctx, key, data) })
}

// Get implements [remote.Backend].
func (f *Faulty) Get(ctx context.Context, key string, off, n int64) (b []byte, err error) {
	err = f.do(false, func() (err error) {
		b, err = f.Backend.Get(ctx, key, off, n)
		return err
	})
	return b, err
}

// Stat implements [remote.Backend].
func (f *Faulty) Stat(ctx context.Context, key string) (n int64, err error) {
	err = f.do(false, func() (err error) {
		n, err = f.Backend.Stat(ctx, key)
		return err
	})
	return n, err
}

// Delete implements [remote.Backend].
func (f *Faulty) Delete(ctx context.Context, key string) error {
	return f.do(false, func() error { return f.Backend.Delete(ctx, key) })
}

// List implements [remote.Backend]. It may be cut off in the middle.
func (f *Faulty) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	return func(yield func(remote.Item, error) bool) {
		var items []remote.Item
		err := f.do(false, func() error {
			items = nil
			for item, err := range f.Backend.List(ctx, prefix, after) {
				if err != nil {
					return err
				}
				items = append(items, item)
			}
			return nil
		})
		if err != nil {
			items = items[:len(items)/2]
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(remote.Item{}, err)
		}
	}
}

// A Liar is a [remote.Backend] that is not good enough.
type Liar struct {
	remote.Backend
	Overwrites bool // Create replaces what is there, as a server does that ignores a condition
	StaleLists bool // the newest object of a list is missing
	Hides      bool // what was put is not to be read at first
	Claims     bool // Create says that it was done

	mu     sync.Mutex // guards hidden
	hidden map[string]bool
}

// Create implements [remote.Backend].
func (l *Liar) Create(ctx context.Context, key string, data []byte) error {
	if l.Overwrites {
		return l.Backend.Overwrite(ctx, key, data)
	}
	l.mu.Lock()
	if l.hidden == nil {
		l.hidden = make(map[string]bool)
	}
	l.hidden[key] = l.Hides
	l.mu.Unlock()
	if err := l.Backend.Create(ctx, key, data); !l.Claims {
		return err
	}
	return nil
}

// Get implements [remote.Backend].
func (l *Liar) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	l.mu.Lock()
	hidden := l.hidden[key]
	delete(l.hidden, key)
	l.mu.Unlock()
	if hidden {
		return nil, remote.ErrNoKey
	}
	return l.Backend.Get(ctx, key, off, n)
}

// List implements [remote.Backend].
func (l *Liar) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	return func(yield func(remote.Item, error) bool) {
		var items []remote.Item
		for item, err := range l.Backend.List(ctx, prefix, after) {
			if err != nil {
				yield(item, err)
				return
			}
			items = append(items, item)
		}
		if l.StaleLists && len(items) > 0 {
			items = items[:len(items)-1]
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
