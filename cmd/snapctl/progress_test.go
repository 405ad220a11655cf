package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
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
		{progress.State{Phase: progress.Phase{Name: "writing", Unit: "file", Items: 12000, Bytes: 8_000_000},
			Done: 3000, DoneBytes: 2_000_000}, 30 * time.Second,
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

// A shownBuffer is a terminal.
type shownBuffer struct{ bytes.Buffer }

func (*shownBuffer) IsTerminal() bool { return true }

// The line comes after 0.3 s, is drawn ten times a second, and is gone in the end; of work
// that is done before nothing is shown. Events come from the start, and last the end.
func TestShowProgress(t *testing.T) {
	work := func(how string, takes time.Duration) string {
		var out shownBuffer
		synctest.Test(t, func(t *testing.T) {
			a := &app{stderr: &statusWriter{w: &out}}
			a.flags.progress = how
			ctx, stop := a.showProgress(t.Context())
			p := progress.Of(ctx)
			p.Begin(progress.Phase{Name: "reading", Unit: "file", Items: 1000})
			for range takes / time.Millisecond {
				time.Sleep(time.Millisecond)
				p.Count(1, 0)
			}
			stop()
			stop() // as often as one likes
		})
		return out.String()
	}
	const clear = "\r\x1b[K"
	if got := work(progressAuto, 299*time.Millisecond); got != "" {
		t.Errorf("of work that takes 0.3 s it says %q", got)
	}
	got := work(progressAuto, 999*time.Millisecond)
	if lines := strings.Count(got, "reading: "); lines != 7 || !strings.HasSuffix(got, " of 1,000 files"+clear) {
		t.Errorf("of work that takes 1 s it says %d times how far it is: %q", lines, got)
	}
	if got := work(progressNone, time.Second); got != "" {
		t.Errorf("with none it says %q", got)
	}
	got = work(progressJSON, 450*time.Millisecond)
	const last = `{"progress":{"phase":"reading","unit":"file","done":450,"total":1000,"bytes":0}}` + "\n"
	if strings.Count(got, "\n") != 5 || !strings.HasSuffix(got, last) {
		t.Errorf("the events are %s", got)
	}
}
