package blame

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// An Owner is whose a line is: what is to be said of an origin.
type Owner struct {
	Kind    string
	Session string
	Turn    int // -1: of none, or not known
	Entry   string
	Claimed bool
	Title   string
	Agent   string
	Model   string
	Time    int64 // nanoseconds of Unix time
	By      []By  // of what is contested, those whose it may be

	Seq uint64 // of the look that found it
	Of  uint64 // of the turn's record; 0: there is none
}

// A By is a turn that may own a line.
type By struct {
	Session string
	Turn    int
}

// A Kept is a version of which the origins are kept.
type Kept struct {
	Seq  uint64 // of the look that found it
	Path string
	Blob store.ID

	runs []byte // as they are written: of most versions nobody asks
}

// Keep returns a version to keep. Its origins are the numbers of owners.
func Keep(seq uint64, path string, blob store.ID, lines Lines) Kept {
	runs := make([]byte, 0, 4*len(lines))
	for _, r := range lines {
		runs = binary.AppendUvarint(binary.AppendUvarint(runs, uint64(r.Lines)), uint64(r.Origin))
	}
	return Kept{seq, path, blob, runs}
}

// Size returns how many bytes its origins take.
func (k *Kept) Size() int { return len(k.runs) }

// Lines returns its origins, below a number of owners; false: they are not what was written.
func (k *Kept) Lines(owners int) (lines Lines, ok bool) {
	lines = make(Lines, 0, len(k.runs)/2)
	for d := (decoder{b: k.runs}); len(d.b) > 0; {
		r := Run{int(d.uint()), int(d.uint())}
		if d.bad || r.Lines <= 0 || r.Origin < 0 || r.Origin >= owners {
			return nil, false
		}
		lines = append(lines, r)
	}
	return lines, true
}

// A File is what is kept of a path: the origins of its newest versions, of all that had
// happened to it up to a record of the worktree. docs/reference/format.md §9 has its bytes.
type File struct {
	Store    string // its ID
	Epoch    uint64 // of the store: prunes and repairs change what is known
	Path     string
	Seq      uint64   // of the worktree's record
	Tree     store.ID // of that
	Versions []Kept   // the newest last
	Owners   []Owner  // by origin
}

// Compact leaves out owners of which no version has a line, if they are most of them.
func (f *File) Compact() {
	newest, ok := f.Versions[len(f.Versions)-1].Lines(len(f.Owners))
	numbers := make([]int, len(f.Owners)) // from 1; 0: it has no line so far
	var owners []Owner
	number := func(lines Lines) {
		for i, r := range lines {
			if numbers[r.Origin] == 0 {
				owners = append(owners, f.Owners[r.Origin])
				numbers[r.Origin] = len(owners)
			}
			lines[i].Origin = numbers[r.Origin] - 1
		}
	}
	number(newest)
	if !ok || len(f.Owners) <= 2*len(owners)+64 {
		return
	}
	versions := make([]Kept, len(f.Versions))
	for i, v := range f.Versions {
		lines, ok := v.Lines(len(f.Owners))
		if !ok {
			return
		}
		number(lines)
		versions[i] = Keep(v.Seq, v.Path, v.Blob, lines)
	}
	f.Versions, f.Owners = versions, owners
}

const (
	magic    = "blame 2\n"
	maxFile  = 4 << 20  // bytes of one
	maxFiles = 16 << 20 // of those of a worktree
)

// name returns where a worktree has what is kept of a path.
func name(dir layout.Worktree, path string) string {
	id := object.Hash(object.Blob, []byte(path))
	return dir.Blame() + "/" + hex.EncodeToString(id[:16])
}

// Read returns what is kept of a path, nil if there is nothing that can be trusted.
func Read(fsys vfs.FS, dir layout.Worktree, path string) *File {
	b, err := vfs.ReadFile(fsys, name(dir, path))
	if err != nil {
		return nil
	}
	if b, err = cas.CutSum(b); err != nil {
		return nil
	}
	f, err := decode(b)
	if err != nil || f.Path != path {
		return nil
	}
	return f
}

// Write keeps a file, unless it is too large, or is not to be trusted any more by the time
// that nobody else can remove it. It is not synced: a file that a power cut has spoilt is
// none.
func (f *File) Write(ctx context.Context, fsys vfs.FS, dir layout.Worktree, isTrue func() (bool, error)) error {
	b := cas.AppendSum(f.append(nil))
	if len(b) > maxFile {
		return nil
	}
	if err := fsys.Mkdir(dir.Blame(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return layout.WithLock(ctx, fsys, dir.Blame()+"/lock", func() error {
		if is, err := isTrue(); err != nil || !is {
			return err
		}
		if err := makeRoom(fsys, dir, name(dir, f.Path), int64(len(b))); err != nil {
			return err
		}
		tmp := "tmp/" + layout.RandomName()
		w, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = w.WriteAt(b, 0)
		if err = errors.Join(err, w.Close()); err == nil {
			err = vfs.ReplaceFile(fsys, tmp, name(dir, f.Path))
		}
		fsys.Remove(tmp) // the old file, half a new one, or none
		return err
	})
}

// makeRoom removes what was kept first until another file fits in the place of an old one.
func makeRoom(fsys vfs.FS, dir layout.Worktree, old string, size int64) error {
	type kept struct {
		name string
		vfs.Stat
	}
	names, err := fsys.ReadDir(dir.Blame())
	if err != nil {
		return err
	}
	var all []kept
	for _, n := range names {
		k := kept{name: dir.Blame() + "/" + n}
		if k.Stat, err = fsys.Stat(k.name); err == nil && n != "lock" && k.name != old {
			all = append(all, k)
			size += k.Size
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Compare(a.Mtime, b.Mtime) })
	for _, k := range all {
		if size <= maxFiles {
			break
		}
		if err := fsys.Remove(k.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		size -= k.Size
	}
	return nil
}

// Remove removes all that is kept of all worktrees of a store: prunes do, and who forgets
// what is in it. What is written at the same time is by somebody who sees the new epoch.
func Remove(ctx context.Context, fsys vfs.FS) error {
	worktrees, err := fsys.ReadDir(layout.Worktrees)
	if err != nil {
		return err
	}
	for _, wt := range worktrees {
		dir := layout.Worktree(wt).Blame()
		names, rerr := fsys.ReadDir(dir)
		if rerr != nil || len(names) == 0 {
			continue
		}
		err = errors.Join(err, layout.WithLock(ctx, fsys, dir+"/lock", func() (err error) {
			for _, n := range names {
				if n != "lock" {
					if rerr := fsys.Remove(dir + "/" + n); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
						err = errors.Join(err, rerr)
					}
				}
			}
			return err
		}))
	}
	return err
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (f *File) append(b []byte) []byte {
	b = append(b, magic...)
	b = appendText(appendText(b, f.Store), f.Path)
	b = binary.AppendUvarint(binary.AppendUvarint(b, f.Epoch), f.Seq)
	b = append(b, f.Tree[:]...)
	b = binary.AppendUvarint(b, uint64(len(f.Owners)))
	for i := range f.Owners {
		b = f.Owners[i].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(f.Versions)))
	for _, v := range f.Versions {
		b = appendText(binary.AppendUvarint(b, v.Seq), v.Path)
		b = append(b, v.Blob[:]...)
		b = append(binary.AppendUvarint(b, uint64(len(v.runs))), v.runs...)
	}
	return b
}

func (o *Owner) append(b []byte) []byte {
	for _, s := range []string{o.Kind, o.Session, o.Entry, o.Title, o.Agent, o.Model} {
		b = appendText(b, s)
	}
	b = binary.AppendVarint(binary.AppendVarint(b, int64(o.Turn)), o.Time)
	b = binary.AppendUvarint(binary.AppendUvarint(b, o.Seq), o.Of)
	claimed := byte(0)
	if o.Claimed {
		claimed = 1
	}
	b = binary.AppendUvarint(append(b, claimed), uint64(len(o.By)))
	for _, by := range o.By {
		b = binary.AppendVarint(appendText(b, by.Session), int64(by.Turn))
	}
	return b
}

var errFormat = errors.New("not what was written")

// A decoder reads what append wrote. After an error it reads nothing.
type decoder struct {
	b   []byte
	all string // the same, of which texts are parts
	bad bool
}

func decode(b []byte) (*File, error) {
	text, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		return nil, errFormat
	}
	d := &decoder{b: text, all: string(text)}
	f := &File{Store: d.text(), Path: d.text(), Epoch: d.uint(), Seq: d.uint(), Tree: d.id()}
	f.Owners = make([]Owner, d.count())
	for i := range f.Owners {
		f.Owners[i] = d.owner()
	}
	f.Versions = make([]Kept, d.count())
	for i := range f.Versions {
		v := &f.Versions[i]
		v.Seq, v.Path, v.Blob = d.uint(), d.text(), d.id()
		n := d.count()
		v.runs, d.b = d.b[:n], d.b[n:]
	}
	if d.bad || string(d.b) != "\n" {
		return nil, errFormat
	}
	return f, nil
}

func (d *decoder) owner() (o Owner) {
	for _, s := range []*string{&o.Kind, &o.Session, &o.Entry, &o.Title, &o.Agent, &o.Model} {
		*s = d.text()
	}
	o.Turn, o.Time, o.Seq, o.Of = int(d.int()), d.int(), d.uint(), d.uint()
	o.Claimed = d.uint() == 1
	for range d.count() {
		o.By = append(o.By, By{d.text(), int(d.int())})
	}
	return o
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if d.bad = d.bad || size <= 0; d.bad {
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if d.bad = d.bad || size <= 0; d.bad {
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count reads how many there are of what takes a byte at least.
func (d *decoder) count() int {
	n := d.uint()
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	at := len(d.all) - len(d.b)
	d.b = d.b[n:]
	return d.all[at : at+n]
}

func (d *decoder) id() (id store.ID) {
	if d.bad = d.bad || len(d.b) < len(id); d.bad {
		return id
	}
	copy(id[:], d.b)
	d.b = d.b[len(id):]
	return id
}
