//go:build unix

package scratch

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// BenchmarkStep takes a directory of 11,478 files in 1,530 directories, as Go's sources are, from
// one state to another and back. cpu-ms/op is user and system time; the floor is what it takes
// to ask the system of each file.
func BenchmarkStep(b *testing.B) {
	for _, changed := range []int{0, 1, 190} {
		b.Run(fmt.Sprintf("files=11478/changed=%d", changed), func(b *testing.B) {
			d := &bench{T: new(testing.T), memory: make(memory)}
			var ids [2]store.ID
			differ := 0 // bytes of files that do
			for side := range ids {
				w := make(world)
				for i := range 11478 {
					version := 0
					if i%60 == 0 && i/60 < changed {
						version = side
					}
					text := fmt.Sprintf("%d %d%s", i, version, strings.Repeat("text\n", 2000))
					if version == 1 {
						differ += len(text)
					}
					w[fmt.Sprintf("d%d/e%d/f%d", i%30, i%1500, i)] = "file 644 " + text
				}
				ids[side] = d.put(w)
			}
			dir, err := Open(b.Context(), b.TempDir(), d.memory, store.ID{})
			if err != nil {
				b.Fatal(err)
			}
			become := func(side int) *Change {
				c, err := dir.Become(b.Context(), d.memory, ids[side], nil)
				if err != nil {
					b.Fatal(err)
				}
				return c
			}
			become(0)
			before, bytes, n := cpu(), int64(0), 0
			for b.Loop() {
				n++
				bytes += become(n % 2).Bytes
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(n), "cpu-ms/op")
			b.ReportMetric(float64(bytes)/float64(n), "written-B/op")
			b.ReportMetric(float64(differ), "differ-B")
			dir.floor(b)
		})
	}
}

// floor reports what it costs to look at all files, and at nothing else.
func (d *Dir) floor(b *testing.B) {
	dir, err := vfs.OpenDir(d.Tree())
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	var look func(dir vfs.Dir, n *node)
	look = func(dir vfs.Dir, n *node) {
		for name, k := range n.names {
			var st vfs.Stat
			if !k.Mode.IsDir() {
				err = dir.Lstat(name, &st)
			} else if sub, oerr := dir.OpenDir(name); oerr == nil {
				look(sub, k.sub)
				err = sub.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	const times = 20
	before := cpu()
	for range times {
		look(dir, d.root)
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/1000/times, "floor-cpu-ms/op")
}

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
