package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/boocode/filestore/cmd/snapctl/internal/identity"
	"github.com/boocode/filestore/cmd/snapctl/internal/s3"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/near"
	"github.com/boocode/filestore/internal/words"
)

// defaultRemote is what a remote is called that nobody has given a name.
const defaultRemote = "origin"

// backend returns what is at the URL of a remote: a bucket, or a directory. It returns the URL
// as it is to be remembered, without a way that depends on where the user is. A directory is made if it
// may be.
func (a *app) backend(text string, mayMake bool) (remote.Backend, string, error) {
	if dir, ok := strings.CutPrefix(text, "file://"); ok || !strings.Contains(text, "://") {
		if !ok {
			dir = a.path(text)
		}
		if mayMake { // its parent has to be there: a disk may not be mounted
			switch err := os.Mkdir(dir, 0o700); {
			case errors.Is(err, fs.ErrNotExist):
				return nil, "", refuse("the directory above it has to be there", "remote %q: %w", text, err)
			case err != nil && !errors.Is(err, fs.ErrExist):
				return nil, "", fmt.Errorf("remote %q: %w", text, err)
			}
		}
		d, err := remote.OpenDir(dir)
		if err != nil {
			return nil, "", refuse("a remote is s3://BUCKET/PREFIX, or a directory that is there", "remote %q: %w",
				text, err)
		}
		return d, "file://" + d.Root(), nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return nil, "", &failure{exitUsage, fmt.Errorf("remote %q: want s3://BUCKET/PREFIX or a directory", text), ""}
	}
	config, err := s3.FromEnv(s3.Env{Getenv: a.getenv, Home: a.getenv("HOME"), Run: runForCredentials})
	if err != nil {
		return nil, "", &failure{exitEnvironment, fmt.Errorf("remote %q: %w", text, err), ""}
	}
	config.Bucket, config.Prefix = u.Host, strings.Trim(u.Path, "/")
	b, err := s3.New(config)
	if err != nil {
		return nil, "", &failure{exitUsage, fmt.Errorf("remote %q: %w", text, err), ""}
	}
	return b, b.String(), nil
}

// runForCredentials runs what a profile of the user's names as credential_process.
func runForCredentials(ctx context.Context, command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return exec.CommandContext(ctx, "sh", "-c", command).Output()
}

// identityOf reads the identity that opens remotes: that of a flag, of BOO_IDENTITY, of what the
// store remembers, or the user's own.
func (a *app) identityOf(flag, remembered string) (*identity.Identity, error) {
	name := cmp.Or(flag, a.getenv("BOO_IDENTITY"), remembered)
	if flag != "" {
		name = a.path(flag)
	}
	own := name == ""
	if own {
		var err error
		if name, err = identity.Path(a.getenv); err != nil {
			return nil, &failure{exitEnvironment, err, "name one with --identity FILE or BOO_IDENTITY"}
		}
	}
	id, err := identity.Read(name)
	if errors.Is(err, fs.ErrNotExist) && own {
		return nil, refuse("bring the file from the machine where 'snapctl remote init' made it, or name one with "+
			"--identity FILE or BOO_IDENTITY", "there is no identity that could open the remote: %w", err)
	}
	if err != nil {
		return nil, &failure{exitEnvironment, err, ""}
	}
	return id, nil
}

// openRemote opens the remote at a URL, and returns the URL as it is to be remembered. c has the identity and
// the near cache that are remembered.
func (a *app) openRemote(ctx context.Context, text, flag string, c *exchange.Config) (*lines.Repo, string, error) {
	b, text, err := a.backend(text, false)
	if err != nil {
		return nil, "", err
	}
	d := &dropping{a.sure(b), func() *near.Cache { return a.near(c.Cache) }}
	repo, err := lines.Open(ctx, d, func(wrapped []byte) ([]byte, error) {
		id, err := a.identityOf(flag, c.Identity)
		if err != nil {
			return nil, err
		}
		return id.Unwrap(wrapped)
	})
	if err != nil {
		return nil, "", remoteError(text, err)
	}
	return repo, text, nil
}

// remotePatience is how long a remote is asked again that does not answer.
const remotePatience = time.Minute

func (a *app) sure(b remote.Backend) remote.Backend { return remote.NewSure(b, remotePatience) }

// remoteError says what went wrong with a remote, and what to do.
func remoteError(name string, err error) error {
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	wrapped := fmt.Errorf("remote %s: %w", words.Quote(name), err)
	switch {
	case errors.Is(err, lines.ErrNone):
		return refuse("'snapctl remote init URL' makes one", "%w", wrapped)
	case errors.Is(err, lines.ErrThere):
		return refuse("'snapctl remote add NAME URL' has this project use it", "%w", wrapped)
	case errors.Is(err, identity.ErrNotFor):
		return refuse("bring the identity of one for whom it is, and name it with --identity FILE or BOO_IDENTITY",
			"%w", wrapped)
	case errors.Is(err, lines.ErrNewer):
		return &failure{exitEnvironment, wrapped, "nothing was changed; a newer snapctl is needed"}
	case errors.Is(err, remote.ErrRefused):
		return &failure{exitEnvironment, wrapped, "the place refuses it; nothing that is here is lost, and the same " +
			"command goes on when that is mended"}
	}
	if p, ok := errors.AsType[*cas.PromisedError](err); ok && errors.Is(p.Err, exchange.ErrDropped) {
		return &failure{exitEnvironment, wrapped, "files may have it still: 'snapctl serve --stop' and then 'snapctl " +
			"snapshot' read all of them and store what they have; then run the same command again"}
	}
	if _, ok := errors.AsType[*lines.DamageError](err); ok {
		return &failure{exitDamage, wrapped, "'snapctl remote check' lists all that is damaged"}
	}
	if errors.Is(err, remote.ErrNoKey) { // it was listed, or is named
		return &failure{exitEnvironment, wrapped, "run the same command again: a machine of the place that has just " +
			"come back may not show all yet; if it stays so, 'snapctl remote check' lists what is missing"}
	}
	if remote.IsUnsure(err) && !errors.Is(err, context.Canceled) {
		return &failure{exitEnvironment, wrapped, ""}
	}
	return wrapped
}

// withRemotes opens the store of the project, which must exist, and calls fn.
func (a *app) withRemotes(ctx context.Context, fn func(*place) error) error {
	if err := a.mustExist(); err != nil {
		return err
	}
	loc, err := a.locate()
	if err != nil {
		return err
	}
	s, err := cas.Open(ctx, loc.Dir, &cas.Options{Root: loc.Project.Main, Logger: a.log})
	if err != nil {
		return err
	}
	return errors.Join(fn(&place{app: a, project: &loc.Project.Project, store: s}), s.Close())
}

// remoteNamed finds the remote that a command is about: the one that is named, or the only one.
func (p *place) remoteNamed(args []string) (*exchange.Config, error) {
	if len(args) > 0 {
		c, err := exchange.Find(p.store.FS(), args[0])
		if errors.Is(err, exchange.ErrUnknown) {
			return nil, refuse("'snapctl remote list' lists them", "%w", err)
		}
		return c, err
	}
	list, err := exchange.List(p.store.FS())
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, refuse("'snapctl remote add NAME URL' adds one", "this project has no remote")
	case len(list) > 1:
		return nil, &failure{exitUsage, errors.New("this project has several remotes"),
			"name one; 'snapctl remote list' lists them"}
	}
	return list[0], nil
}

// withRemote is withRemotes for a command about one remote: see remoteNamed.
func (a *app) withRemote(ctx context.Context, args []string, fn func(*place, *exchange.Config) error) error {
	return a.withRemotes(ctx, func(p *place) error {
		c, err := p.remoteNamed(args)
		if err != nil {
			return err
		}
		return fn(p, c)
	})
}

// withRepo is withRemote for a command that asks the remote.
func (a *app) withRepo(
	ctx context.Context, args []string, fn func(*place, *exchange.Config, *lines.Repo) error,
) error {
	return a.withRemote(ctx, args, func(p *place, c *exchange.Config) error {
		repo, err := p.openKnown(ctx, c)
		if err != nil {
			return err
		}
		return fn(p, c, repo)
	})
}

// openKnown opens a remote that the store knows. Another in its place is refused.
func (p *place) openKnown(ctx context.Context, c *exchange.Config) (*lines.Repo, error) {
	repo, _, err := p.app.openRemote(ctx, c.URL, "", c)
	if err == nil && repo.ID() != c.ID {
		err = refuse("nothing was changed; 'snapctl remote remove' and 'add' take the one that is there now",
			"remote %s: another remote is at %s than was added", words.Quote(c.Name), c.URL)
	}
	return repo, err
}

// fetcher returns what fetches contents that remotes have promised.
func (a *app) fetcher() cas.Fetcher {
	f := &exchange.Fetcher{Open: func(ctx context.Context, c *exchange.Config) (*lines.Repo, error) {
		if a.cloned != nil && a.cloned.ID() == c.ID {
			return a.cloned, nil
		}
		repo, err := (&place{app: a}).openKnown(ctx, c)
		if err == nil {
			a.useNear(repo, c.Cache)
		}
		return repo, err
	}}
	return f.Fetch
}
