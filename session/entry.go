package session

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
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

// An Entry is one line of a session log after the header: of a message only
// its place, not its text.
//
// An Entry that a Tree has returned belongs to it and must not be changed.
type Entry struct {
	ID         string
	ParentID   string          // "": a root
	Type       string          // "message", "custom", "branch_summary" and others
	CustomType string          // of a custom or custom_message entry; default ""
	Role       string          // of a message: "user", "assistant", "toolResult" and others; default ""
	Timestamp  time.Time       // zero if the log does not say
	Data       json.RawMessage // of a custom entry of type StepSnapshot or UnrevertPoint; nil of others that were read

	// Of a branch_summary.
	FromID    string          // the leaf that was left; "root" if none
	Summary   string          // of the branch that was left
	SkipFiles bool            // the move left the files alone; not known to pi
	Details   json.RawMessage // default nil
}

// ValidID reports whether id can name a session: 1 to 128 of the characters
// A-Z a-z 0-9 . _ and -, but not "." or "..". Such a name is a file name.
func ValidID(id string) bool {
	if len(id) < 1 || len(id) > 128 || id == "." || id == ".." {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// NewID returns a random ID that no entry of t has, 8 hex digits as in pi.
func NewID(t *Tree) string {
	for {
		var b [4]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		id := hex.EncodeToString(b[:])
		if _, used := t.Entry(id); !used {
			return id
		}
	}
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
		return Header{}, formatError(fmt.Sprintf("line 1: session of version %d: open it once in pi, which rewrites it as version 3", max(l.Version, 1)))
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

// line returns the entry as it is written, with its LF.
func (e *Entry) line() ([]byte, error) {
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

func encodeLine(l any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as JSON.stringify
	err := enc.Encode(l)
	return b.Bytes(), err
}
