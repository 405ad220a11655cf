// Command upgrade has several versions of snapctl write one store after the other, the oldest first,
// and asks the newest for every snapshot: upgrade [-turns N] [-seed N] SNAPCTL...
//
// Each version records its share of the turns in one directory, restores and undoes, prunes and
// compacts if it knows how. After that the newest version checks the store and exports each
// snapshot that is left, whose names, kinds, permissions and bytes must be those on the disk when
// it was taken. In the end each older version exports the newest snapshot: it must give those
// bytes, or refuse with exit code 6, which names the feature that it lacks.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// exitUnknown is the exit code of a version that does not know a store's format or a feature of it.
const exitUnknown = 6

func main() {
	turns := flag.Int("turns", 1000, "turns in all")
	seed := flag.Uint64("seed", 1, "seed of the changes")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: upgrade [-turns N] [-seed N] OLDEST... NEWEST")
	}
	dir, err := os.MkdirTemp("", "upgrade-")
	if err != nil {
		log.Fatal(err)
	}
	w := &world{
		dir: dir, root: filepath.Join(dir, "project"),
		random: rand.New(rand.NewPCG(*seed, 0)), taken: make(map[string]string),
	}
	if err := w.run(flag.Args(), *turns); err != nil {
		log.Fatalf("%v\n(everything is in %s)", err, dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
}

// world is a directory, its store, and what each snapshot must hold.
type world struct {
	dir, root string
	random    *rand.Rand
	taken     map[string]string // digest of the directory, by the hash of the snapshot
	newest    string            // hash of the newest snapshot
}

func (w *world) run(programs []string, turns int) error {
	if err := os.MkdirAll(w.root, 0o755); err != nil {
		return err
	}
	newest := programs[len(programs)-1]
	for i, program := range programs {
		share := turns*(i+1)/len(programs) - turns*i/len(programs)
		began := time.Now()
		if err := w.write(program, share); err != nil {
			return err
		}
		kept, err := w.verify(newest)
		if err != nil {
			return fmt.Errorf("after %s: %w", filepath.Base(program), err)
		}
		fmt.Printf("%-24s %4d turns in %v: %d snapshots are left, and whole\n",
			filepath.Base(program), share, time.Since(began).Round(time.Second), kept)
	}
	for _, program := range programs {
		if err := w.back(program); err != nil {
			return err
		}
	}
	return nil
}

// write has program record turns, and do in between what it can.
func (w *world) write(program string, turns int) error {
	help, _, err := w.try(program, "help")
	if err != nil {
		return err
	}
	can := func(verb string) bool { return regexp.MustCompile(`(?m)^  ` + verb + ` `).MatchString(help) }
	for i := range turns {
		if err := w.change(); err != nil {
			return err
		}
		if err := w.take(program); err != nil {
			return err
		}
		if i%25 != 24 || !can("restore") {
			continue
		}
		before, err := digest(w.root)
		if err != nil {
			return err
		}
		if err := w.do(program, "restore", "@~3", "-y"); err != nil {
			return err
		}
		if err := w.do(program, "undo", "-y"); err != nil {
			return err
		}
		if after, err := digest(w.root); err != nil || after != before {
			return fmt.Errorf("%s restored and undid, and the directory is another (%v)", program, err)
		}
	}
	if can("prune") {
		if err := w.do(program, "prune", "--keep-last", fmt.Sprint(max(1, len(w.taken)-10))); err != nil {
			return err
		}
	}
	if can("compact") {
		return w.do(program, "compact")
	}
	return nil
}

// take records the directory, and remembers what it held.
func (w *world) take(program string) error {
	out, _, err := w.try(program, "snapshot", "--json")
	if err != nil {
		return err
	}
	var taken struct{ SnapshotTreeHash string }
	if err := json.Unmarshal([]byte(out), &taken); err != nil || taken.SnapshotTreeHash == "" {
		return fmt.Errorf("%s: snapshot says no hash: %q (%v)", program, out, err)
	}
	w.newest = taken.SnapshotTreeHash
	w.taken[w.newest], err = digest(w.root)
	return err
}

// change edits, makes and deletes some files.
func (w *world) change() error {
	for range 1 + w.random.IntN(4) {
		name := filepath.Join(w.root, fmt.Sprintf("d%d/e%d", w.random.IntN(5), w.random.IntN(4)),
			fmt.Sprintf("f %d\xff", w.random.IntN(6)))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := w.edit(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) edit(name string) error {
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch w.random.IntN(8) {
	case 0:
		return os.RemoveAll(name)
	case 1:
		if err := os.RemoveAll(name); err != nil {
			return err
		}
		return os.Symlink("../"+fmt.Sprint(w.random.IntN(9)), name)
	case 2:
		return replace(name, bytes.Repeat([]byte{0, byte(w.random.Uint32())}, w.random.IntN(1<<18)), 0o644)
	case 3:
		return replace(name, old, 0o755)
	default:
		line := fmt.Sprintf("line %d\n", w.random.Uint32())
		return replace(name, append(old, line...), 0o644)
	}
}

// replace writes a regular file in the place of whatever is there.
func replace(name string, content []byte, perm fs.FileMode) error {
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return os.WriteFile(name, content, perm)
}

// verify checks the store, and exports and compares every snapshot that is not pruned.
func (w *world) verify(program string) (kept int, err error) {
	if err := w.do(program, "check", "--read-data"); err != nil {
		return 0, err
	}
	for hash, want := range w.taken {
		out := filepath.Join(w.dir, "out")
		said, code, err := w.try(program, "export", hash, out)
		if code != 0 && strings.Contains(said, "pruned") {
			delete(w.taken, hash)
			continue
		}
		if err != nil {
			return 0, err
		}
		if got, err := digest(out); err != nil || got != want {
			return 0, fmt.Errorf("snapshot %s is not what the directory was (%v)", hash, err)
		}
		if err := os.RemoveAll(out); err != nil {
			return 0, err
		}
	}
	if _, ok := w.taken[w.newest]; !ok {
		return 0, fmt.Errorf("the newest snapshot, %s, is gone", w.newest)
	}
	return len(w.taken), nil
}

// back asks an older program for the newest snapshot.
func (w *world) back(program string) error {
	out := filepath.Join(w.dir, "out")
	defer os.RemoveAll(out)
	said, code, err := w.try(program, "export", w.newest, out)
	switch {
	case code == exitUnknown:
		fmt.Printf("%-24s refuses: %s\n", filepath.Base(program), strings.TrimSpace(said))
		return nil
	case err != nil:
		return err
	}
	if got, err := digest(out); err != nil || got != w.taken[w.newest] {
		return fmt.Errorf("%s exports something else than was there (%v)", program, err)
	}
	fmt.Printf("%-24s exports the newest snapshot\n", filepath.Base(program))
	return nil
}

// do is try without interest in what is printed.
func (w *world) do(program string, args ...string) error {
	_, _, err := w.try(program, args...)
	return err
}

// try runs program in the directory; if it fails, said is what it printed on both streams.
func (w *world) try(program string, args ...string) (said string, code int, err error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.root
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "BOO_STORE="+filepath.Join(w.dir, "stores"), "BOO_SESSION=s")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said = stdout.String() + stderr.String()
		err = fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, said)
		return said, cmd.ProcessState.ExitCode(), err
	}
	return stdout.String(), 0, nil
}

// digest is one hash of everything in dir: names, kinds, permissions, contents and targets.
func digest(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		perm := info.Mode()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(name); err == nil {
				content, perm = []byte(target), fs.ModeSymlink
			}
		case info.Mode().IsRegular():
			content, err = os.ReadFile(name)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %v %d\n", strings.TrimPrefix(name, dir), perm, len(content))
		sum.Write(content)
		return nil
	})
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}
