package sessionlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/boocode/filestore/internal/sessionlog"
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

	file, err := sessionlog.OpenFile(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Header().CWD, file.Tree().Leaf())

	fmt.Fprintln(f, `{"type":"message","id":"b2c3d4e5","parentId":"a1b2c3d4","message":{"role":"assistant","content":[]}}`)
	if err := file.Refresh(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Tree().Changes(), file.Tree().Leaf())
	// Output:
	// /home/u/proj a1b2c3d4
	// 2 b2c3d4e5
}

// The text of a log of ours.
func ExampleAppendLog() {
	began := time.Date(2026, 11, 21, 6, 15, 35, 0, time.UTC)
	log, err := sessionlog.AppendLog(nil, &sessionlog.Header{ID: "s1", CWD: "/home/u/proj", Timestamp: began},
		session.Entry{
			ID:         "a1b2c3d4",
			Type:       "custom",
			CustomType: sessionlog.StepSnapshot,
			Data:       json.RawMessage(`{"turnIndex":0}`),
			Timestamp:  began,
		})
	if err != nil {
		panic(err)
	}
	fmt.Print(string(log))
	// Output:
	// {"type":"session","version":3,"id":"s1","timestamp":"2026-11-21T06:15:35.000Z","cwd":"/home/u/proj"}
	// {"type":"custom","customType":"step-snapshot","data":{"turnIndex":0},"id":"a1b2c3d4","parentId":null,"timestamp":"2026-11-21T06:15:35.000Z"}
}
