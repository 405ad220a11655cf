package sessionlog

import (
	"fmt"
	"strings"

	"github.com/boocode/filestore/session"
)

// Find returns the entry whose ID is id, or else all whose IDs begin with it.
func Find(t *session.Tree, id string) []*session.Entry {
	if e, ok := t.Entry(id); ok {
		return []*session.Entry{e}
	}
	var found []*session.Entry
	for e := range t.Entries() {
		if id != "" && strings.HasPrefix(e.ID, id) {
			found = append(found, e)
		}
	}
	return found
}

// Target returns where the leaf goes when pi is told to move to an entry:
// before a user message or a custom_message, so that it can be said again, and
// to any other entry itself. "" is before the first entry.
//
// The error matches [session.ErrUnknownEntry] if the parent is missing where that is
// the answer.
func Target(t *session.Tree, e *session.Entry) (leaf string, err error) {
	if e.Type != "custom_message" && (e.Type != "message" || e.Role != "user") {
		return e.ID, nil
	}
	if _, ok := t.Entry(e.ParentID); e.ParentID != "" && !ok {
		return "", fmt.Errorf("parent of entry %q: entry %q: %w", e.ID, e.ParentID, session.ErrUnknownEntry)
	}
	return e.ParentID, nil
}
