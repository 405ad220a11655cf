package manager

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// An editing is an edit while it runs.
type editing struct {
	m       *FileSnapshotManager
	ctx     context.Context
	preview bool
	undoes  string
	anew    bool // files are read whatever they held before, and whatever they are

	expected map[string]string // hashes, by path

	root   *livedir.Root
	w      *cas.Writer
	files  []*editFile
	dirs   map[string]*editDir  // above files that are written, by path
	modes  map[string]tree.Mode // that files and directories have again which are not there, or have become others
	result *EditResult
	data   editData    // of its records
	intent *editRecord // that it is about to be written
}

// An editFile is a file as it was read.
type editFile struct {
	asked, path string // as it was asked for, and where it is
	entry       *tree.Entry
	content     []byte
	unread      bool
	linked      bool // asked is a symbolic link to it

	changes bool
	becomes *tree.Entry // if it changes; nil: it goes
}

// An editDir is a directory above a file: what is there, and what it becomes.
type editDir struct{ now, becomes *tree.Entry }

func (f *editFile) hash() string { return hashOf(f.entry) }

func hashOf(e *tree.Entry) string {
	if e == nil {
		return ""
	}
	return e.ID.String()
}

// run runs an edit, by its name for people. prepare reads files and says what becomes
// of them.
func (e *editing) run(what string, prepare func() ([]patch.FileResult, error)) (*EditResult, error) {
	return restoring(e.ctx, e.m, what, func(ctx context.Context) (_ *EditResult, err error) {
		e.ctx = ctx
		if e.root, err = e.m.openRoot(); err != nil {
			return nil, err
		}
		defer e.root.Close()
		e.files, e.dirs, e.modes = nil, make(map[string]*editDir), make(map[string]tree.Mode)
		if err := e.m.withTurns(e.ctx, func(t *history.Turns) error { return e.runLocked(t, prepare) }); err != nil {
			return nil, err
		}
		return e.result, nil
	})
}

// runLocked is run for who holds the lock on the worktree's turns.
func (e *editing) runLocked(t *history.Turns, prepare func() ([]patch.FileResult, error)) error {
	m := e.m
	r, err := m.newestEdit(e.ctx)
	if err == nil && e.preview && r != nil && r.Kind == history.KindEditIntent {
		return ErrEditCutOff
	}
	if err == nil {
		err = m.recoverEdit(e.ctx, r)
	}
	if err != nil {
		return err
	}
	results, err := prepare()
	if err != nil {
		return err
	}
	e.result = &EditResult{Undoes: e.undoes, Session: m.opts.Session, Time: time.Now(), Preview: e.preview}
	e.result.Files = []EditedFile{}
	if own := t.Of(m.opts.Session); own != nil && own.IsWindow() {
		e.result.Turn = &own.Turn
	}
	return e.write(t, results)
}

// path returns where a path is: within the directory, through links that stay
// in it, and not in a repository.
func (e *editing) path(p string) (string, error) {
	m := e.m
	rel, err := m.relative(p)
	switch {
	case errors.Is(err, inside.ErrPath): // who asks names the path
		return "", inside.ErrPath
	case err != nil:
		return "", ErrOutside
	case strings.HasSuffix(p, "/"):
		return "", fmt.Errorf("%w, but a directory by its name", ErrNotText)
	}
	full := filepath.Join(m.project.Root, filepath.FromSlash(rel))
	real := vfs.RealPath(full)
	if st, err := os.Lstat(real); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		if real, err = filepath.EvalSymlinks(full); err != nil {
			return "", fmt.Errorf("%w, but a symbolic link that leads nowhere", ErrNotText)
		}
	}
	root, err := filepath.EvalSymlinks(m.project.Root)
	if err != nil {
		return "", err
	}
	back, err := filepath.Rel(root, real)
	if back = filepath.ToSlash(back); err != nil || back == ".." || strings.HasPrefix(back, "../") || back == "." {
		return "", ErrOutside
	}
	if m.isVCS(back) {
		return "", fmt.Errorf("%w: the insides of a repository are its own", ErrOutside)
	}
	return back, nil
}

// isVCS reports whether a path is, or is in, what a version control system keeps
// as its own. A name that differs from theirs in case counts where it is the same
// file, or where it is not there yet: it may be made on a disk to which it is.
func (m *FileSnapshotManager) isVCS(rel string) bool {
	dir, names := m.project.Root, strings.Split(rel, "/")
	for i, name := range names {
		here, err := os.Lstat(filepath.Join(dir, name))
		isDir := i < len(names)-1 || err == nil && here.IsDir()
		if lower := strings.ToLower(name); trees.IsVCS(lower, isDir) {
			is, lerr := os.Lstat(filepath.Join(dir, lower))
			if lower == name || err != nil || lerr == nil && os.SameFile(here, is) {
				return true
			}
		}
		dir = filepath.Join(dir, name)
	}
	return false
}

// read reads a file that is to be edited.
func (e *editing) read(asked string) ([]byte, error) {
	f, err := e.file(asked)
	if err != nil {
		return nil, err
	}
	if f.entry == nil {
		return nil, fs.ErrNotExist
	}
	return f.content, nil
}

// file returns a file as it was read first. It need not be there.
func (e *editing) file(asked string) (*editFile, error) {
	for _, f := range e.files {
		if f.asked == asked {
			return f, nil
		}
	}
	path, err := e.path(asked)
	if err != nil {
		return nil, err
	}
	for _, f := range e.files {
		if f.path == path {
			return nil, fmt.Errorf("it is %q, too: patch it under one name", f.asked)
		}
	}
	f := &editFile{asked: asked, path: path}
	if rel, err := e.m.relative(asked); err == nil {
		st, err := os.Lstat(filepath.Join(e.m.project.Root, filepath.FromSlash(rel)))
		f.linked = err == nil && st.Mode()&fs.ModeSymlink != 0
	}
	sink, err := e.sink(path)
	if err != nil {
		return nil, err
	}
	if f.entry, err = e.root.Entry(e.ctx, path, sink); err != nil {
		return nil, err
	}
	f.content = sink.content
	want, known := e.expected[path]
	if !known {
		want, known = e.m.reads[path]
	}
	f.unread = !known
	switch {
	case known && !e.anew && !strings.EqualFold(want, f.hash()) && !strings.EqualFold(want, sha(f)):
		return nil, fmt.Errorf("%w it was read: read it again", ErrStale)
	case f.entry == nil:
	case f.entry.Mode.Kind() != tree.ModeFile:
		return nil, fmt.Errorf("%w, but %s", ErrNotText, kindWord(f.entry.Mode))
	case e.anew:
	case similar.IsBinary(f.content):
		return nil, fmt.Errorf("%w: it holds NUL bytes", ErrNotText)
	case f.entry.Mode&0o200 == 0:
		return nil, fmt.Errorf("%w: mode %04o", ErrReadOnly, f.entry.Mode&0o777)
	}
	e.files = append(e.files, f)
	return f, nil
}

// sink returns one that keeps the content of a path, as far as captures take it.
func (e *editing) sink(path string) (*memory, error) {
	limit, err := capture.MostOf(e.m.opts.Limits, path)
	return &memory{limit: min(limit, anySize)}, err
}

// anySize limits nothing.
const anySize = math.MaxInt64 - 1

func kindWord(mode tree.Mode) string {
	if mode.IsDir() {
		return "a directory"
	}
	return "a symbolic link"
}

// sha returns a file's SHA-256, "" if it is not there.
func sha(f *editFile) string {
	if f.entry == nil {
		return ""
	}
	return shaOf(f.content)
}

func shaOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// memory is a sink that keeps one content in memory.
type memory struct {
	content []byte
	limit   int64
}

func (s *memory) Put(kind object.Kind, content []byte) (store.ID, error) {
	s.content = content
	return object.Hash(kind, content), nil
}

func (s *memory) PutReader(r io.Reader) (store.ID, int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, s.limit+1))
	if err == nil && int64(len(b)) > s.limit {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrNotText, s.limit)
	}
	s.content = b
	return object.Hash(object.Blob, b), int64(len(b)), err
}

// modeOf returns the mode of what an edit puts at a path: what it was when the edit
// that is taken back found it, or that of the file whose content it is; else as open
// as its directory, or the nearest one above it that is there.
func (e *editing) modeOf(path string, was *tree.Entry, executable bool) (tree.Mode, error) {
	switch {
	case e.modes[path] != 0:
		return e.modes[path], nil
	case was != nil:
		return was.Mode, nil
	}
	perm, err := e.dirPerm(path)
	mode := tree.ModeFile | perm&0o666 | 0o600
	if executable {
		mode |= 0o100 | mode>>2&0o011
	}
	return mode, err
}

// dirPerm returns the permission bits of the nearest directory above a path
// that is there. That of the root is not looked at.
func (e *editing) dirPerm(p string) (tree.Mode, error) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		d, err := e.dir(dir)
		if err != nil {
			return 0, err
		}
		if d.now != nil {
			return d.now.Mode & 0o777 &^ 0o022, nil
		}
	}
	return 0o755, nil
}

// dir returns what is at a path above a file. It stays.
func (e *editing) dir(p string) (*editDir, error) {
	d, known := e.dirs[p]
	if !known {
		now, err := e.root.Entry(e.ctx, p, &memory{limit: anySize})
		if err != nil {
			return nil, err
		}
		d = &editDir{now, now}
		e.dirs[p] = d
	}
	return d, nil
}

// write writes what becomes of files.
func (e *editing) write(t *history.Turns, results []patch.FileResult) error {
	var dst trees.Putter = &memory{limit: anySize} // a preview keeps nothing
	if !e.preview {
		var err error
		if e.w, err = e.m.store.Begin(e.ctx); err != nil {
			return err
		}
		defer e.w.Close()
		dst = e.w
	}
	for i := range results {
		edited, err := e.put(&results[i], dst)
		if err != nil {
			return err
		}
		e.result.Files = append(e.result.Files, *edited)
	}
	if e.preview {
		return nil
	}
	return e.commit(t)
}

// become notes what a file becomes. If one leaves its path and another takes it, it
// becomes the latter.
func (f *editFile) become(e *tree.Entry) {
	if f.changes = true; e != nil {
		f.becomes = e
	}
}

// put notes what becomes of a file, and puts its new content into dst.
func (e *editing) put(r *patch.FileResult, dst trees.Putter) (*EditedFile, error) {
	f, err := e.file(r.Path)
	if err != nil {
		return nil, err
	}
	edited := &EditedFile{Path: f.path, Op: r.Op, BeforeHash: f.hash(), BeforeSHA256: sha(f)}
	edited.Unread = f.unread && f.entry != nil
	if f.linked && (r.Op == patch.Delete || r.To != "") {
		return nil, fmt.Errorf("%q: %w, but a symbolic link", f.asked, ErrNotText)
	}
	var entry *tree.Entry
	if r.Op == patch.Delete {
		f.become(nil)
	} else {
		to := f
		if r.To != "" {
			f.become(nil)
			if to, err = e.file(r.To); err != nil {
				return nil, err
			}
			edited.To = to.path
		}
		if !e.anew && similar.IsBinary(r.Content) {
			return nil, fmt.Errorf("%q: %w: the new text holds NUL bytes", f.asked, ErrNotText)
		}
		entry = &tree.Entry{Name: filepath.Base(to.path), Size: int64(len(r.Content))}
		if entry.Mode, err = e.modeOf(to.path, f.entry, r.Executable); err != nil {
			return nil, err
		}
		if entry.ID, err = dst.Put(object.Blob, r.Content); err != nil {
			return nil, err
		}
		to.become(entry)
		edited.AfterHash, edited.AfterSHA256 = entry.ID.String(), shaOf(r.Content)
	}
	edited.note(r)
	before, after := patchFile(f.path, f.entry, r.Before), patchFile(cmp.Or(edited.To, f.path), entry, r.Content)
	edited.Diff = string(textdiff.AppendUnified(nil, before, after, nil))
	return edited, nil
}

func patchFile(path string, e *tree.Entry, content []byte) textdiff.File {
	f := textdiff.File{Name: path, Content: content}
	if e != nil {
		f.Mode = uint32(e.Mode)
	}
	return f
}

// note says how the pieces of a file were put.
func (f *EditedFile) note(r *patch.FileResult) {
	if len(r.Hunks) == 0 {
		return
	}
	f.Mode, f.Similarity = patch.IsExact, 1
	for _, h := range r.Hunks {
		f.Replacements += h.Match.Count
		f.Similarity = min(f.Similarity, h.Match.Similarity)
		if h.Match.Kind == patch.IsFuzzy {
			f.Mode = patch.IsFuzzy
		}
		if slices.Index(stages, h.Match.Stage) > slices.Index(stages, f.Stage) {
			f.Stage = h.Match.Stage
		}
		f.Warnings = append(f.Warnings, h.Warnings...)
	}
}

// commit writes the files, between two records.
func (e *editing) commit(t *history.Turns) error {
	m := e.m
	c := m.newChange(e.root, e.w, e)
	c.ID, c.Refuse = layout.RandomName(), refuse
	if err := e.states(c); err != nil {
		return err
	}
	wants, err := change.Between(e.ctx, c.Pages, c.Before.Tree, c.After.Tree)
	if err != nil {
		return err
	}
	if c.Plan, err = livedir.NewPlan(e.ctx, e.root, wants, &livedir.Options{}); err != nil {
		return err
	}
	changed, err := c.Do(e.ctx)
	if err != nil || !changed {
		return err
	}
	var list [][]byte
	for _, f := range e.files {
		if !f.changes {
			continue
		}
		list = append(list, []byte(f.path))
		if _, known := m.reads[f.path]; known {
			m.reads[f.path] = hashOf(f.becomes)
		}
	}
	for _, o := range t.Open {
		switch {
		case o.Session != m.opts.Session:
			o.Foreign = history.AddPaths(o.Foreign, list)
		case o.IsWindow():
			o.Claim(list)
		}
	}
	return nil
}

// refuse returns an error for a path that a plan leaves alone: an edit is done as a
// whole. A directory that it would remove may stay: somebody has put something into it.
func refuse(it rollback.Item) error {
	switch {
	case it.Do == rollback.Kept && it.Now.Mode.IsDir():
		return nil
	case it.Do == rollback.Skipped:
		return fmt.Errorf("%q: %w it was read (%s)", it.Path, ErrStale, it.Why)
	}
	return fmt.Errorf("%q: %s", it.Path, it.Why)
}

// states stores two trees with nothing in them but the edit's files, before and after
// it, and the directories above these: those that are not there yet are made.
func (e *editing) states(c *change.Change) (err error) {
	var before, after []trees.Edit
	add := func(path string, now, becomes *tree.Entry) {
		before = append(before, trees.Edit{Path: path, New: now})
		after = append(after, trees.Edit{Path: path, New: becomes})
	}
	for _, f := range e.files {
		if !f.changes {
			continue
		}
		add(f.path, f.entry, f.becomes)
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			if err := e.enter(f, dir); err != nil {
				return err
			}
		}
	}
	for path, d := range e.dirs {
		if d.now != nil || d.becomes != nil {
			add(path, d.now, d.becomes)
		}
	}
	if c.Before.Tree, err = trees.Patch(e.ctx, c.Pages, e.w, store.ID{}, before); err == nil {
		c.After.Tree, err = trees.Patch(e.ctx, c.Pages, e.w, store.ID{}, after)
	}
	return err
}

// enter sees to it that a directory above a file is there if the file is to be, and
// refuses one in which the edit cannot change names.
func (e *editing) enter(f *editFile, dir string) error {
	d, err := e.dir(dir)
	if err != nil {
		return err
	}
	isDirect := dir == path.Dir(f.path)
	switch now := d.now; {
	case now == nil && d.becomes == nil && f.becomes != nil:
		perm, err := e.dirPerm(dir)
		if err != nil {
			return err
		}
		if mode := e.modes[dir]; mode.IsDir() {
			perm = mode & 0o777
		}
		d.becomes = &tree.Entry{Name: path.Base(dir), Mode: tree.ModeDir | perm, ID: trees.Empty}
	case now == nil:
	case !now.Mode.IsDir():
		return fmt.Errorf("%q: %w: %q is no directory", f.path, ErrNotText, dir)
	case isDirect && !e.anew && now.Mode&0o200 == 0 && (f.entry == nil || f.becomes == nil):
		return fmt.Errorf("%q: %w: directory %q has mode %04o", f.path, ErrReadOnly, dir, now.Mode&0o777)
	}
	return nil
}

// Intend records that the edit is about to be written.
func (e *editing) Intend(ctx context.Context, c *change.Change) error {
	newest, err := e.m.newestEdit(ctx)
	if err != nil {
		return err
	}
	e.result.UndoID = c.ID
	e.data = newEditData(e.result)
	e.intent, err = e.commitRecord(ctx, history.KindEditIntent, newest, c.Before.Tree, c.After.Tree)
	return err
}

// Done records that the edit was written.
func (e *editing) Done(ctx context.Context, c *change.Change) error {
	_, err := e.commitRecord(ctx, history.KindEdit, e.intent, c.Before.Tree, c.After.Tree)
	return err
}

// Ended records that an edit that was cut off was taken back.
func (e *editing) Ended(ctx context.Context, _ change.Direction, _ store.State, plan *livedir.Plan) error {
	for _, it := range plan.Items {
		if it.Do != rollback.Failed {
			continue
		}
		if was, err := e.m.isForgotten(it.New); !was || err != nil { // then it stays as it is, for good
			return errors.Join(fmt.Errorf("%q: %s", it.Path, it.Why), err)
		}
	}
	e.data.Aborted = true
	_, err := e.commitRecord(ctx, history.KindEdit, e.intent, e.intent.Base.Tree, e.intent.Base.Tree)
	return err
}

// commitRecord commits a record of the edit, behind another one of the worktree.
func (e *editing) commitRecord(
	ctx context.Context, kind string, behind *editRecord, before, after store.ID,
) (*editRecord, error) {
	b, err := json.Marshal(&e.data)
	if err != nil {
		return nil, err
	}
	r := &editRecord{data: e.data, Snapshot: &store.Snapshot{
		Kind: kind, Worktree: e.m.editWorktree(), Root: e.m.project.Root, Session: history.EditSession,
		Time: time.Now(), Base: store.State{Tree: before}, Tree: after, Data: b}}
	if behind != nil {
		r.Parent = behind.Seq
	}
	return r, e.w.Commit(ctx, r.Snapshot, r.Parent)
}

// recoverEdit takes back the newest edit if it was cut off. r may be nil: there is
// none.
func (m *FileSnapshotManager) recoverEdit(ctx context.Context, r *editRecord) error {
	if r == nil || r.Kind != history.KindEditIntent || r.Pruned {
		return nil
	}
	root, err := m.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	w, err := m.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c := m.newChange(root, w, &editing{m: m, w: w, data: r.data, intent: r})
	c.ID, c.Before, c.After = r.data.UndoID, r.Base, r.State()
	if _, err := c.End(ctx, change.Back); err != nil {
		return fmt.Errorf("an edit was cut off, and cannot be taken back: %w", err)
	}
	m.log.Warn("an edit that was cut off was taken back", "undoId", r.data.UndoID)
	return nil
}
