package main

import (
	"fmt"
	"time"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
)

// When progress is shown: not for work that is done at once.
const (
	progressAfter = 300 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// showProgress prints how far a capture or an export is, on one line of a
// terminal, until stop is called. verb says what is done with the bytes.
func (a *app) showProgress(verb string) (p *trees.Progress, stop func()) {
	p = new(trees.Progress)
	return p, a.showProgressOf(p, verb)
}

// showProgressOf is showProgress of what counts already.
func (a *app) showProgressOf(p *trees.Progress, verb string) (stop func()) {
	if a.flags.quiet || a.flags.json || !isTerminal(a.stderr) {
		return func() {}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTimer(progressAfter)
		defer tick.Stop()
		for shown := false; ; shown = true {
			select {
			case <-done:
				if shown {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			case <-tick.C:
				fmt.Fprintf(a.stderr, "\r\x1b[K%s files, %s %s", words.Comma(p.Files.Load()),
					words.Size(p.ReadBytes.Load()), verb)
				tick.Reset(progressEvery)
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}
