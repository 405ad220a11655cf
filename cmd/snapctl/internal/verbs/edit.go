package verbs

import (
	"context"
	"errors"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
)

// ApplyPatch edits files.
type ApplyPatch struct {
	Format     patch.Format      `json:"format,omitempty"` // of patch; default: told by its look
	Patch      string            `json:"patch,omitempty"`  // in place of old and new
	Path       string            `json:"path,omitempty"`
	Old        string            `json:"old,omitempty"`
	New        string            `json:"new,omitempty"`
	Fuzzy      bool              `json:"fuzzy,omitempty"` // also what is only similar; see manager.EditRequest
	Sequential bool              `json:"sequential,omitempty"`
	Fuzz       *int              `json:"fuzz,omitempty"`     // of a unified diff
	Expected   map[string]string `json:"expected,omitempty"` // hashes, by path
	Options    MatchOptions      `json:"options,omitzero"`
	Preview    bool              `json:"preview,omitempty"`
}

// UndoPatch takes back an edit.
type UndoPatch struct {
	UndoID string `json:"undoId"`
	manager.UndoEditOptions
}

// Edited says what an edit did, or why it was refused.
type Edited struct {
	*manager.EditResult
	Refusals  []Refusal `json:"refusals,omitempty"`
	FuzzyFits bool      `json:"fuzzyFits,omitempty"` // of a refusal: with fuzzy all pieces could be put
}

// A Refusal says why a piece of a patch was refused.
type Refusal struct {
	Path    string       `json:"path,omitempty"`
	Line    int          `json:"line,omitempty"` // of the patch
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message"`
	Near    []patch.Near `json:"near,omitempty"`
	Code    string       `json:"code,omitempty"` // of an error of the file: outside, stale, …
}

// Refusals returns why pieces of a patch were refused.
func Refusals(list []*patch.HunkError) []Refusal {
	var refusals []Refusal
	for _, e := range list {
		refusals = append(refusals,
			Refusal{Path: e.Path, Line: e.Line, Reason: e.Match.Reason, Message: e.Error(), Near: e.Match.Near})
	}
	return refusals
}

func edited(r *manager.EditResult, err error) (*Edited, error) {
	if refused, ok := errors.AsType[*manager.EditError](err); ok {
		answer := &Edited{Refusals: Refusals(refused.Refused), FuzzyFits: refused.Fuzzy}
		for i, e := range refused.Refused {
			if e.Err != nil {
				answer.Refusals[i].Code = explain.Code(e.Err)
			}
		}
		return answer, err
	}
	if r == nil {
		return nil, err
	}
	return &Edited{EditResult: r}, err
}

// Request returns what the manager is asked for.
func (a *ApplyPatch) Request() (*manager.EditRequest, error) {
	q := &manager.EditRequest{Path: a.Path, Old: []byte(a.Old), New: []byte(a.New), Fuzzy: a.Fuzzy,
		Sequential: a.Sequential, Fuzz: a.Fuzz, Expected: a.Expected, Preview: a.Preview,
		Options: *a.Options.Options(), NoMerge: a.Options.Merge != nil && !*a.Options.Merge}
	var err error
	if a.Format != "" || a.Patch != "" {
		q.Patch, err = patch.Parse(a.Format, []byte(a.Patch), a.Path)
	} else if a.Path == "" {
		err = explain.Errorf(explain.BadRequest, "want a patch, or path, old and new")
	}
	return q, err
}

func applyPatch(ctx context.Context, s *Session, a *ApplyPatch) (*Edited, error) {
	q, err := a.Request()
	if err != nil {
		return nil, err
	}
	return edited(s.ApplyEdits(ctx, q))
}

func undoPatch(ctx context.Context, s *Session, a *UndoPatch) (*Edited, error) {
	return edited(s.UndoEdit(ctx, a.UndoID, &a.UndoEditOptions))
}
