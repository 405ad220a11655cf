package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/words"
)

// When progress is shown: not for work that is done at once.
const (
	progressAfter = 300 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// What --progress may be.
const (
	progressAuto = "auto" // a line on a terminal
	progressJSON = "json" // events on stderr, one a line
	progressNone = "none"
)

// A statusWriter is stderr with a last line that is redrawn, and that goes before anything
// else is written.
type statusWriter struct {
	w io.Writer

	mu    sync.Mutex // guards the rest, and w
	drawn bool       // the line is there
}

func (s *statusWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.w.Write(b)
}

// clear takes the line away. mu is held.
func (s *statusWriter) clear() {
	if s.drawn {
		io.WriteString(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// draw puts a text into the line; "" takes it away.
func (s *statusWriter) draw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if text != "" {
		io.WriteString(s.w, text)
		s.drawn = true
	}
}

// IsTerminal says whether stderr is one.
func (s *statusWriter) IsTerminal() bool { return isTerminal(s.w) }

// columns returns how wide the terminal is.
func (s *statusWriter) columns() int {
	if f, ok := s.w.(*os.File); ok {
		if columns, _ := sizeOf(f); columns > 0 {
			return columns
		}
	}
	return 80
}

// showProgress shows how far the work is that is done with the context, until stop is
// called: as a line on a terminal, or as events.
func (a *app) showProgress(ctx context.Context) (_ context.Context, stop func()) {
	status, ok := a.stderr.(*statusWriter)
	asEvents := a.flags.progress == progressJSON
	if !ok || !asEvents && (a.flags.progress == progressNone || a.flags.quiet || a.flags.json || !isTerminal(status)) {
		return ctx, func() {}
	}
	p := new(progress.Progress)
	var last progress.State
	show := func() {
		now := p.Now()
		if now.Name == "" {
			return
		}
		if !asEvents {
			text := []rune(progressText(&now, time.Now()))
			status.draw(string(text[:min(len(text), status.columns()-1)]))
		} else if now != last {
			if b, err := marshal(newProgressEvent(&now)); err == nil {
				status.Write(append(b, '\n'))
			}
		}
		last = now
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		wait := progressAfter
		if asEvents {
			wait = progressEvery
		}
		tick := time.NewTimer(wait)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if asEvents {
					show() // how it ended
				}
				status.draw("")
				return
			case <-tick.C:
				show()
				tick.Reset(progressEvery)
			}
		}
	}()
	return progress.With(ctx, p), sync.OnceFunc(func() {
		close(done)
		<-stopped
	})
}

// progressText is how far a phase is, for people.
func progressText(s *progress.State, now time.Time) string {
	text := s.Name
	if s.Unit == "" {
		return text
	}
	if s.Items > 0 && s.Done <= s.Items {
		text += fmt.Sprintf(": %s of %s", words.Comma(s.Done), words.Count(s.Items, s.Unit))
	} else {
		text += ": " + words.Count(s.Done, s.Unit)
	}
	if s.DoneBytes > 0 {
		text += ", " + words.Size(s.DoneBytes)
		if s.Phase.Bytes >= s.DoneBytes {
			text += " of " + words.Size(s.Phase.Bytes)
		}
		if elapsed := now.Sub(s.Began); elapsed >= time.Second {
			text += fmt.Sprintf(", %s/s", words.Size(int64(float64(s.DoneBytes)/elapsed.Seconds())))
		}
	}
	if left, ok := s.Left(now); ok {
		n := int(left.Round(time.Second).Seconds())
		text += fmt.Sprintf(", %d:%02d left", n/60, n%60)
	}
	return text
}

// A progressEvent is a line of --progress=json.
type progressEvent struct {
	Progress struct {
		Phase      string   `json:"phase"`
		Unit       string   `json:"unit,omitempty"` // what is counted; "": nothing
		Done       int64    `json:"done"`
		Total      int64    `json:"total,omitempty"` // 0: not known
		Bytes      int64    `json:"bytes"`           // that were read or written
		TotalBytes int64    `json:"totalBytes,omitempty"`
		Left       *float64 `json:"secondsLeft,omitempty"` // of this phase; null: not known
	} `json:"progress"`
}

func newProgressEvent(s *progress.State) *progressEvent {
	e := new(progressEvent)
	e.Progress.Phase, e.Progress.Unit = s.Name, s.Unit
	e.Progress.Done, e.Progress.Total = s.Done, s.Items
	e.Progress.Bytes, e.Progress.TotalBytes = s.DoneBytes, s.Phase.Bytes
	if left, ok := s.Left(time.Now()); ok {
		e.Progress.Left = new(left.Round(100 * time.Millisecond).Seconds())
	}
	return e
}
