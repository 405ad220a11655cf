package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// A list of moments, newest first, is a turn N<P that builds on P, N<P! one that was taken
// back, N<P? one on another branch, r a restore, s0 the start.
func TestGraph(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"", ""},
		{"2<1 1<0 s0", `
● 2<1
● 1<0
┴ s0
`},
		{"3<2 r 2<0 s0", `
● 3<2
◆ r
● 2<0
┴ s0
`},
		{"r 3<2! 2<1! 1<0 s0", `
◆ r
│ ○ 3<2!
│ ○ 2<1!
├─╯
● 1<0
┴ s0
`},
		{"9<2 r 8<5! r 7<5! r 6<5! 5<2! 3<2! 2<0 s0", `
● 9<2
◆ r
│ ○ 8<5!
◆ │ r
│ │ ○ 7<5!
◆ │ │ r
│ │ │ ○ 6<5!
│ ├─╯ │
│ ├───╯
│ ○ 5<2!
│ │ ○ 3<2!
├─╯ │
├───╯
● 2<0
┴ s0
`},
		{"9<1 8<2! 7<1! 6<2! 2<0! 1<0 s0", `
● 9<1
│ ○ 8<2!
│ │ ○ 7<1!
│ │ │ ○ 6<2!
│ ├─┼─╯
│ ○ │ 2<0!
├─┼─╯
● │ 1<0
├─╯
┴ s0
`},
		{"4<1 3<2? 2<1? 1<0 s0", `
● 4<1
│ ○ 3<2?
│ ○ 2<1?
├─╯
● 1<0
┴ s0
`},
		{"5<4 4<3! 3<0 s0", `
● 5<4
○ 4<3!
● 3<0
┴ s0
`},
	} {
		g, got := new(graph), "\n"
		for what := range strings.FieldsSeq(tt.list) {
			mo := &manager.Moment{TurnIndex: -1, Kind: "restore", Snapshot: &store.Snapshot{Seq: 99}}
			if n, _ := fmt.Sscanf(what, "%d<%d", &mo.TurnIndex, &mo.Prev); n == 2 {
				mo.Kind = "step"
				mo.Snapshot.Seq, mo.Prev = uint64(mo.TurnIndex)+1, mo.Prev+1
			}
			if what == "s0" {
				mo.Kind, mo.Snapshot.Seq = "start", 1
			}
			if strings.HasSuffix(what, "!") {
				mo.TakenBack = new(store.Snapshot)
			}
			mo.NotIn = strings.HasSuffix(what, "?")
			joins, sign, _ := g.add(mo)
			for _, text := range joins {
				got += text + "\n"
			}
			got += sign + what + "\n"
		}
		if tt.list == "" {
			got = ""
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s%s", tt.list, d, got)
		}
	}
}
