package progress

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each phase begins at 0, and nobody has to ask whether there is a Progress.
func TestPhases(t *testing.T) {
	p := new(Progress)
	ctx := With(t.Context(), p)
	p.Count(7, 7) // of no phase
	Of(ctx).Begin(Phase{Name: "reading", Unit: "file"})
	Of(ctx).Count(3, 0)
	Of(ctx).CountRead(10)
	Of(ctx).Begin(Phase{Name: "writing", Unit: "file", Items: 2, Bytes: 8})
	Of(ctx).Count(1, 4)
	got := p.Now()
	if got.Began.IsZero() {
		t.Error("it has not begun")
	}
	got.Began = time.Time{}
	want := State{Phase: Phase{Name: "writing", Unit: "file", Items: 2, Bytes: 8}, Done: 1, DoneBytes: 4}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}

	var none *Progress
	if none = Of(t.Context()); none != nil {
		t.Errorf("a context without a Progress has %v", none)
	}
	none.Begin(Phase{Items: 1})
	none.Count(1, 1)
	none.CountRead(1)
	if got := none.Now(); got != (State{}) {
		t.Errorf("nil counts %+v", got)
	}
}

func TestLeft(t *testing.T) {
	began := time.Unix(1000, 0)
	for _, tt := range []struct {
		name     string
		of       Phase
		done     int64
		bytes    int64
		after    time.Duration
		want     time.Duration
		notKnown bool
	}{
		{name: "half of the files", of: Phase{Items: 10}, done: 5, after: 4 * time.Second, want: 4 * time.Second},
		{name: "one large file", of: Phase{Items: 1, Bytes: 10 << 20}, bytes: 5 << 20, after: 10 * time.Second,
			want: 10*time.Second + 125*time.Millisecond}, // and the file itself
		{name: "all", of: Phase{Items: 10}, done: 10, after: 4 * time.Second},
		{name: "no total", done: 10, after: 4 * time.Second, notKnown: true},
		{name: "more than there were", of: Phase{Items: 10}, done: 11, after: 4 * time.Second, notKnown: true},
		{name: "too early", of: Phase{Items: 10}, done: 5, after: time.Second / 2, notKnown: true},
		{name: "too little", of: Phase{Items: 1000}, done: 5, after: time.Minute, notKnown: true},
	} {
		s := State{Phase: tt.of, Began: began, Done: tt.done, DoneBytes: tt.bytes}
		left, ok := s.Left(began.Add(tt.after))
		if left != tt.want || ok == tt.notKnown {
			t.Errorf("%s: Left = %v, %v, want %v, %v", tt.name, left, ok, tt.want, !tt.notKnown)
		}
	}
}
