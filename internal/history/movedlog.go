package history

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/store"
)

// MovedLog returns a log that a runtime has kept of a session on another machine as it is to be
// here, where a worktree at dir has the records: its header has dir, and its entries have the numbers that
// their records have in this store, or none. Everything else stays as it is.
func MovedLog(ctx context.Context, s *cas.Store, worktree, dir string, text []byte) ([]byte, error) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	header, ok := decodeFields(first)
	if !ok || header.text("type") != "session" {
		return text, nil
	}
	moved := bytes.NewBuffer(make([]byte, 0, len(text)))
	numbers := make(map[string]uint64) // here, by those there
	for line := range bytes.Lines(text) {
		var err error
		if moved.Len() == 0 {
			line, err = header.with("cwd", dir).line()
		} else if bytes.Contains(line, []byte(`"snapshotSeq"`)) {
			line, err = movedEntry(ctx, s, worktree, line, numbers)
		}
		if err != nil {
			return nil, err
		}
		moved.Write(line)
	}
	return moved.Bytes(), nil
}

// movedEntry returns a line of a log with the numbers of this store.
func movedEntry(ctx context.Context, s *cas.Store, worktree string, line []byte, numbers map[string]uint64) (
	[]byte, error) {
	e, ok := decodeFields(line)
	if !ok || e.text("type") != "custom" {
		return line, nil
	}
	data, ok := decodeFields(e["data"])
	if !ok || data["snapshotSeq"] == nil {
		return line, nil
	}
	isRestore := e.text("customType") == sessionlog.UnrevertPoint
	if !isRestore && e.text("customType") != sessionlog.StepSnapshot {
		return line, nil
	}
	var here *store.Snapshot
	id := e.text("id")
	for snap, err := range s.ByEntry(ctx, id) {
		if err != nil {
			return nil, err
		}
		isKind := snap.Kind == KindRestore
		if !isRestore {
			isKind = snap.Kind == KindStep || snap.Kind == KindStart
		}
		if snap.Entry == id && snap.Worktree == worktree && isKind {
			here = snap
			break
		}
	}
	if here == nil {
		delete(data, "snapshotSeq")
	} else {
		numbers[string(data["snapshotSeq"])] = here.Seq
		data.with("snapshotSeq", here.Seq)
	}
	if undoes := data["undoesSeq"]; undoes != nil {
		data.with("undoesSeq", numbers[string(undoes)])
	}
	return e.with("data", data).line()
}

// fields are those of a JSON object, as they are written.
type fields map[string]json.RawMessage

func decodeFields(text []byte) (f fields, ok bool) {
	return f, json.Unmarshal(text, &f) == nil && f != nil
}

// text returns a field that is a text, else "".
func (f fields) text(name string) (s string) {
	if json.Unmarshal(f[name], &s) != nil {
		return ""
	}
	return s
}

// with sets a field.
func (f fields) with(name string, value any) fields {
	b, err := json.Marshal(value)
	if err != nil {
		panic("history: internal error: " + err.Error())
	}
	f[name] = b
	return f
}

// line returns the object as a line.
func (f fields) line() ([]byte, error) {
	b, err := json.Marshal(f)
	return append(b, '\n'), err
}
