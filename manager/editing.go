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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

	root   *rollback.Root
	files  []*editFile
	made   []string             // directories that the edit made that is taken back
	modes  map[string]tree.Mode // that files and directories have again which are not there, or have become others
	result *EditResult
}

// An editFile is a file as it was read.
type editFile struct {
	asked, path string // as it was asked for, and where it is
	entry       *tree.Entry
	content     []byte
	unread      bool
	linked      bool // asked is a symbolic link to it
}

func (f *editFile) hash() string {
	if f.entry == nil {
		return ""
	}
	return f.entry.ID.String()
}

// run runs an edit. prepare reads files and says what becomes of them.
func (e *editing) run(prepare func() ([]patch.FileResult, error)) error {
	m := e.m
	root, err := m.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	e.root = root
	return m.withTurns(e.ctx, func(t *turns) error {
		r, err := m.newestEdit(e.ctx)
		if err == nil && e.preview && r != nil && r.Kind == kindEditIntent {
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
		e.result = &EditResult{Undoes: e.undoes, Session: m.opts.Session, Time: time.Now(), Files: []EditedFile{}, Preview: e.preview}
		if own := t.of(m.opts.Session); own != nil && own.isWindow() {
			e.result.Turn = &own.Turn
		}
		return e.write(t, results)
	})
}

// path returns where a path is: within the directory, through links that stay
// in it, and not in a repository.
func (e *editing) path(p string) (string, error) {
	m := e.m
	rel, err := m.relative(p)
	switch {
	case err != nil:
		return "", ErrOutside // who asks names the path
	case strings.HasSuffix(p, "/"):
		return "", fmt.Errorf("%w, but a directory by its name", ErrNotText)
	}
	full := filepath.Join(m.project.Root, filepath.FromSlash(rel))
	real := realPath(full)
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
		if lower := strings.ToLower(name); tree.IsVCS(lower, isDir) {
			is, lerr := os.Lstat(filepath.Join(dir, lower))
			if lower == name || err != nil || lerr == nil && os.SameFile(here, is) {
				return true
			}
		}
		dir = filepath.Join(dir, name)
	}
	return false
}

// read reads a file that is to be edited, once.
func (e *editing) read(asked string) ([]byte, error) {
	for _, f := range e.files {
		if f.asked == asked {
			return f.content, f.absent()
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
	sink := e.sink()
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
	case !f.entry.Mode.IsFile():
		return nil, fmt.Errorf("%w, but %s", ErrNotText, kindWord(f.entry.Mode))
	case e.anew:
	case patch.IsBinary(f.content):
		return nil, fmt.Errorf("%w: it holds NUL bytes", ErrNotText)
	case f.entry.Mode.Perm()&0o200 == 0:
		return nil, fmt.Errorf("%w: mode %04o", ErrReadOnly, f.entry.Mode.Perm())
	}
	e.files = append(e.files, f)
	return f.content, f.absent()
}

// sink returns one that keeps a content as far as the limit allows.
func (e *editing) sink() *memory {
	return &memory{limit: cmp.Or(e.m.opts.Limits.FileSize, tree.DefaultFileSize)}
}

func kindWord(mode tree.Mode) string {
	if mode.IsDir() {
		return "a directory"
	}
	return "a symbolic link"
}

func (f *editFile) absent() error {
	if f.entry == nil {
		return fs.ErrNotExist
	}
	return nil
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

func (s *memory) Put(kind store.Kind, content []byte) (store.ID, error) {
	s.content = content
	return store.Hash(kind, content), nil
}

func (s *memory) PutReader(r io.Reader) (store.ID, int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, s.limit+1))
	if err == nil && int64(len(b)) > s.limit {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrNotText, s.limit)
	}
	s.content = b
	return store.Hash(store.Blob, b), int64(len(b)), err
}

// file returns a file that was read, or one to be made.
func (e *editing) file(asked string) (*editFile, error) {
	_, err := e.read(asked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	i := slices.IndexFunc(e.files, func(f *editFile) bool { return f.asked == asked })
	return e.files[i], nil
}

// modeOf returns the mode of a file that an edit makes: as open as its
// directory, or the nearest one above it that is there.
func (e *editing) modeOf(path string) (tree.Mode, error) {
	perm, err := e.dirPerm(path)
	return tree.ModeFile | perm&0o666 | 0o600, err
}

// dirPerm returns the permission bits of the nearest directory above a path
// that is there. That of the root is not looked at.
func (e *editing) dirPerm(path string) (tree.Mode, error) {
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path[:i], '/') {
		now, err := e.root.Entry(e.ctx, path[:i], e.sink())
		if err != nil {
			return 0, err
		}
		if now != nil {
			return now.Mode & 0o777 &^ 0o022, nil
		}
	}
	return 0o755, nil
}

// write writes what becomes of files.
func (e *editing) write(t *turns, results []patch.FileResult) error {
	m := e.m
	var w *store.Writer
	var dst tree.Putter = e.sink() // a preview keeps nothing
	if !e.preview {
		var err error
		if w, err = m.store.Begin(e.ctx); err != nil {
			return err
		}
		defer w.Close()
		dst = w
	}
	var wants []rollback.Want
	want := func(path string, old, new *tree.Entry) { // of a path that one file leaves and another takes, one
		i := slices.IndexFunc(wants, func(w rollback.Want) bool { return w.Path == path })
		if i < 0 {
			wants = append(wants, rollback.Want{Path: path, Old: old, New: new, Created: true})
		} else if new != nil {
			wants[i].New = new
		}
	}
	put := func(f *editFile, content []byte, mode tree.Mode) (*tree.Entry, error) {
		entry := &tree.Entry{Name: filepath.Base(f.path), Mode: mode, Size: int64(len(content))}
		var err error
		entry.ID, err = dst.Put(store.Blob, content)
		return entry, err
	}
	var raw [][2][]byte
	for i := range results {
		r := &results[i]
		f, err := e.file(r.Path)
		if err != nil {
			return err
		}
		edited := EditedFile{Path: f.path, Op: r.Op, Unread: f.unread && f.entry != nil, BeforeHash: f.hash(), BeforeSHA256: sha(f)}
		if f.linked && (r.Op == patch.Delete || r.To != "") {
			return fmt.Errorf("%q: %w, but a symbolic link", f.asked, ErrNotText)
		}
		var entry *tree.Entry
		if r.Op == patch.Delete {
			want(f.path, f.entry, nil)
		} else {
			to := f
			if r.To != "" {
				want(f.path, f.entry, nil)
				if to, err = e.file(r.To); err != nil {
					return err
				}
				edited.To = to.path
			}
			if !e.anew && patch.IsBinary(r.Content) {
				return fmt.Errorf("%q: %w: the new text holds NUL bytes", f.asked, ErrNotText)
			}
			mode, err := e.modeOf(to.path)
			switch {
			case err != nil:
				return err
			case e.modes[to.path] != 0:
				mode = e.modes[to.path]
			case f.entry != nil:
				mode = f.entry.Mode
			case r.Executable:
				mode |= 0o100 | mode>>2&0o011
			}
			if entry, err = put(to, r.Content, mode); err != nil {
				return err
			}
			want(to.path, to.entry, entry)
			edited.AfterHash, edited.AfterSHA256 = entry.ID.String(), shaOf(r.Content)
		}
		edited.note(r)
		edited.Diff = string(patch.AppendUnified(nil, patchFile(f.path, f.entry, r.Before), patchFile(cmp.Or(edited.To, f.path), entry, r.Content), nil))
		e.result.Files = append(e.result.Files, edited)
		raw = append(raw, [2][]byte{[]byte(f.path), []byte(edited.To)})
	}
	if e.preview {
		return nil
	}
	return e.commit(t, w, wants, raw)
}

func patchFile(path string, e *tree.Entry, content []byte) patch.File {
	f := patch.File{Name: path, Content: content}
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
		if order := patch.Stages(); slices.Index(order, h.Match.Stage) > slices.Index(order, f.Stage) {
			f.Stage = h.Match.Stage
		}
		f.Warnings = append(f.Warnings, h.Warnings...)
	}
}

// commit writes the files, between two records.
func (e *editing) commit(t *turns, w *store.Writer, wants []rollback.Want, raw [][2][]byte) error {
	m := e.m
	stay, wants, err := e.dirs(wants)
	if err != nil {
		return err
	}
	plan, err := rollback.NewPlan(e.ctx, e.root, wants, &rollback.Options{})
	if err == nil {
		err = plan.Save(e.ctx, e.root, w)
	}
	if err != nil {
		return err
	}
	if err := notWritten(plan); err != nil {
		return err
	}
	if !plan.Changes() {
		return nil
	}
	states, err := statesOf(e.ctx, m.store, w, wants, stay)
	if err != nil {
		return err
	}
	newest, err := m.newestEdit(e.ctx)
	if err != nil {
		return err
	}
	e.result.UndoID = newRestoreID()
	data := editData{Version: editVersion, EditResult: *e.result, Raw: raw}
	data.Files = slices.Clone(data.Files)
	for i := range data.Files {
		data.Files[i].Diff = "" // of contents there are only hashes
	}
	intent, err := m.commitEdit(e.ctx, w, newest, kindEditIntent, states, &data)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(e.ctx)
	err = plan.Apply(e.ctx, e.root, m.store, e.result.UndoID)
	if err == nil {
		err = notWritten(plan)
	}
	if err == nil {
		_, err = m.commitEdit(ctx, w, intent, kindEdit, states, &data)
	}
	if err != nil {
		if berr := m.takeBackEdit(ctx, intent); berr != nil {
			return fmt.Errorf("%w; and it could not be taken back, which the next edit tries again: %w", err, berr)
		}
		return err
	}
	var list [][]byte
	for _, want := range wants {
		if want.New != nil && want.New.Mode.IsDir() {
			continue
		}
		list = append(list, []byte(want.Path))
		if _, known := m.reads[want.Path]; known {
			if m.reads[want.Path] = ""; want.New != nil {
				m.reads[want.Path] = want.New.ID.String()
			}
		}
	}
	for _, o := range t.Open {
		switch {
		case o.Session != m.opts.Session:
			o.Foreign = addPaths(o.Foreign, list)
		case o.isWindow():
			o.Claims = addPaths(o.Claims, list)
		}
	}
	return nil
}

// notWritten returns an error for the first path that a plan leaves out.
func notWritten(plan *rollback.Plan) error {
	for _, it := range plan.Items {
		switch it.Do {
		case rollback.Kept:
			if it.Now.Mode.IsDir() {
				continue // somebody has put something into it
			}
			return fmt.Errorf("%q: %s: nothing was written", it.Path, it.Why)
		case rollback.Skipped:
			return fmt.Errorf("%q: %w it was read (%s): nothing was written", it.Path, ErrStale, it.Why)
		case rollback.Failed:
			return fmt.Errorf("%q: %s: nothing was written", it.Path, it.Why)
		}
	}
	return nil
}

// dirs returns the directories above files, which stay, and the wants with those
// that are not there yet, or go with the edit that is taken back.
func (e *editing) dirs(wants []rollback.Want) (stay []tree.Edit, all []rollback.Want, err error) {
	all = wants
	seen := make(map[string]bool)
	for _, path := range e.made {
		seen[path] = true
		now, err := e.root.Entry(e.ctx, path, e.sink())
		if err != nil {
			return nil, nil, err
		}
		if now != nil && now.Mode.IsDir() {
			all = append(all, rollback.Want{Path: path, Old: now, Created: true})
		}
	}
	for _, want := range wants {
		for i := strings.LastIndexByte(want.Path, '/'); i >= 0; i = strings.LastIndexByte(want.Path[:i], '/') {
			path := want.Path[:i]
			if seen[path] {
				continue
			}
			seen[path] = true
			now, err := e.root.Entry(e.ctx, path, e.sink())
			switch {
			case err != nil:
				return nil, nil, err
			case now != nil && !now.Mode.IsDir():
				return nil, nil, fmt.Errorf("%q: %w: %q is no directory", want.Path, ErrNotText, path)
			case now != nil && !e.anew && now.Mode.Perm()&0o200 == 0 && path == want.Path[:max(0, strings.LastIndexByte(want.Path, '/'))] && (want.Old == nil || want.New == nil):
				return nil, nil, fmt.Errorf("%q: %w: directory %q has mode %04o", want.Path, ErrReadOnly, path, now.Mode.Perm())
			case now != nil:
				stay = append(stay, tree.Edit{Path: path, New: now})
			case want.New != nil:
				perm, err := e.dirPerm(path)
				if err != nil {
					return nil, nil, err
				}
				if mode := e.modes[path]; mode.IsDir() {
					perm = mode & 0o777
				}
				all = append(all, rollback.Want{Path: path, New: &tree.Entry{Name: filepath.Base(path), Mode: tree.ModeDir | perm, ID: tree.Empty}, Created: true, Parent: true})
			}
		}
	}
	return stay, all, nil
}

// statesOf stores two trees with nothing but some files, before and after, and
// directories that stay.
func statesOf(ctx context.Context, g tree.Getter, w *store.Writer, wants []rollback.Want, stay []tree.Edit) (states [2]store.ID, err error) {
	before, after := slices.Clone(stay), slices.Clone(stay)
	for _, want := range wants {
		before = append(before, tree.Edit{Path: want.Path, New: want.Old})
		after = append(after, tree.Edit{Path: want.Path, New: want.New})
	}
	for i, edits := range [][]tree.Edit{before, after} {
		if states[i], err = tree.Patch(ctx, g, w, store.ID{}, edits); err != nil {
			return states, err
		}
	}
	return states, nil
}

// commitEdit commits a record of an edit.
func (m *FileSnapshotManager) commitEdit(ctx context.Context, w *store.Writer, newest *editRecord, kind string, states [2]store.ID, data *editData) (*editRecord, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	r := &editRecord{data: *data, Snapshot: &store.Snapshot{Kind: kind, Worktree: m.editWorktree(), Root: m.project.Root, Session: editSession,
		Time: time.Now(), Base: store.State{Tree: states[0]}, Tree: states[1], Data: b}}
	if newest != nil {
		r.Parent = newest.Seq
	}
	return r, w.Commit(ctx, r.Snapshot, r.Parent)
}

// recoverEdit takes back the newest edit if it was cut off. r may be nil: there is
// none.
func (m *FileSnapshotManager) recoverEdit(ctx context.Context, r *editRecord) error {
	if r == nil || r.Kind != kindEditIntent || r.Pruned {
		return nil
	}
	if err := m.takeBackEdit(ctx, r); err != nil {
		return fmt.Errorf("an edit was cut off, and cannot be taken back: %w", err)
	}
	m.log.Warn("an edit that was cut off was taken back", "undoId", r.data.UndoID)
	return nil
}

// takeBackEdit changes back what an edit has written that was cut off. What
// somebody else has written since stays.
func (m *FileSnapshotManager) takeBackEdit(ctx context.Context, intent *editRecord) error {
	root, err := m.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	forward, err := m.wantsBetween(ctx, intent.Base.Tree, intent.Tree)
	if err != nil {
		return err
	}
	back, err := m.wantsBetween(ctx, intent.Tree, intent.Base.Tree)
	if err != nil {
		return err
	}
	if err := rollback.Sweep(ctx, root, forward, intent.data.UndoID); errors.Is(err, rollback.ErrAside) {
		m.log.Warn("something of an edit that was cut off is left", "err", err)
	} else if err != nil {
		return err
	}
	w, err := m.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	plan, err := rollback.NewPlan(ctx, root, back, &rollback.Options{})
	if err == nil {
		err = plan.Save(ctx, root, w)
	}
	if err == nil {
		err = plan.Apply(ctx, root, m.store, intent.data.UndoID)
	}
	if err != nil {
		return err
	}
	for _, it := range plan.Items {
		if it.Do != rollback.Failed {
			continue
		}
		if was, err := m.isForgotten(it.New); !was || err != nil { // then it stays as it is, for good
			return errors.Join(fmt.Errorf("%q: %s", it.Path, it.Why), err)
		}
	}
	data := intent.data
	data.Aborted = true
	_, err = m.commitEdit(ctx, w, intent, kindEdit, [2]store.ID{intent.Base.Tree, intent.Base.Tree}, &data)
	return err
}
