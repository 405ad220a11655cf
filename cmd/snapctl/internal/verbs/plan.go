package verbs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Agreed is what somebody has seen in a preview.
type Agreed struct {
	Plan string `json:"plan,omitempty"` // do this, and nothing else
}

// Planned asks a preview for more.
type Planned struct {
	Diffs   bool `json:"diffs,omitempty"`   // of each file, from what it is to what it would be
	Context int  `json:"context,omitempty"` // as in get_turn_diff
}

// A PlannedFile is what a restore would make of a file.
type PlannedFile struct {
	Path        string          `json:"path"`
	PathBytes   []byte          `json:"pathBytes,omitempty"` // if it is not UTF-8
	Action      rollback.Action `json:"action"`
	Added       int             `json:"added"` // lines
	Deleted     int             `json:"deleted"`
	Binary      bool            `json:"binary,omitempty"`
	UnifiedDiff string          `json:"unifiedDiff"`
	DiffBytes   []byte          `json:"unifiedDiffBytes,omitempty"` // if it is not UTF-8
	TooLong     bool            `json:"tooLong,omitempty"`          // the diff is left out
}

// PlanSum returns a sum of what a restore does to which contents.
func PlanSum(r *manager.RestoreResult) string {
	h := sha256.New()
	entry := func(e *tree.Entry) string {
		if e == nil {
			return ""
		}
		return fmt.Sprintf("%+v", *e)
	}
	for i := range r.Items {
		it := &r.Items[i]
		fmt.Fprintf(h, "%q %s %q %q %q %q\n", it.Path, it.Do, it.Why, entry(it.Now), entry(it.New), it.From)
	}
	for _, mv := range r.Moves {
		fmt.Fprintf(h, "%q %q %q\n", mv.From, mv.To, mv.Why)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// holds makes a preview, and returns an error unless it does what was agreed to.
func (s *Session) holds(ctx context.Context, isPreview *bool, plan string,
	do func(ctx context.Context) (*manager.RestoreResult, error)) (*Restored, error) {
	*isPreview = true
	r, err := do(ctx)
	*isPreview = false
	if err != nil || PlanSum(r) == plan {
		return nil, err
	}
	answer := &Restored{RestoreResult: r, Complete: r.IsComplete(), Plan: PlanSum(r), Entries: []session.Entry{}}
	return answer, explain.Errorf(explain.OtherPlan,
		"nothing was changed: files have changed since the preview, and something else would be done now")
}

// mergedTexts are what files would be merged to, by their IDs.
type mergedTexts map[store.ID][]byte

func (m mergedTexts) add(id store.ID, text []byte) { m[id] = text }

// planDiffs returns what a plan would make of files, as far as there is room.
func (s *Session) planDiffs(ctx context.Context, r *manager.RestoreResult, texts mergedTexts, around int) (
	list []PlannedFile, err error) {
	list, length := []PlannedFile{}, 0
	onDisk, inStore := filediff.OnDisk(s.Project().Root), filediff.InStore(inside.Store(s.FileSnapshotManager))
	wanted := func(ctx context.Context, path string, e *tree.Entry) ([]byte, error) {
		if text, ok := texts[e.ID]; ok {
			return text, nil
		}
		return inStore(ctx, path, e)
	}
	for i := range r.Items {
		it := &r.Items[i]
		isDir := func(e *tree.Entry) bool { return e != nil && e.Mode.IsDir() }
		if it.Do != rollback.Restore && it.Do != rollback.Delete || isDir(it.Now) || isDir(it.New) {
			continue
		}
		from := cmp.Or(it.From, it.Path)
		d := &tree.Difference{Path: it.Path, Old: it.Now, New: it.New}
		if it.Do == rollback.Delete {
			d.New = nil
		}
		old, new, err := filediff.Files(ctx, onDisk, wanted, from, d)
		if err != nil {
			return nil, fmt.Errorf("preview of %q: %w", it.Path, err)
		}
		f := PlannedFile{Path: it.Path, PathBytes: words.BytesUnlessText(it.Path), Action: it.Do}
		stat := filediff.Count(old, new)
		f.Added, f.Deleted, f.Binary = stat.Added, stat.Deleted, stat.Binary
		text := textdiff.AppendUnified(nil, old, new, &textdiff.UnifiedOptions{Context: around})
		switch length += len(text); {
		case length > maxDiffs:
			f.TooLong = true
		case !utf8.Valid(text):
			f.DiffBytes = text
			fallthrough
		default:
			f.UnifiedDiff = string(text)
		}
		list = append(list, f)
	}
	return list, nil
}
