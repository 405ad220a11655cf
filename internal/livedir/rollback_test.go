package livedir

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// TestKinds takes every kind of path to every other.
func TestKinds(t *testing.T) {
	kinds := map[string]world{
		"nothing":    {},
		"file":       {"x": "file 644 one"},
		"other file": {"x": "file 644 two"},
		"executable": {"x": "file 755 one"},
		"link":       {"x": "link target"},
		"other link": {"x": "link elsewhere"},
		"empty dir":  {"x": "dir 755"},
		"closed dir": {"x": "dir 500"},
		"read-only":  {"x": "file 444 one"},
		"dir": {"x": "dir 755", "x/a": "file 644 a", "x/sub": "dir 700", "x/sub/b": "file 600 b",
			"x/l": "link a"},
		"other dir": {"x": "dir 750", "x/a": "dir 755", "x/a/a": "file 644 a", "x/sub": "link a"},
	}
	for from, before := range kinds {
		for to, after := range kinds {
			t.Run(from+" to "+to, func(t *testing.T) {
				b := newBench(t)
				before, after := before.here(), after.here()
				before.write(t, b.dir)
				p := b.plan(b.wants(before, after), rollback.Skip)
				b.apply(p)
				b.expect(after)
				for path, what := range outcome(p) {
					if what != string(rollback.Restore) && what != string(rollback.Delete) {
						t.Errorf("%s is %s", path, what)
					}
				}
			})
		}
	}
}

// Several names of one file are restored, each by itself: what is done to one
// does not pass for a change of the others.
func TestManyNames(t *testing.T) {
	testseed.Sequential(t)
	b := newBench(t)
	before, after := make(world), make(world)
	big := strings.Repeat("one file of many names\n", 1<<16)
	for i := range 16 {
		name := fmt.Sprint("name", i)
		before[name], after[name] = "file 644 "+big, fmt.Sprint("file 644 ", i)
	}
	world{"name0": before["name0"]}.write(t, b.dir)
	for i := range 15 {
		if err := os.Link(filepath.Join(b.dir, "name0"), filepath.Join(b.dir, fmt.Sprint("name", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	p := b.plan(b.wants(before, after), rollback.Skip)
	b.apply(p)
	b.expect(after)
	if n := p.Count(rollback.Restore); n != 16 {
		t.Errorf("%d are restored: %v", n, outcome(p))
	}
}

// What somebody has changed stays, unless it is to be overwritten.
func TestDirty(t *testing.T) {
	left := world{"changed": "file 644 agent", "gone": "file 644 agent", "mode": "file 644 agent",
		"kind": "file 644 agent",
		"made": "file 644 agent", "clean": "file 644 agent", "dir": "dir 755", "dir/a": "file 644 agent"}
	wanted := world{"changed": "file 644 old", "gone": "file 644 old", "mode": "file 644 old", "kind": "file 644 old",
		"clean": "file 644 old", "new": "file 644 old", "dir": "file 644 old"}
	disk := world{"changed": "file 644 user", "mode": "file 444 agent", "kind": "dir 755", "made": "file 644 user",
		"clean": "file 644 agent", "new": "file 644 user", "dir": "dir 755", "dir/a": "file 644 agent",
		"dir/user": "file 644 user"}
	for policy, want := range map[rollback.Policy]world{
		rollback.Skip: {"changed": "file 644 user", "mode": "file 444 agent", "kind": "dir 755",
			"made": "file 644 user", "clean": "file 644 old",
			"new": "file 644 user", "dir": "dir 755", "dir/a": "file 644 agent", "dir/user": "file 644 user"},
		rollback.Overwrite: {"changed": "file 644 old", "gone": "file 644 old", "mode": "file 644 old",
			"kind": "file 644 old", "clean": "file 644 old",
			"new": "file 644 old", "dir": "dir 755", "dir/a": "file 644 agent", "dir/user": "file 644 user"},
		rollback.Abort: disk,
	} {
		t.Run(string(policy), func(t *testing.T) {
			b := newBench(t)
			disk.write(t, b.dir)
			p := b.plan(b.wants(left, wanted), policy)
			if p.Aborted != (policy == rollback.Abort) {
				t.Errorf("Aborted is %v", p.Aborted)
			}
			preview := outcome(p)
			b.apply(p)
			b.expect(want)
			if d := cmp.Diff(preview, outcome(p)); d != "" {
				t.Errorf("the plan and what was done (-plan +done):\n%s", d)
			}
			for _, it := range p.Items {
				if dirty := it.Path != "clean" && it.Path != "dir/a"; it.Dirty != dirty {
					t.Errorf("%s: dirty is %v: %s", it.Path, it.Dirty, it.Why)
				}
			}
		})
	}
}

// What may not be deleted, or is doubtful, stays and is named.
func TestKept(t *testing.T) {
	b := newBench(t)
	disk := world{"not ours": "file 644 x", "covered": "file 644 x", "doubtful": "file 644 x", "full": "dir 755",
		"full/user": "file 644 x"}
	disk.write(t, b.dir)
	p := b.plan([]Want{
		{Path: "not ours", Old: b.entry(disk, "not ours")},
		{Path: "covered", Old: b.entry(disk, "covered"), Created: true, Keep: "it was there and not captured"},
		{Path: "doubtful", Old: b.entry(disk, "doubtful"), Created: true, Doubt: "contested"},
		{Path: "full", Old: b.entry(disk, "full"), Created: true},
		{Path: "missing/x", Old: b.entry(disk, "full"), Created: true},
		{Path: "unneeded", New: b.entry(disk, "full"), Parent: true},
	}, rollback.Skip)
	b.apply(p)
	b.expect(disk)
	want := map[string]string{
		"not ours":  "kept: it was there before",
		"covered":   "kept: it was there and not captured",
		"doubtful":  "skipped: contested",
		"full":      `kept: it holds "full/user", which stays`,
		"missing/x": "unchanged",
		"unneeded":  "unchanged",
	}
	if d := cmp.Diff(want, outcome(p)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestOut: what somebody else has taken away is not put back, whatever the policy,
// unless it is there again. No directory is made for it alone.
func TestOut(t *testing.T) {
	const why = "somebody has taken it out"
	wanted := world{"out": "file 644 old", "dir": "dir 755", "dir/out": "file 644 old", "there": "file 644 old",
		"in": "dir 755", "in/out": "file 644 old", "in/gone": "file 644 old"}
	for policy, want := range map[rollback.Policy]world{
		rollback.Skip:      {"there": "file 644 old", "in": "dir 755", "in/gone": "file 644 old"},
		rollback.Overwrite: {"there": "file 644 old", "in": "dir 755", "in/gone": "file 644 old"},
		rollback.Abort:     {"there": "file 644 new"},
	} {
		b := newBench(t)
		world{"there": "file 644 new"}.write(t, b.dir)
		p := b.plan([]Want{
			{Path: "out", New: b.entry(wanted, "out"), Out: why},
			{Path: "dir", New: b.entry(wanted, "dir"), Parent: true},
			{Path: "dir/out", New: b.entry(wanted, "dir/out"), Old: b.entry(wanted, "dir/out"), Out: why},
			{Path: "there", New: b.entry(wanted, "there"), Old: b.entry(world{"there": "file 644 new"}, "there"),
				Out: why},
			{Path: "in", New: b.entry(wanted, "in"), Parent: true},
			{Path: "in/out", New: b.entry(wanted, "in/out"), Out: why},
			{Path: "in/gone", New: b.entry(wanted, "in/gone")},
		}, policy)
		b.apply(p)
		b.expect(want)
		for _, it := range p.Items {
			if out := strings.HasSuffix(it.Path, "out"); out != (it.Do == rollback.Skipped && it.Why == why) {
				t.Errorf("%s: %s is %s: %s", policy, it.Path, it.Do, it.Why)
			}
		}
	}
}

// What is held stays as it is, and is dirty, unless the policy is to overwrite. Where
// it is as it is wanted, only what is hidden, too, says so.
func TestHeld(t *testing.T) {
	const why = "a turn has changed it since"
	left, wanted := world{"f": "file 644 2", "g": "file 644 2", "same": "file 644 1", "hidden": "file 644 1"},
		world{"f": "file 644 1", "same": "file 644 1", "hidden": "file 644 1"}
	for policy, want := range map[rollback.Policy]map[string]string{
		rollback.Skip: {"f": "skipped: " + why, "g": "skipped: " + why, "same": "unchanged",
			"hidden": "skipped: " + why},
		rollback.Abort: {"f": "skipped: " + why, "g": "skipped: " + why, "same": "unchanged",
			"hidden": "skipped: " + why},
		rollback.Overwrite: {"f": "restored", "g": "deleted", "same": "unchanged", "hidden": "unchanged"},
	} {
		b := newBench(t)
		left.write(t, b.dir)
		var wants []Want
		for p := range left {
			wants = append(wants, Want{Path: p, Old: b.entry(left, p), New: b.entry(wanted, p), Created: true,
				Held: why, Hidden: p == "hidden"})
		}
		p := b.plan(wants, policy)
		b.apply(p)
		if d := cmp.Diff(want, outcome(p)); d != "" {
			t.Errorf("%s (-want +got):\n%s", policy, d)
		}
		for _, it := range p.Items {
			if dirty := it.Do == rollback.Skipped && it.Path != "hidden"; it.Dirty != dirty {
				t.Errorf("%s: %s is dirty: %v, want %v", policy, it.Path, it.Dirty, dirty)
			}
		}
		if policy == rollback.Overwrite {
			b.expect(wanted)
		} else {
			b.expect(left)
		}
	}
}

// A directory that was moved goes back with what is not known of it.
func TestMoved(t *testing.T) {
	before := world{"lib": "dir 755", "lib/a": "file 644 a", "lib/b": "file 644 b", "lib/sub": "dir 755",
		"lib/sub/c": "file 644 c"}
	unknown := world{"ignored": "dir 755", "ignored/x": "file 644 big", "sub/repo": "dir 755",
		"sub/repo/.git": "dir 755", "sub/repo/.git/HEAD": "file 644 ref"}
	for name, c := range map[string]struct {
		to    string // where it was moved
		edit  world  // what else the turn did there
		user  world  // what the user did then
		stays bool   // what is not known
	}{
		"moved":            {to: "vendor"},
		"moved deeper":     {to: "third/party/lib"},
		"moved and edited": {to: "vendor", edit: world{"a": "file 644 edited", "new": "file 644 new"}},
		"edited by user":   {to: "vendor", user: world{"a": "file 644 user"}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.stays {
				vfstest.NeedRename(t, vfs.NoReplace)
			}
			b := newBench(t)
			after := make(world)
			for up := c.to; up != ""; up, _ = trees.Split(up) {
				after[up] = "dir 755"
			}
			for p, what := range before {
				if p != "lib" {
					after[c.to+strings.TrimPrefix(p, "lib")] = what
				}
			}
			for p, what := range c.edit {
				after[c.to+"/"+p] = what
			}
			disk := make(world)
			for p, what := range after {
				disk[p] = what
			}
			for _, more := range []world{unknown, c.user} {
				for p, what := range more {
					disk[c.to+"/"+p] = what
				}
			}
			disk.write(t, b.dir)
			p := b.plan(b.wants(after, before), rollback.Skip, c.to+"/ignored", c.to+"/sub/repo", c.to+"/gone")
			preview := outcome(p)
			b.apply(p)
			want := maps.Clone(before)
			for p, what := range unknown {
				if c.stays {
					want[c.to+"/"+p] = what
				} else {
					want["lib/"+p] = what
				}
			}
			if c.stays {
				want[c.to], want[c.to+"/a"], want[c.to+"/sub"] = "dir 755", "file 644 user", "dir 755"
			}
			b.expect(want)
			if d := cmp.Diff(preview, outcome(p)); d != "" || len(p.Moves) != 2 && !c.stays {
				t.Errorf("moves %v, (-plan +done):\n%s", p.Moves, d)
			}
		})
	}
}

// An object that is lost costs its own path.
func TestLostObject(t *testing.T) {
	b := newBench(t)
	left := world{"a": "file 644 a2", "b": "file 644 b2", "c": "file 644 c2"}
	left.write(t, b.dir)
	wants := b.wants(left, world{"a": "file 644 a1", "c": "file 644 c1"})
	for i := range wants {
		if wants[i].Path == "a" {
			wants[i].New.ID[0] ^= 1
		}
	}
	p := b.plan(wants, rollback.Skip)
	b.apply(p)
	b.expect(world{"a": "file 644 a2", "c": "file 644 c1"})
	if got := outcome(p)["a"]; !strings.HasPrefix(got, "failed: ") {
		t.Errorf("a is %q", got)
	}
}

// What is not in the plan is not touched.
func TestUntouched(t *testing.T) {
	b := newBench(t)
	left := world{"dir": "dir 755", "dir/a": "file 644 2", "dir/same": "file 644 x", "other": "file 644 y",
		"dir/sub": "dir 755", "dir/sub/z": "file 644 z"}
	left.write(t, b.dir)
	long := time.Now().Add(-time.Hour)
	for p := range left {
		if err := os.Chtimes(filepath.Join(b.dir, p), long, long); err != nil {
			t.Fatal(err)
		}
	}
	wants := append(b.wants(left, world{"dir": "dir 755", "dir/a": "file 644 1", "dir/same": "file 644 x",
		"other": "file 644 y", "dir/sub": "dir 755", "dir/sub/z": "file 644 z"}),
		Want{Path: "dir/same", Old: b.entry(left, "dir/same"), New: b.entry(left, "dir/same")})
	b.apply(b.plan(wants, rollback.Skip))
	for p := range left {
		fi, err := os.Stat(filepath.Join(b.dir, p))
		if err != nil {
			t.Fatal(err)
		}
		if changed := !fi.ModTime().Equal(long); changed != (p == "dir/a" || p == "dir") {
			t.Errorf("%s: touched is %v", p, changed)
		}
	}
}

// randomWorld makes a directory of up to n paths.
func randomWorld(rng *rand.Rand, n int) world {
	w := make(world)
	names := []string{"a", "b", "c", "d\xff"}
	if runtime.GOOS == "windows" { // whose names are Unicode
		names[3] = "d\u00ff"
	}
	for range rng.IntN(n) + 1 {
		p := names[rng.IntN(len(names))]
		for range rng.IntN(3) {
			if what, ok := w[p]; ok && !strings.HasPrefix(what, "dir") {
				break
			}
			w[p] = "dir 755"
			p += "/" + names[rng.IntN(len(names))]
		}
		if _, ok := w[p]; ok {
			continue
		}
		switch rng.IntN(6) {
		case 0:
			w[p] = []string{"dir 755", "dir 700"}[rng.IntN(2)]
		case 1:
			w[p] = fmt.Sprint("link ", rng.IntN(3))
		case 2:
			w[p] = fmt.Sprint("file 755 ", rng.IntN(3))
		default:
			w[p] = fmt.Sprint("file 644 ", rng.IntN(3))
		}
	}
	return w.here()
}

// mix returns what leads from one world to several, path by path: what is wanted
// of two paths may not go together.
func (b *bench) mix(rng *rand.Rand, from world, to []world) (wants []Want, wanted world) {
	b.Helper()
	wanted = make(world)
	paths := maps.Clone(from)
	for _, w := range to {
		maps.Copy(paths, w)
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		w := to[rng.IntN(len(to))]
		if from[p] != w[p] && rng.IntN(6) > 0 {
			wants = append(wants, b.want(from, w, p))
			wanted[p] = w[p]
		}
	}
	return wants, wanted
}

// TestModel checks random restores of random directories that a user has
// changed: clean paths become what is wanted, and all others stay. What a plan
// says is what is done.
func TestModel(t *testing.T) {
	testseed.Sequential(t)
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := newBench(t)
		left, wanted := randomWorld(rng, 8), randomWorld(rng, 8)
		disk := make(world)
		for p, what := range left {
			disk[p] = what
		}
		if rng.IntN(2) == 0 { // the user's edits
			for p, what := range disk {
				if strings.HasPrefix(what, "file") && rng.IntN(4) == 0 {
					disk[p] = "file 644 user"
				}
			}
			disk["user"] = "file 644 user"
			if gone := "abc"[rng.IntN(3):][:1]; rng.IntN(3) == 0 {
				maps.DeleteFunc(disk, func(p, _ string) bool { _, in := trees.Below(p, gone); return in })
			}
		}
		disk.write(t, b.dir)
		wants, mixed := b.wants(left, wanted), seed%2 == 0
		if mixed {
			wants, wanted = b.mix(rng, left, []world{wanted, randomWorld(rng, 8)})
		}
		policy := []rollback.Policy{rollback.Skip, rollback.Skip, rollback.Overwrite}[rng.IntN(3)]
		p := b.plan(wants, policy)
		b.doesAsPlanned(p)
		got := readWorld(t, b.dir)
		done := outcome(p)
		if p.Count(rollback.Failed) > 0 {
			t.Errorf("seed %d: something failed", seed)
		}
		for _, m := range p.Made {
			if what := fmt.Sprintf("dir %o", m.Mode&0o777); got[m.Path] != what || disk[m.Path] != "" {
				t.Errorf("seed %d: %s was %q, was made, and is %q, want %q", seed, m.Path, disk[m.Path], got[m.Path],
					what)
			}
		}
		made := func(path string) bool {
			return slices.ContainsFunc(p.Made, func(m Made) bool { return m.Path == path })
		}
		for path, what := range got {
			if disk[path] == "" && wanted[path] != what && !made(path) {
				t.Errorf("seed %d: %s came as %q, and nobody said so", seed, path, what)
			}
		}
		for path, what := range disk {
			switch {
			case strings.HasPrefix(what, "file 644 user") && got[path] != what && policy == rollback.Skip:
				t.Errorf("seed %d: the user's %s is %q: %s", seed, path, got[path], done[path])
			case done[path] == "" && got[path] != what:
				t.Errorf("seed %d: %s is not in the plan and was %q, is %q", seed, path, what, got[path])
			}
		}
		for path, what := range done {
			switch {
			case what == string(rollback.Restore) && got[path] != wanted[path]:
				t.Errorf("seed %d: %s is %q, want %q", seed, path, got[path], wanted[path])
			case what == string(rollback.Delete) && got[path] != "":
				t.Errorf("seed %d: %s is %q, want it gone", seed, path, got[path])
			case what == string(Nothing) && got[path] != wanted[path] && !made(path):
				t.Errorf("seed %d: %s is %q and unchanged, want %q", seed, path, got[path], wanted[path])
			}
		}
		if cmp.Equal(disk, left) && !mixed {
			if d := cmp.Diff(wanted, got); d != "" {
				t.Errorf("seed %d: nobody has changed anything (-want +got):\n%s\n%v", seed, d, done)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: left %q, wanted %q, disk %q", seed, left, wanted, disk)
		}
	}
}

// Directories that look alike are not taken for one another.
func TestMovedAlike(t *testing.T) {
	b := newBench(t)
	left, wanted, disk := make(world), make(world), make(world)
	for i := range 3 {
		for dir, w := range map[string]world{"lib": wanted, "vendor": left} {
			p := fmt.Sprint(dir, "/p", i)
			w[dir], w[p], w[p+"/__init__.py"], w[p+"/m.py"] = "dir 755", "dir 755", "file 644 same",
				fmt.Sprint("file 644 ", i)
		}
	}
	for p, what := range left {
		disk[p] = what
	}
	for i := range 3 {
		disk[fmt.Sprint("vendor/p", i, "/.env")] = fmt.Sprint("file 600 secret of ", i)
	}
	disk["vendor/p0/m.py"] = "file 644 user"
	disk = disk.here()
	disk.write(t, b.dir)
	b.apply(b.plan(b.wants(left, wanted), rollback.Skip, "vendor/p0/.env", "vendor/p1/.env", "vendor/p2/.env"))
	for path, what := range readWorld(t, b.dir) {
		if strings.HasSuffix(path, ".env") && what != disk[path] &&
			!strings.HasSuffix(path, what[strings.LastIndex(what, " ")+1:]+"/.env") {
			t.Errorf("%s holds the %s", path, what)
		}
	}
	// Nothing was moved: one file of several is the same.
	b = newBench(t)
	left = world{"fresh": "dir 755", "fresh/LICENSE": "file 644 MIT", "fresh/1": "file 644 1", "fresh/2": "file 644 2",
		"fresh/3": "file 644 3"}
	wanted = world{"old": "dir 755", "old/LICENSE": "file 644 MIT", "old/index": "file 644 x"}
	left.write(t, b.dir)
	world{"fresh/.env": "file 600 secret"}.add(t, b.dir)
	p := b.plan(b.wants(left, wanted), rollback.Skip, "fresh/.env")
	b.apply(p)
	if got := readWorld(t, b.dir); got["fresh/.env"] == "" || len(p.Moves) > 0 {
		t.Errorf("moves %v, %v", p.Moves, got)
	}
}

// A plan says beforehand that a directory stays that somebody has put a file
// into.
func TestPlanKeepsFullDirectory(t *testing.T) {
	b := newBench(t)
	left := world{"out": "dir 755", "out/a": "file 644 a"}
	left.write(t, b.dir)
	world{"out/user": "file 644 u"}.add(t, b.dir)
	p := b.plan(b.wants(left, world{}), rollback.Skip)
	preview := outcome(p)
	b.apply(p)
	if d := cmp.Diff(preview, outcome(p)); d != "" || p.Count(rollback.Kept) != 1 {
		t.Errorf("(-plan +done):\n%s%v", d, preview)
	}
}

// FuzzItem: what is read as an item or a move of a plan is written as it was.
func FuzzItem(f *testing.F) {
	for _, v := range []any{rollback.Item{Path: "a\xff", Do: rollback.Skipped, Why: "w", Dirty: true, Note: "n"},
		rollback.Move{From: "a\xff", To: "b", Why: "w"}} {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		for _, b := range nearmiss.Of(b) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var item, itemAgain rollback.Item
		var move, moveAgain rollback.Move
		checkAgain(t, b, &item, &itemAgain)
		checkAgain(t, b, &move, &moveAgain)
	})
}

func checkAgain(t *testing.T, b []byte, v, again any) {
	t.Helper()
	if json.Unmarshal(b, v) != nil {
		return
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, again)
	}
	if err != nil || !reflect.DeepEqual(v, again) {
		t.Errorf("%s: read %+v, want %+v, %v", b, again, v, err)
	}
}
