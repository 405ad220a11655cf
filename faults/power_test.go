//go:build linux

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/testseed"
)

// cut ends a file system as a power cut does: what was not synced is gone, and
// so is what its journal had not written out.
func cut(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	const shutdown, noLogFlush = 0x8004587d, 2
	how := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("shutdown: %w", errno)
	}
	return nil
}

// TestPowerCut cuts the power under a store and its project while an engine
// records turns and restores, or commands snapshot.
func TestPowerCut(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			needs(t, true)
			r := rand.New(rand.NewPCG(testseed.Of(t), 0))
			m := newMount(t, "-o", "loop", newImage(t, kind))
			w := newWorld(t, m.path("stores"), m.path("project"))
			w.files(30, 5000)
			if err := w.snapshot(); err != nil {
				t.Fatal(err)
			}
			restored := 0
			for round := range *cuts {
				time.AfterFunc(time.Duration(50+r.IntN(250))*time.Millisecond, func() {
					if err := cut(m.dir); err != nil {
						t.Error(err)
					}
				})
				before := len(w.acks)
				if r.IntN(4) > 0 {
					e := w.serve(1 << 30)
					e.work.Wait()
					e.kill()
				} else {
					for i := 0; w.tryWrite("file", fmt.Sprint(round, i)) == nil; i++ {
						if w.snapshot() != nil {
							break
						}
					}
				}
				m.umount()
				m.mount()
				for _, id := range w.sessions() {
					restored++
					if got := w.state(id); got != w.restored[id] {
						t.Errorf("restored before the cut, and now:\n%s", differ(w.restored[id], got))
					}
				}
				clear(w.restored)
				acks := w.acks
				if round%20 < 19 && round < *cuts-1 {
					acks = acks[max(0, before-50):] // all of them now and then
				}
				w.verify(acks)
				if t.Failed() {
					t.Fatalf("round %d", round)
				}
			}
			t.Logf("%d cuts, %d snapshots acknowledged, %d times a restore was the last thing", *cuts, len(w.acks),
				restored)
		})
	}
}
