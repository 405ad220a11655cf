package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/near"
	"github.com/boocode/filestore/internal/words"
)

// nears are the near caches that this process uses, by directory. Also engines' goroutines ask for them.
type nears struct {
	mu   sync.Mutex // guards open
	open map[string]*near.Cache
}

// near returns the near cache in the directory of clone --cache, of BOO_CACHE, or that is remembered; nil if there is
// none, or it cannot be used, which is said once and is no error.
func (a *app) near(remembered string) *near.Cache {
	dir := cmp.Or(a.cache, a.getenv("BOO_CACHE"), remembered)
	if dir == "" {
		return nil
	}
	dir = a.path(dir)
	a.nears.mu.Lock()
	defer a.nears.mu.Unlock()
	if c, ok := a.nears.open[dir]; ok {
		return c
	}
	c, err := a.openNear(dir)
	if err != nil {
		a.warnNear(fmt.Errorf("cache %q: %w; it is not used", dir, err))
	}
	if a.nears.open == nil {
		a.nears.open = make(map[string]*near.Cache)
	}
	a.nears.open[dir] = c
	return c
}

func (a *app) openNear(dir string) (*near.Cache, error) {
	var limit int64
	if text := a.getenv("BOO_CACHE_SIZE"); text != "" {
		var err error
		if limit, err = parseQuantity(text); err != nil || limit < 0 {
			return nil, fmt.Errorf("BOO_CACHE_SIZE %q: want a number above 0, with a unit such as MB or GiB", text)
		}
	}
	return near.Open(dir, limit, a.warnNear)
}

// warnNear is called by any goroutine, so it leaves what is to be printed on stdout alone.
func (a *app) warnNear(err error) { fmt.Fprintf(a.stderr, "warning: %s\n", words.Plain(err.Error())) }

// useNear has a remote be read through the near cache, if there is one.
func (a *app) useNear(repo *lines.Repo, remembered string) {
	if c := a.near(remembered); c != nil {
		repo.UseNear(c)
	}
}

// dropping is a Backend of which what is removed is removed from the near cache, too.
type dropping struct {
	remote.Backend
	near func() *near.Cache
}

func (d *dropping) Delete(ctx context.Context, key string) error {
	err := d.Backend.Delete(ctx, key)
	if !strings.HasPrefix(key, lines.PackPrefix) {
		return err
	}
	if c := d.near(); c != nil {
		c.Drop(key, nil)
	}
	return err
}
