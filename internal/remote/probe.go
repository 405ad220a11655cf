package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// A Finding is what [Probe] has found out of one thing that a Backend has to do.
type Finding struct {
	What string `json:"what"`          // for people
	Err  string `json:"err,omitempty"` // what it does instead; "": it does it
}

// Probe finds out whether a place does what a [Backend] has to do. It believes no name and no
// version, but tries: that of several who create one object one is the first, that the object
// has that one's bytes then, and that everybody sees at once what was done. It puts some
// hundred small objects below a prefix, and removes them.
//
// The error says that it could not be tried.
func Probe(ctx context.Context, b Backend, prefix string) ([]Finding, error) {
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	p := &probe{ctx: ctx, b: b, at: strings.TrimSuffix(prefix, "/") + "/" + hex.EncodeToString(random[:]) + "/"}
	defer p.clearUp(context.WithoutCancel(ctx))
	for _, t := range []struct {
		what string
		try  func() (string, error)
	}{
		{"an object is there when it was put", p.putAndGet},
		{"an object that is there is not replaced", p.refuses},
		{"of several who create one object, one is the first", p.race},
		{"a list has all that was put", p.lists},
		{"what was removed is gone", p.deletes},
		{"a part of an object can be read", p.ranges},
	} {
		wrong, err := t.try()
		if err != nil {
			return p.found, fmt.Errorf("probe: %s: %w", t.what, err)
		}
		p.found = append(p.found, Finding{t.what, wrong})
	}
	return p.found, nil
}

type probe struct {
	ctx   context.Context
	b     Backend
	at    string
	found []Finding

	mu   sync.Mutex // guards keys
	keys []string
}

func (p *probe) key(format string, args ...any) string {
	k := p.at + fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, k)
	return k
}

func (p *probe) clearUp(ctx context.Context) {
	for _, k := range p.keys {
		p.b.Delete(ctx, k) // what stays is small, and below a prefix of its own
	}
}

func (p *probe) putAndGet() (string, error) {
	for i := range 20 {
		k, want := p.key("get-%d", i), fmt.Appendf(nil, "object %d", i)
		if _, err := p.b.Get(p.ctx, k, 0, -1); !errors.Is(err, ErrNoKey) { // some remember that
			return "an object is said to be there that is not", err
		}
		if err := p.b.Create(p.ctx, k, want); err != nil {
			return "", err
		}
		got, err := p.b.Get(p.ctx, k, 0, -1)
		if errors.Is(err, ErrNoKey) {
			return "it may be seen only later", nil
		}
		if err != nil || !bytes.Equal(got, want) {
			return "other bytes are there", err
		}
	}
	return "", nil
}

func (p *probe) refuses() (string, error) {
	k := p.key("refuse")
	if err := p.b.Create(p.ctx, k, []byte("first")); err != nil {
		return "", err
	}
	err := p.b.Create(p.ctx, k, []byte("other"))
	got, gerr := p.b.Get(p.ctx, k, 0, -1)
	switch {
	case gerr != nil:
		return "", gerr
	case string(got) != "first":
		return "it is: the condition If-None-Match is not heeded", nil
	case err == nil:
		return "whoever tries is told that it was", nil
	case !errors.Is(err, ErrExists):
		return "", err
	}
	return "", nil
}

// How often, and by how many, a race is run.
const probeRounds, probeWriters = 10, 12

func (p *probe) race() (string, error) {
	for round := range probeRounds {
		k := p.key("race-%d", round)
		var wg sync.WaitGroup
		errs := make([]error, probeWriters)
		for i := range errs {
			wg.Go(func() { errs[i] = p.b.Create(p.ctx, k, fmt.Appendf(nil, "writer %d", i)) })
		}
		wg.Wait()
		got, err := p.b.Get(p.ctx, k, 0, -1)
		if err != nil {
			return "", err
		}
		first, unsure := 0, false
		for i, err := range errs {
			switch {
			case err == nil && string(got) != fmt.Sprintf("writer %d", i):
				return "one is told that it was the first, and another's bytes are there", nil
			case err == nil:
				first++
			case IsUnsure(err): // of which it is not known
				unsure = true
			case !errors.Is(err, ErrExists):
				return "", err
			}
		}
		if first > 1 || first == 0 && !unsure {
			return fmt.Sprintf("%d of %d are told so", first, probeWriters), nil
		}
	}
	return "", nil
}

func (p *probe) lists() (string, error) {
	for i := range 30 {
		k := p.key("list/%08d", i)
		if err := p.b.Create(p.ctx, k, []byte("x")); err != nil {
			return "", err
		}
		n, last := 0, ""
		for item, err := range p.b.List(p.ctx, p.at+"list/", "") {
			if err != nil {
				return "", err
			}
			if item.Key <= last || !strings.HasPrefix(item.Key, p.at+"list/") || item.Size != 1 {
				return fmt.Sprintf("it has %q behind %q", item.Key, last), nil
			}
			n, last = n+1, item.Key
		}
		if n != i+1 {
			return fmt.Sprintf("it has %d of %d: it may be seen only later", n, i+1), nil
		}
	}
	n := 0
	for _, err := range p.b.List(p.ctx, p.at+"list/", p.at+"list/00000009") {
		if err != nil {
			return "", err
		}
		n++
	}
	if n != 20 {
		return fmt.Sprintf("it has %d behind the tenth of 30", n), nil
	}
	return "", nil
}

func (p *probe) deletes() (string, error) {
	k := p.key("delete")
	if err := p.b.Create(p.ctx, k, []byte("x")); err != nil {
		return "", err
	}
	for range 2 { // what is not there can be removed, too
		if err := p.b.Delete(p.ctx, k); err != nil {
			return "", err
		}
	}
	if _, err := p.b.Get(p.ctx, k, 0, -1); !errors.Is(err, ErrNoKey) {
		return "it can be read", err
	}
	if err := p.b.Create(p.ctx, k, []byte("y")); err != nil {
		return "", err
	}
	if err := p.b.Overwrite(p.ctx, k, []byte("z")); err != nil {
		return "", err
	}
	if got, err := p.b.Get(p.ctx, k, 0, -1); err != nil || string(got) != "z" {
		return "what was overwritten can be read", err
	}
	return "", nil
}

func (p *probe) ranges() (string, error) {
	k, data := p.key("range"), make([]byte, 3<<20)
	rand.Read(data)
	if err := p.b.Create(p.ctx, k, data); err != nil {
		return "", err
	}
	for _, r := range [][2]int{{0, 1}, {1<<20 - 1, 2}, {100, 2 << 20}, {3<<20 - 1, 1}, {3<<20 - 5, 100}} {
		got, err := p.b.Get(p.ctx, k, int64(r[0]), int64(r[1]))
		if err != nil {
			return "", err
		}
		if !bytes.Equal(got, data[r[0]:min(r[0]+r[1], len(data))]) {
			return fmt.Sprintf("%d bytes at %d are others", r[1], r[0]), nil
		}
	}
	if n, err := p.b.Stat(p.ctx, k); err != nil || n != int64(len(data)) {
		return fmt.Sprintf("its length is said to be %d, not %d", n, len(data)), err
	}
	return "", nil
}
