package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
)

// The log of a running agent, read as it grows.
func ExampleOpenFile() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "session.jsonl")
	f, err := os.Create(name) // the agent does this
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, `{"type":"session","version":3,"id":"0198f6f0","timestamp":"2026-11-21T06:15:35.123Z","cwd":"/home/u/proj"}`)
	fmt.Fprintln(f, `{"type":"message","id":"a1b2c3d4","parentId":null,"message":{"role":"user","content":"Hello"}}`)

	file, err := session.OpenFile(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Tree().Header().CWD, file.Tree().Leaf())

	fmt.Fprintln(f, `{"type":"message","id":"b2c3d4e5","parentId":"a1b2c3d4","message":{"role":"assistant","content":[]}}`)
	if err := file.Refresh(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Tree().Len(), file.Tree().Leaf())
	// Output:
	// /home/u/proj a1b2c3d4
	// 2 b2c3d4e5
}

// The user goes back to the second question and asks another: two branches.
func ExampleTree_Path() {
	tree := session.NewTree(session.Header{ID: "0198f6f0"},
		session.Entry{ID: "u1", Type: "message", Role: "user"},
		session.Entry{ID: "a1", ParentID: "u1", Type: "message", Role: "assistant"},
		session.Entry{ID: "u2", ParentID: "a1", Type: "message", Role: "user"},
		session.Entry{ID: "a2", ParentID: "u2", Type: "message", Role: "assistant"},
	)
	leaf, err := tree.Target("u2")
	if err != nil {
		log.Fatal(err)
	}
	tree.Add(session.Entry{ID: "u3", ParentID: leaf, Type: "message", Role: "user"})

	path, err := tree.Path(tree.Leaf())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range path {
		fmt.Println(e.ID, e.Role)
	}
	common, err := tree.CommonAncestor("a2", "u3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("common:", common)
	// Output:
	// u1 user
	// a1 assistant
	// u3 user
	// common: a1
}

// A log of ours.
func ExampleOpenLog() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	l, err := session.OpenLog(ctx, vfs.OS(dir), "s1.jsonl", &session.Header{ID: "s1", CWD: "/home/u/proj"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	err = l.Append(ctx, session.Entry{
		ID:         session.NewID(l.Tree()),
		ParentID:   l.Tree().Leaf(),
		Type:       "custom",
		CustomType: session.StepSnapshot,
		Data:       json.RawMessage(`{"turnIndex":0}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	e, _ := l.Tree().Entry(l.Tree().Leaf())
	fmt.Println(e.CustomType, string(e.Data))
	// Output: step-snapshot {"turnIndex":0}
}
