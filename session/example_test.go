package session_test

import (
	"fmt"
	"log"

	"github.com/boocode/filestore/session"
)

// The user goes back to the second question and asks another: two branches.
func ExampleTree_Path() {
	tree := session.NewTree(
		session.Entry{ID: "u1", Type: "message", Role: "user"},
		session.Entry{ID: "a1", ParentID: "u1", Type: "message", Role: "assistant"},
		session.Entry{ID: "u2", ParentID: "a1", Type: "message", Role: "user"},
		session.Entry{ID: "a2", ParentID: "u2", Type: "message", Role: "assistant"},
	)
	tree.Add(session.Entry{ID: "u3", ParentID: "a1", Type: "message", Role: "user"})

	path, err := tree.Path(tree.Leaf())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range path {
		fmt.Println(e.ID, e.Role)
	}
	// Output:
	// u1 user
	// a1 assistant
	// u3 user
}
