package cas_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	s, err := cas.Open(context.Background(), dir, &cas.Options{Root: "/home/me/project"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(len(s.ID()), "hex digits")
	// Output: 32 hex digits
}

// A writer puts objects and commits a snapshot that counts on them.
func ExampleStore_Begin() {
	ctx := context.Background()
	s := open(ctx)
	defer s.Close()

	w, err := s.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Put(object.Blob, []byte("content of a file")); err != nil {
		log.Fatal(err)
	}
	root, err := w.Put(object.Tree, []byte("listing of a directory"))
	if err != nil {
		log.Fatal(err)
	}
	snap := &store.Snapshot{Tree: root, Time: time.Now(), Session: "chat"}
	if err := w.Commit(ctx, snap, 0); err != nil { // 0: the session has none yet
		log.Fatal(err)
	}
	fmt.Println("snapshot", snap.Seq, "with", w.Stats().Objects, "new objects")
	// Output: snapshot 1 with 2 new objects
}

func ExampleStore_Get() {
	ctx := context.Background()
	s := open(ctx)
	defer s.Close()
	commit(ctx, s, "first")

	b, err := s.Get(ctx, object.Blob, object.Hash(object.Blob, []byte("first")))
	fmt.Printf("%s %v\n", b, err)
	_, err = s.Get(ctx, object.Blob, object.Hash(object.Blob, []byte("second")))
	fmt.Println(err)
	// Output:
	// first <nil>
	// blob cd85637651ec: not found
}

func ExampleStore_Snapshots() {
	ctx := context.Background()
	s := open(ctx)
	defer s.Close()
	commit(ctx, s, "first")
	commit(ctx, s, "second")

	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(snap.Seq, snap.Session)
	}
	// Output:
	// 2 second
	// 1 first
}

func ExampleStore_Newest() {
	ctx := context.Background()
	s := open(ctx)
	defer s.Close()
	commit(ctx, s, "first")
	commit(ctx, s, "second")

	snap, err := s.Newest(ctx, "", "first")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snap.Seq, snap.Tree == object.Hash(object.Blob, []byte("first")))
	// Output: 1 true
}

func ExampleStore_Check() {
	ctx := context.Background()
	s := open(ctx)
	defer s.Close()
	commit(ctx, s, "first")

	const readData = true
	r, err := s.Check(ctx, readData)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range r.Damage {
		fmt.Println("damaged:", d)
	}
	fmt.Println(r.Snapshots, "snapshot,", r.Packs, "pack,", r.Objects, "object")
	// Output: 1 snapshot, 1 pack, 1 object
}

// open opens a new store in memory. A program calls store.Open.
func open(ctx context.Context) *cas.Store {
	s, err := cas.OpenFS(ctx, vfstest.NewMem(), &cas.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// commit puts a blob that a snapshot of a session of the same name counts on.
func commit(ctx context.Context, s *cas.Store, text string) {
	w, err := s.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	id, err := w.Put(object.Blob, []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Commit(ctx, &store.Snapshot{Tree: id, Session: text}, 0); err != nil {
		log.Fatal(err)
	}
}
