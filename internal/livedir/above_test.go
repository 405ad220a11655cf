package livedir

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// doesAsPlanned applies a plan, and requires that it did what it said.
func (b *bench) doesAsPlanned(p *Plan) {
	b.Helper()
	preview, made := outcome(p), slices.Clone(p.Made)
	b.apply(p)
	if d := cmp.Diff(preview, outcome(p)) + cmp.Diff(made, p.Made); d != "" {
		b.Errorf("(-plan +done):\n%s", d)
	}
}

// want returns one path's part of what leads from one world to another.
func (b *bench) want(from, to world, path string) Want {
	b.Helper()
	return Want{Path: path, Old: b.entry(from, path), New: b.entry(to, path), Created: true}
}

// Of a path that becomes a file, and one below it that is to be there, the path
// above wins, and the plan says so.
func TestFileAbove(t *testing.T) {
	for what, reason := range map[string]string{
		"file 644 code": `skipped: "u" becomes a file`,
		"link /tmp":     `skipped: "u" becomes a symbolic link`,
	} {
		for name, left := range map[string]world{
			"a directory": {"u": "dir 755", "u/init": "file 644 x"},
			"nothing":     {},
			"a file":      {"u": "file 644 other"},
		} {
			t.Run(what+" over "+name, func(t *testing.T) {
				if strings.HasPrefix(what, "link") {
					vfstest.NeedLinks(t)
				}
				b := newBench(t)
				left.write(t, b.dir)
				to := world{"u": what, "u/users": "file 644 user", "u/d": "dir 755", "u/d/e": "dir 755",
					"u/d/e/f": "file 644 f"}
				var wants []Want
				for _, path := range []string{"u", "u/init", "u/users", "u/d", "u/d/e", "u/d/e/f"} {
					wants = append(wants, b.want(left, to, path))
				}
				p := b.plan(wants, rollback.Skip)
				got := outcome(p)
				for _, path := range []string{"u/users", "u/d", "u/d/e", "u/d/e/f"} {
					if !strings.HasPrefix(got[path], reason) {
						t.Errorf("%s is %q, want %q", path, got[path], reason)
					}
				}
				b.doesAsPlanned(p)
				b.expect(world{"u": what})
			})
		}
	}
}

// A directory that is made for what is put into it has the mode of a directory,
// and is listed.
func TestMadeDirs(t *testing.T) {
	umask := world{"made": "dir 755"}
	probe := t.TempDir()
	if err := os.Mkdir(filepath.Join(probe, "made"), 0o777); err != nil {
		t.Fatal(err)
	}
	maps.Copy(umask, readWorld(t, probe))
	for what, to := range map[string]world{
		"link": {"x": "link nowhere", "x/in": "file 644 B"},
		"file": {"x": "file 600 secret", "x/in": "file 644 B"},
		"none": {"x/in": "file 644 B"},
		"deep": {"x": "link nowhere", "x/y/in": "file 644 B"},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			left := world{"x": "link other"} // that somebody has deleted
			var wants []Want
			var madeWant []string
			want := world{}
			for path := range to {
				wants = append(wants, b.want(left, to, path))
				if _, in := trees.Below(path, "x"); in && path != "x" {
					wants[len(wants)-1].Old = nil
					want[path] = to[path]
					for up, _ := trees.Split(path); up != ""; up, _ = trees.Split(up) {
						madeWant, want[up] = append(madeWant, up), umask["made"]
					}
				}
			}
			slices.Sort(madeWant)
			p := b.plan(wants, rollback.Skip)
			b.doesAsPlanned(p)
			b.expect(want)
			var made []string
			for _, m := range p.Made {
				made = append(made, m.Path)
			}
			if d := cmp.Diff(madeWant, made); d != "" {
				t.Errorf("made (-want +got):\n%s", d)
			}
		})
	}
}
