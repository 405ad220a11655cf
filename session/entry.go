package session

import (
	"encoding/json"
	"time"
)

// An Entry is one line of a session log after the header: of a message only
// its place, not its text.
//
// An Entry that a Tree has returned belongs to it and must not be changed.
type Entry struct {
	ID         string          `json:"-"`
	ParentID   string          `json:"-"`                    // "": a root
	Type       string          `json:"type"`                 // "message", "custom", "branch_summary" and others
	CustomType string          `json:"customType,omitempty"` // of a custom or custom_message entry; default ""
	Role       string          `json:"-"`                    // of a message: "user", "assistant", "toolResult" and others; default ""
	Timestamp  time.Time       `json:"-"`                    // zero if the log does not say
	Data       json.RawMessage `json:"data,omitempty"`       // of a custom entry of ours; nil of others that were read

	// Of a branch_summary.
	FromID    string          `json:"fromId,omitempty"`  // the leaf that was left; "root" if none
	Summary   string          `json:"summary,omitempty"` // of the branch that was left
	SkipFiles bool            `json:"-"`                 // the move left the files alone; not known to pi
	Details   json.RawMessage `json:"-"`                 // default nil
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
