package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

const (
	maxTitle = 4 << 10 // bytes of a Turn's Title that are kept
	maxName  = 128     // of its Agent, and of its Model
)

// A titleNote is the content of the note of a turn's record, in JSON: no file has the
// same by chance, so that to forget a title takes nothing else along.
type titleNote struct {
	Title string `json:"turnTitle"`
}

// cut returns at most n bytes of a text, whole characters without space around them.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	if len(text) > n {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = strings.TrimSpace(text[:n])
	}
	return text
}

// describe notes in an open turn what the runtime says that it is for. A turn that goes
// on with the prompt of the one before, which is last, has what that had.
func (m *FileSnapshotManager) describe(ctx context.Context, t *history.OpenTurn, turn *Turn, last *record) {
	if !m.engine.opts.NoPrompts {
		t.Title = cut(turn.Title, maxTitle)
	}
	t.Agent, t.Model = cut(turn.Agent, maxName), cut(turn.Model, maxName)
	if last != nil {
		t.Title = cmp.Or(t.Title, m.title(ctx, last))
		t.Agent, t.Model = cmp.Or(t.Agent, last.Facts.Agent), cmp.Or(t.Model, last.Facts.Model)
	}
}

// putTitle puts what a turn is for into its record.
func (o *look) putTitle(r *record, t *history.OpenTurn) (err error) {
	r.Facts.Agent, r.Facts.Model = t.Agent, t.Model
	if t.Title == "" {
		return nil
	}
	b, err := json.Marshal(titleNote{t.Title})
	if err == nil {
		r.Note, err = o.w.Put(object.Blob, b)
	}
	return err
}

// title returns the title of a turn. One that is lost costs nothing but itself: it is
// "" then, and a warning is logged. No lock is held for a remote that may have it.
func (m *FileSnapshotManager) title(ctx context.Context, r *record) string {
	if r.Pruned || r.Note.IsZero() {
		return ""
	}
	var note titleNote
	b, err := m.store.Get(cas.WithoutFetcher(ctx, nil), object.Blob, r.Note)
	if err == nil {
		err = json.Unmarshal(b, &note)
	}
	if err != nil && !errors.Is(err, store.ErrForgotten) && !cas.IsPromised(err) && ctx.Err() == nil {
		m.log.Warn(fmt.Sprintf("what turn %d was for is lost", r.Facts.Turn), "session", r.Session, "err", err)
	}
	return note.Title
}
