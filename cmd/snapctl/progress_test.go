package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/progress"
)

func TestProgressText(t *testing.T) {
	began := time.Unix(1000, 0)
	for _, tt := range []struct {
		state progress.State
		after time.Duration
		want  string
	}{
		{progress.State{Phase: progress.Phase{Name: "waiting"}}, time.Minute, "waiting"},
		{progress.State{Phase: progress.Phase{Name: "reading", Unit: "file"}, Done: 1}, time.Second, "reading: 1 file"},
		{progress.State{Phase: progress.Phase{Name: "reading", Unit: "file", Items: 3}, Done: 4, DoneBytes: 2000},
			time.Second / 2, "reading: 4 files, 2.0 KB"}, // more than last time
		{progress.State{Phase: progress.Phase{Name: "writing", Unit: "file", Items: 12000, Bytes: 8_000_000}, Done: 3000,
			DoneBytes: 2_000_000}, 30 * time.Second,
			"writing: 3,000 of 12,000 files, 2.0 MB of 8.0 MB, 67 KB/s, 1:30 left"},
	} {
		tt.state.Began = began
		if got := progressText(&tt.state, began.Add(tt.after)); got != tt.want {
			t.Errorf("progressText(%+v) = %q, want %q", tt.state, got, tt.want)
		}
	}
}

// What is written goes before the line, which is gone by then.
func TestStatusLine(t *testing.T) {
	var out bytes.Buffer
	s := &statusWriter{w: &out}
	s.draw("1 file")
	s.draw("2 files")
	s.Write([]byte("warning\n"))
	s.Write([]byte("another\n"))
	s.draw("")
	const clear = "\r\x1b[K"
	if want := "1 file" + clear + "2 files" + clear + "warning\nanother\n"; out.String() != want {
		t.Errorf("written %q, want %q", &out, want)
	}
}
