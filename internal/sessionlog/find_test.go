package sessionlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/boocode/filestore/session"
)

func TestTarget(t *testing.T) {
	tree := session.NewTree(message("u1", "", "user"), message("a1", "u1", "assistant"), message("u3", "a1", "user"),
		message("a3", "u3", "assistant"),
		session.Entry{ID: "s2", ParentID: "a1", Type: "custom"}, session.Entry{ID: "r", Type: "custom_message"},
		session.Entry{ID: "m", ParentID: "r", Type: "custom_message"},
		message("o", "gone", "user"), message("p", "gone", "assistant"))
	for _, c := range []struct {
		id, want string
		err      error
	}{
		{"u1", "", nil},
		{"u3", "a1", nil},
		{"a3", "a3", nil},
		{"s2", "s2", nil},
		{"r", "", nil},
		{"m", "r", nil},
		{"p", "p", nil},
		{"o", "", session.ErrUnknownEntry},
	} {
		e, _ := tree.Entry(c.id)
		got, err := Target(tree, e)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Target(%q) = %q, %v; want %q, %v", c.id, got, err, c.want, c.err)
		}
	}
}

func TestFind(t *testing.T) {
	var entries []session.Entry
	for i := range 12 {
		entries = append(entries, session.Entry{ID: fmt.Sprintf("ab%02d", i), Type: "message"})
	}
	tree := session.NewTree(append(entries, session.Entry{ID: "abc", Type: "message"},
		session.Entry{ID: "abcd", Type: "message"})...)
	for _, c := range []struct{ id, want string }{
		{"ab03", "ab03"},
		{"abc", "abc"}, // whole IDs come first
		{"abcd", "abcd"},
		{"", ""},
		{"x", ""},
		{"ab1", "ab10 ab11"},
	} {
		var got []string
		for _, e := range Find(tree, c.id) {
			got = append(got, e.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("Find(%q) = %q, want %q", c.id, got, c.want)
		}
	}
}

// message returns a message entry.
func message(id, parent, role string) session.Entry {
	return session.Entry{ID: id, ParentID: parent, Type: "message", Role: role}
}
