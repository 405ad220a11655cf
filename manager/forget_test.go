package manager

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// noise returns bytes that nothing compresses.
func noise(n int, seed uint64) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// A tree is no content, whose hash looks the same: what only it leads to would go.
func TestForgetTree(t *testing.T) {
	b := newBench(t)
	b.write("a", "content")
	m := b.open("s")
	r := b.initialize(m)
	if _, err := retain.PlanForget(t.Context(), m.store,
		&retain.ForgetOptions{Blobs: []store.ID{r.Tree}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("PlanForget of a tree: %v, want ErrUnknown", err)
	}
}

func (b *bench) forget(m *FileSnapshotManager, opts *retain.ForgetOptions) *retain.ForgetPlan {
	b.Helper()
	vfstest.NeedGone(b)
	plan, err := retain.PlanForget(b.Context(), m.store, opts)
	if err == nil {
		_, err = plan.Do(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	return plan
}

// filesWith returns the files of the store that have some bytes in them.
func (b *bench) filesWith(secret string) (list []string) {
	b.Helper()
	err := filepath.WalkDir(b.stores, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte(secret)) {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return list
}

func TestForget(t *testing.T) {
	b := newBench(t)
	env, rules := noise(2000, 1), "# "+strings.Repeat("rule", 5)+"\n"
	edited := noise(300, 2)
	edited = strings.ToValidUTF8(strings.Map(func(r rune) rune { return 'a' + r%26 }, edited), "x")
	b.git(rules)
	b.write("a", "one")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("sub/.env", env); b.write("copy", env); b.write("a", "two") })
	b.turn(m, func() { b.write("sub/.env", noise(2000, 3)); b.remove("copy") })
	b.write("key", "x")
	b.edit(m, &EditRequest{Path: "key", Old: []byte("x"), New: []byte(edited)})
	b.turn(m, func() { b.write("sub/.env", "tame"); b.write(".gitignore", "out\n"); b.remove("key") })
	other := b.open("other")
	b.initialize(other)
	if len(b.filesWith(rules)) == 0 || len(b.filesWith(env)) == 0 {
		t.Fatal("the test finds no secret that is there")
	}

	if _, err := retain.PlanForget(t.Context(), m.store,
		&retain.ForgetOptions{Paths: []string{"sub/env"}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a path that never was: %v, want ErrUnknown", err)
	}
	if _, err := retain.PlanForget(t.Context(), m.store,
		&retain.ForgetOptions{Blobs: []store.ID{{1}}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a blob that never was: %v, want ErrUnknown", err)
	}
	plan := b.forget(m, &retain.ForgetOptions{Paths: []string{"sub", ".gitignore", "key"}})
	var paths []string
	for _, blob := range plan.Blobs {
		paths = append(paths, strings.Join(blob.Paths, " "))
	}
	want := []string{".gitignore", ".gitignore", "copy sub/.env", "key", "key", "sub/.env", "sub/.env"}
	if d := cmp.Diff(want, paths); d != "" {
		t.Errorf("paths (-want +got):\n%s", d)
	}
	for _, secret := range []string{env, env[1000:], noise(2000, 3), edited, rules} {
		if list := b.filesWith(secret); list != nil {
			t.Errorf("%.20q is in %v", secret, list)
		}
	}
	info, err := m.FileDiff(t.Context(), &FileRange{Path: "sub/.env", From: "start", To: "turn:0"})
	if err != nil || info == nil || !info.Binary || info.NewContent != nil {
		t.Errorf("FileDiff of a forgotten file: %+v, %v; want it binary", info, err)
	}
	if _, err := m.ModifiedFiles(t.Context(), &Range{From: "start", To: "turn:0", Renames: true}); err != nil {
		t.Error(err)
	}
	prune, err := retain.PlanPrune(t.Context(), m.store, &retain.Retention{KeepLast: 1})
	if err != nil || len(prune.Problems) > 0 {
		t.Errorf("PlanPrune: %v, %v", prune, err)
	}
	if u, err := retain.BySession(t.Context(), m.store); err != nil || len(u.Problems) > 0 {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	for hurt, err := range audit.Hurts(t.Context(), m.store) {
		t.Errorf("hurt: %+v, %v", hurt, err)
	}

	// The preview says what the restore does, which leaves what is there.
	preview := b.restore(m, &RestoreOptions{Target: "turn:0", Preview: true})
	r := b.restore(m, &RestoreOptions{Target: "turn:0"})
	if d := cmp.Diff(preview.Items, r.Items); d != "" {
		t.Errorf("preview (-preview +real):\n%s", d)
	}
	slices.Sort(r.Failed)
	if d := cmp.Diff([]string{".gitignore", "copy", "key", "sub/.env"}, r.Failed); d != "" {
		t.Errorf("failed (-want +got):\n%s", d)
	}
	if got := b.files(); got["sub/.env"] != "tame" || got["a"] != "two" {
		t.Errorf("the directory: %v", got)
	}
	b.turn(m, func() { b.write("a", "three") })
	if list := b.filesWith(env[:100]); list != nil {
		t.Errorf("it came back in %v", list)
	}
}

// Each operation of a forget fails in turn, for good, as on a full disk: what it says of
// contents is so, and the next one does the rest.
func TestForgetSaysWhatIsLeft(t *testing.T) {
	testseed.Sequential(t)
	said := make(map[int]bool)
	for at := int64(0); !t.Failed(); at += stride(3) {
		dir, disk := t.TempDir(), vfstest.NewMem()
		m, err := openOn(t, dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(new(day).live(t.Context(), dir, m), m.Close()); err != nil {
			t.Fatal(err)
		}
		fault := &vfstest.Fault{At: -1, Sticky: true, Err: syscall.ENOSPC}
		s, err := cas.OpenFS(t.Context(), vfstest.WithFault(disk, fault), &cas.Options{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := retain.PlanForget(t.Context(), s, &retain.ForgetOptions{Paths: []string{"own.txt"}, Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		fault.At = fault.Count() + at
		_, err = plan.Do(t.Context())
		if !fault.Fired() {
			break
		}
		s.Close() // it may say what failed
		said[checkForgetError(t, disk, plan, err)] = true
	}
	if len(said) < 2 {
		t.Errorf("contents that were left: %v; want none, and some", said)
	}
}

// checkForgetError requires that what a forget said is so on a disk, and returns how many
// contents it left.
func checkForgetError(t *testing.T, disk *vfstest.Mem, plan *retain.ForgetPlan, said error) int {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	left := 0
	for _, b := range plan.Blobs {
		if there, err := s.Has(b.ID); err != nil {
			t.Fatal(err)
		} else if there {
			left++
		}
	}
	e, ok := errors.AsType[*retain.ForgetError](said)
	if said != nil && !ok || ok && (e.Left < left || e.All != len(plan.Blobs)) || said == nil && left > 0 {
		t.Errorf("forget says: %v; %d of %d contents are left", said, left, len(plan.Blobs))
	}
	again, err := retain.PlanForget(t.Context(), s, &retain.ForgetOptions{Paths: []string{"own.txt"}, Alone: true})
	if err == nil {
		_, err = again.Do(t.Context())
	}
	if err != nil {
		t.Errorf("behind %v: %v", said, err)
	}
	return left
}

// A file that a turn has moved is neither lost nor left where it is, though its
// content was forgotten: what goes is saved before.
func TestForgetMoved(t *testing.T) {
	b := newBench(t)
	env := noise(2000, 1)
	b.write(".env", env)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.remove(".env"); b.write("moved", env) })
	b.forget(m, &retain.ForgetOptions{Paths: []string{".env"}})
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{".env": env})
}

// A repair does not bring back what was forgotten.
func TestForgetRepair(t *testing.T) {
	b := newBench(t)
	b.write(".env", noise(2000, 1))
	m := b.open("s")
	b.initialize(m)
	b.forget(m, &retain.ForgetOptions{Paths: []string{".env"}})
	plan, err := m.store.PlanRepair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mender := audit.NewMender(m.store, plan)
	defer mender.Close()
	mends, err := mender.Plan(t.Context())
	if err != nil || len(mends) > 0 || !plan.Empty() {
		t.Errorf("mends %v, %v, plan %+v; want nothing to do", mends, err, plan)
	}
	for hurt, err := range mender.Hurt(t.Context()) {
		t.Errorf("hurt: %+v, %v", hurt, err)
	}
}

// A stat cache has the text of rules.
func TestForgetRules(t *testing.T) {
	b := newBench(t)
	rules := "# " + strings.Repeat("rule", 30) + "\n"
	b.git(rules)
	m := b.open("s")
	b.initialize(m)
	if len(b.filesWith(rules)) == 0 {
		t.Fatal("no file has the rules")
	}
	b.forget(m, &retain.ForgetOptions{Paths: []string{".gitignore"}})
	if list := b.filesWith(rules); list != nil {
		t.Errorf("the rules are in %v", list)
	}
	b.turn(m, func() { b.write(".gitignore", "out\n") })
}
