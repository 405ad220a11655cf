// Package picker is the full screen on which people look at the turns of a session, mark what is to
// be taken back, see what that would do, and do it.
//
// It knows no store and no manager's rules: a [Source] says what there is, and does what is asked
// for, just as the commands do. What was shown is what is done: before it does anything, the picker
// asks once more what would be done, and shows that if it is something else by now.
package picker

import (
	"context"
	"io"
	"iter"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/boocode/filestore/manager"
)

// A Source is the session that is shown. Its methods are called from several goroutines.
type Source interface {
	// Rows yields what happened in the session, newest first.
	Rows(ctx context.Context) iter.Seq2[Row, error]

	// Hunks returns a part of what a row changed, with so many lines of context: the first part
	// for an empty cursor, and the cursor of the next part, "" behind the last.
	Hunks(ctx context.Context, rev string, lines int, cursor string) (hunks []manager.Hunk, next string, err error)

	// Do does something or, with Preview, says what it would do.
	Do(ctx context.Context, ask *Ask) (*Answer, error)
}

// A Row is a turn of the session, or what happened between turns.
type Row struct {
	Rev    string    // that names it for the Source; "": there is nothing to see
	Name   string    // "turn 12", "restore", "you"
	Text   string    // what the turn was for, or what was done; it may have many lines
	Who    string    // ran the turn; "": not known
	When   time.Time // zero: not known
	Files  int       // paths that it changed
	State  string    // "taken back 2026-11-25 10:00:00" and the like
	IsTurn bool      // it can be taken back
	IsBack bool      // all of it is taken back
}

// A Mark is what is to be taken back of a turn.
type Mark struct {
	Turn  string   // its Rev
	Hunks []string // IDs; nil: all of it
}

// An Action is what a Source can do.
type Action string

const (
	TakeBack Action = "take back" // what is marked
	GoBack   Action = "go back"   // to the moment of a row, as by restore
	Undo     Action = "undo"
	Redo     Action = "redo"
)

// An Ask is what a Source is to do.
type Ask struct {
	Do         Action
	Marks      []Mark // to take back
	Rev        string // to go back to
	OnConflict string // "": they stay as they are
	EndTurn    bool   // end the turn first that is open
	Preview    bool
}

// An Answer says what was done or, of a preview, what would be.
type Answer struct {
	Lines     []string // one for each path, and what else is to be known; they may have colours
	Summary   string
	Plan      string // of a preview: a sum of what which contents become, of which Lines have the paths
	Open      string // of a preview: which turn of the session has not ended, so that nothing can be done
	IsNothing bool   // nothing would be done
	IsPart    bool   // something is in conflict, or cannot be done
	Record    uint64 // of what was done
	Undoes    uint64 // record of what an undo, or a redo, takes back
}

// Options are what a picker runs on.
type Options struct {
	Title    string // what it shows, in a few words
	In       io.Reader
	Out      io.Writer
	Environ  []string // TERM and the like
	IsColour bool
}

// An InterruptedError says that the user has left by Ctrl-C.
type InterruptedError struct {
	Done string // what became of what was being done meanwhile; "": nothing was
}

func (e *InterruptedError) Error() string {
	if e.Done == "" {
		return "interrupted"
	}
	return "interrupted, but what was begun came to its end: " + e.Done
}

// Run shows a session until the user has seen enough, or ctx ends. Then the Source has ended what it
// was doing. The error is an *InterruptedError if the user has left by Ctrl-C.
func Run(ctx context.Context, src Source, opts *Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, src, opts)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(opts.In), tea.WithOutput(opts.Out),
		tea.WithEnvironment(opts.Environ), tea.WithoutSignalHandler()).Run()
	if cause := context.Cause(ctx); cause != nil {
		m.working.Lock() // the program's loop does not wait for what it has begun
		return cause
	}
	if err == nil && m.cut != nil {
		return m.cut
	}
	return err
}
