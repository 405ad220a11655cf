package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// Of what was mistyped, or is called otherwise elsewhere, it is said what may be meant, if that
// is there.

// hintNear adds to the error of a REV that is unknown which one may be meant.
func (p *place) hintNear(ctx context.Context, text string, err error) error {
	if !errors.Is(err, manager.ErrUnknown) || p.app.areThere([]string{text}) {
		return err
	}
	near := p.nearRev(ctx, text)
	if near == "" {
		return err
	}
	return &failure{exitRefused, err,
		fmt.Sprintf("did you mean '%s'? 'snapctl log' lists snapshots; see 'snapctl help revs'", near)}
}

// hintNearOf is hintNear for the error of what was done with several REVs.
func (p *place) hintNearOf(ctx context.Context, revs []string, err error) error {
	if !errors.Is(err, manager.ErrUnknown) {
		return err
	}
	for _, rev := range revs {
		if _, rerr := p.m.Resolve(ctx, rev); errors.Is(rerr, manager.ErrUnknown) {
			return p.hintNear(ctx, rev, err)
		}
	}
	return err
}

// nearRev returns a revision that is there and may be meant by one that is not; "": nothing is much
// like it.
func (p *place) nearRev(ctx context.Context, text string) string {
	for _, rev := range spellings(text) {
		if p.chooseSession(ctx) != nil {
			return ""
		}
		if _, err := p.m.Resolve(ctx, rev); err == nil {
			return rev
		}
	}
	list, err := inside.Of(p.m).Tags(ctx)
	if err != nil || len(text) < 3 {
		return ""
	}
	labels := make([]string, len(list))
	for i, s := range list {
		if labels[i] = s.Label; strings.EqualFold(s.Label, text) {
			return s.Label
		}
	}
	return nearest(text, labels)
}

// spellings returns revisions as they are written here that a text may stand for.
func spellings(text string) (revs []string) {
	kind, rest, isKind := strings.Cut(text, ":")
	switch near := nearest(strings.ToLower(kind), []string{"turn", "look"}); {
	case isKind && near != "":
		return []string{near + ":" + strings.TrimSpace(rest)}
	case isKind:
		return nil
	}
	for _, prefix := range []string{"turn", "t", ""} {
		digits, ok := strings.CutPrefix(strings.ToLower(text), prefix)
		digits = strings.TrimLeft(digits, " -#")
		if ok && digits != "" && len(digits) < 10 && strings.Trim(digits, "0123456789") == "" {
			return []string{"turn:" + digits}
		}
	}
	back := text
	for _, name := range []string{"HEAD", "head", "@"} { // git's and jj's
		if rest, ok := strings.CutPrefix(text, name); ok {
			back = "@" + rest
			break
		}
	}
	if back = strings.ReplaceAll(strings.ReplaceAll(back, "^", "~"), "-", "~"); back != text && back[0] == '@' {
		if rest := strings.TrimLeft(back[1:], "~"); rest == "" && len(back) > 2 {
			back = fmt.Sprintf("@~%d", len(back)-1)
		}
		return []string{back}
	}
	if digits, ok := strings.CutPrefix(text, "@"); ok && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return []string{"@~" + digits}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "@"), "{"), "}")
	if _, err := when.Parse(inner, time.Now()); err == nil && "@{"+inner+"}" != text {
		return []string{"@{" + inner + "}"}
	}
	if strings.EqualFold(text, "latest") || strings.EqualFold(text, "newest") {
		return []string{"@"}
	}
	if near := nearest(strings.ToLower(text), []string{"start"}); near != "" {
		return []string{near}
	}
	return nil
}

// hintPath returns what to say of the REV of a restore that is unknown, and may be meant for a
// path: of one that is there, or is much like one.
func (p *place) hintPath(cmd *cobra.Command, rev string, err error) error {
	ctx := cmd.Context()
	file, perr := p.treePath(cmd, rev)
	if perr != nil {
		return err
	}
	what, did := "a file: name the REV, too", "'snapctl restore @ %[1]s' makes it what it was at the newest turn; "
	if !p.isPath(ctx, file) {
		if _, isTold := errors.AsType[*failure](err); isTold || strings.HasPrefix(rev, "@") {
			return err
		}
		if file = p.nearPath(ctx, file); file == "" {
			return err
		}
		rev, what = file, "no REV, which is the first argument, and no file"
		did = "did you mean 'snapctl restore @ %[1]s'? It makes that what it was at the newest turn; "
	}
	return &failure{exitUsage, fmt.Errorf("restore: %q is %s", cmd.Flags().Arg(0), what),
		fmt.Sprintf(did+"'snapctl log -- %[1]s' lists others", words.Quote(rev))}
}

// isPath reports whether a path is in the directory, or in what the session last recorded of it.
func (p *place) isPath(ctx context.Context, file string) bool {
	if _, err := os.Lstat(filepath.Join(p.project.Root, file)); err == nil {
		return true
	}
	point, err := p.m.Resolve(ctx, "@")
	if err != nil {
		return false
	}
	_, err = trees.Lookup(ctx, p.store, point.State.Tree, file)
	return err == nil
}

// nearPath returns a path of the newest turn, or of the disk, that is much like one that is not
// there; "": there is none.
func (p *place) nearPath(ctx context.Context, file string) string {
	point, err := p.m.Resolve(ctx, "@")
	if err != nil {
		return ""
	}
	near := ""
	for _, name := range strings.Split(file, "/") {
		names := make(map[string]bool)
		if e, err := trees.Lookup(ctx, p.store, point.State.Tree, near); err == nil && e.Mode.IsDir() {
			for e, err := range trees.Entries(ctx, p.store, e.ID) {
				if err != nil {
					return ""
				}
				names[e.Name] = true
			}
		}
		entries, _ := os.ReadDir(filepath.Join(p.project.Root, filepath.FromSlash(near)))
		for _, e := range entries {
			names[e.Name()] = e.Name() != ".git"
		}
		if !names[name] && len(name) < 3 {
			return "" // many are like it
		}
		if !names[name] {
			var list []string
			for other, is := range names {
				if is {
					list = append(list, other)
				}
			}
			slices.Sort(list)
			if name = nearest(name, list); name == "" {
				return ""
			}
		}
		near = path.Join(near, name)
	}
	return near
}
