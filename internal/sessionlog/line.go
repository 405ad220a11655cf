package sessionlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/boocode/filestore/session"
)

// The custom types whose data is kept.
const (
	StepSnapshot  = "step-snapshot"
	UnrevertPoint = "unrevert-point"
)

// A Header is the first line of a session log.
type Header struct {
	Version       int       // 3
	ID            string    // of the session
	Timestamp     time.Time // when the session began; zero if the log does not say
	CWD           string    // directory in which the session runs
	ParentSession string    // log that this session was forked from; "" if none
}

// timeFormat is what JavaScript's Date.toISOString writes.
const timeFormat = "2006-01-02T15:04:05.000Z"

// formatTime writes a time as pi does, or the current one if t is zero.
func formatTime(t time.Time) string {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UTC().Format(timeFormat)
}

// parseTime reads what formatTime writes and any other RFC 3339 time; zero if
// s is none.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// The lines that we write, in the key order of pi.
type (
	headerLine struct {
		Type          string `json:"type"`
		Version       int    `json:"version"`
		ID            string `json:"id"`
		Timestamp     string `json:"timestamp"`
		CWD           string `json:"cwd"`
		ParentSession string `json:"parentSession,omitempty"`
	}
	customLine struct {
		Type       string          `json:"type"`
		CustomType string          `json:"customType"`
		Data       json.RawMessage `json:"data,omitempty"`
		ID         string          `json:"id"`
		ParentID   *string         `json:"parentId"`
		Timestamp  string          `json:"timestamp"`
	}
	summaryLine struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		ParentID  *string         `json:"parentId"`
		Timestamp string          `json:"timestamp"`
		FromID    string          `json:"fromId"`
		Summary   string          `json:"summary"`
		SkipFiles bool            `json:"skipFiles,omitempty"`
		Details   json.RawMessage `json:"details,omitempty"`
	}
)

// parseHeader reads the first line.
func parseHeader(b []byte) (Header, error) {
	var l headerLine
	if err := json.Unmarshal(b, &l); err != nil || l.Type != "session" || l.ID == "" {
		return Header{}, formatError("line 1: not a pi session header")
	}
	switch {
	case l.Version < 3: // version 1 has no number
		return Header{}, formatError(fmt.Sprintf("line 1: session of version %d: open it once in pi, "+
			"which rewrites it as version 3", max(l.Version, 1)))
	case l.Version > 3:
		return Header{}, formatError(fmt.Sprintf("line 1: session of version %d: only version 3 is known", l.Version))
	}
	return Header{l.Version, l.ID, parseTime(l.Timestamp), l.CWD, l.ParentSession}, nil
}

// line returns the header as it is written, with its LF.
func (h *Header) line() ([]byte, error) {
	b, err := encodeLine(headerLine{"session", 3, h.ID, formatTime(h.Timestamp), h.CWD, h.ParentSession})
	if err != nil {
		return nil, err
	}
	back, err := parseHeader(b)
	if err != nil || back.ID != h.ID {
		return nil, fmt.Errorf("session ID %q: cannot be written", h.ID)
	}
	return b, nil
}

// lineOf returns the entry as it is written, with its LF.
func lineOf(e *session.Entry) ([]byte, error) {
	var parent *string
	if e.ParentID != "" {
		parent = &e.ParentID
	}
	var l any
	switch e.Type {
	case "custom":
		l = customLine{e.Type, e.CustomType, e.Data, e.ID, parent, formatTime(e.Timestamp)}
	case "branch_summary":
		l = summaryLine{e.Type, e.ID, parent, formatTime(e.Timestamp), e.FromID, e.Summary, e.SkipFiles, e.Details}
	default:
		return nil, fmt.Errorf("entry %q: entries of type %q are not ours to write", e.ID, e.Type)
	}
	b, err := encodeLine(l)
	if err != nil {
		return nil, fmt.Errorf("entry %q: %w", e.ID, err)
	}
	// An ID that is empty or not UTF-8 would come back as another.
	back, reason := parseEntry(b)
	switch {
	case reason != "":
		return nil, fmt.Errorf("entry %q: %s", e.ID, reason)
	case back.ID != e.ID || back.ParentID != e.ParentID || back.CustomType != e.CustomType:
		return nil, fmt.Errorf("entry %q: its IDs cannot be written", e.ID)
	case int64(len(b)) > maxLine:
		return nil, fmt.Errorf("entry %q: longer than %d bytes", e.ID, maxLine)
	}
	return b, nil
}

// AppendLog appends the lines of entries to a log of ours, which begins with h if it is
// empty. The version in h does not matter; a zero Timestamp, of h or of an entry, is the
// current time. Types of entries are "custom" and "branch_summary". A last line without
// an end, which a program that was killed has left, is dropped.
func AppendLog(log []byte, h *Header, entries ...session.Entry) ([]byte, error) {
	log = slices.Clip(log[:bytes.LastIndexByte(log, '\n')+1])
	if len(log) == 0 {
		line, err := h.line()
		if err != nil {
			return nil, err
		}
		log = append(log, line...)
	}
	for i := range entries {
		line, err := lineOf(&entries[i])
		if err != nil {
			return nil, err
		}
		log = append(log, line...)
	}
	return log, nil
}

func encodeLine(l any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as JSON.stringify
	err := enc.Encode(l)
	return b.Bytes(), err
}
