package change

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Direction is where a change goes that was cut off: to what was wanted, or back to
// what was before.
type Direction bool

const (
	Forward Direction = true
	Back    Direction = false
)

// A Change is one change of a directory. Its maker sets the fields; of one that was
// cut off, from the record of its intent.
type Change struct {
	Root    *livedir.Root
	Blobs   trees.BlobGetter // has the contents that are to come
	Pages   trees.Getter     // has the trees of the states, also what Writer was given
	Writer  livedir.Sink     // takes what goes, and the pages of the states
	Records Records
	Log     *slog.Logger

	ID    string        // in the names of files that lie beside others meanwhile; no other change has it
	Plan  *livedir.Plan // for Do
	IfCut Direction     // where it goes if it is cut off

	// Refuse is asked about each path that the plan leaves alone. An error makes Do
	// change nothing at all. Default: the other paths are changed without it.
	Refuse func(rollback.Item) error

	// Base is the state of the directory that is on record. Do makes Before and After
	// of it, by the plan. Zero: they are given.
	Base store.State

	Before, After store.State
	Moves         []rollback.Move // see livedir.Plan.Carried; from Before to After
}

// Records writes the records of a change.
type Records interface {
	// Intend records that the change is about to be applied. When it returns, the
	// record and all that the change's writer was given are durable.
	Intend(ctx context.Context, c *Change) error

	// Done records what the change's plan says that was done.
	Done(ctx context.Context, c *Change) error

	// Ended records that a change which was cut off was taken to a state: now is
	// what became of it, plan what was done for that. An error leaves it cut off.
	Ended(ctx context.Context, to Direction, now store.State, plan *livedir.Plan) error
}

// Do carries out the plan and reports whether it has changed anything, or was to. If
// that fails it takes back what it has written, and the error says how far that went.
// The plan then says what was done.
func (c *Change) Do(ctx context.Context) (changed bool, err error) {
	plan := c.Plan
	if err := plan.Save(ctx, c.Root, c.Writer); err != nil {
		return false, err
	}
	if err := c.refused(); err != nil {
		return false, fmt.Errorf("%w: nothing was written", err)
	}
	if !plan.Changes() {
		return false, nil
	}
	if !c.Base.IsZero() {
		if c.Before, err = c.state(ctx, c.Base, false); err == nil {
			c.After, err = c.state(ctx, c.Before, true)
		}
		if err != nil {
			return false, err
		}
	}
	c.Moves = plan.Carried()
	items, made := slices.Clone(plan.Items), slices.Clone(plan.Made)
	if err := c.Records.Intend(ctx, c); err != nil {
		return false, err
	}
	if err = c.apply(ctx, plan); err == nil {
		err = c.refused()
	}
	if err != nil {
		return true, c.takeBack(ctx, err)
	}
	// The files are written: that goes on record, without what could not be done.
	ctx = context.WithoutCancel(ctx)
	sameDeeds := slices.EqualFunc(items, plan.Items, func(a, b rollback.Item) bool { return a.Do == b.Do })
	if !c.Base.IsZero() && !(sameDeeds && slices.Equal(made, plan.Made)) {
		c.After, err = c.state(ctx, c.Before, true)
	}
	if err == nil {
		err = c.Records.Done(ctx, c)
	}
	if err != nil && c.IfCut == Back {
		err = c.takeBack(ctx, err)
	}
	return true, err
}

// refused returns the error of the first path that the plan leaves alone, if any makes
// one.
func (c *Change) refused() error {
	for _, it := range c.Plan.Items {
		if c.Refuse == nil || !IsLeft(it) {
			continue
		}
		if err := c.Refuse(it); err != nil {
			return err
		}
	}
	return nil
}

// A TakenBackError says what became of a change that could not go on after the record of
// its intent.
type TakenBackError struct {
	Cause error  // why it could not
	State string // of the directory, for people
	Err   error  // why it could not be changed back; nil: it was, as far as State says
}

func (e *TakenBackError) Error() string { return e.Cause.Error() + "; " + e.State }

func (e *TakenBackError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// takeBack changes back what a change has written that cannot go on. The error is a
// *TakenBackError.
func (c *Change) takeBack(ctx context.Context, cause error) error {
	if errors.Is(cause, context.Canceled) { // somebody may wait for the end
		next := "goes on with that"
		if c.IfCut == Forward {
			next = "brings the restore to its end instead"
		}
		c.Log.Warn("interrupted: what was changed is being changed back; " +
			"if that is ended, too, the next command " + next)
	}
	plan, err := c.End(context.WithoutCancel(ctx), Back)
	if err != nil {
		return &TakenBackError{cause,
			fmt.Sprintf("and it could not be changed back, with which the next look goes on: %v", err), err}
	}
	for _, it := range plan.Items {
		if IsLeft(it) {
			return &TakenBackError{cause, fmt.Sprintf("all was changed back but %q (%s)", it.Path, it.Why), nil}
		}
	}
	return &TakenBackError{cause, "nothing was changed", nil}
}

// End takes a change that was cut off to one of its states. What somebody else has
// written meanwhile stays. It returns the plan that it has carried out.
func (c *Change) End(ctx context.Context, to Direction) (*livedir.Plan, error) {
	wants, err := Between(ctx, c.Pages, c.Before.Tree, c.After.Tree)
	if err != nil {
		return nil, err
	}
	if err := livedir.Sweep(ctx, c.Root, wants, c.ID); errors.Is(err, livedir.ErrAside) {
		c.Log.Warn("something of a change that was cut off is left", "err", err)
	} else if err != nil {
		return nil, err
	}
	from, now, moves := c.Before, c.After, c.Moves
	if to == Back {
		from, now, moves = now, from, Reverse(moves)
		if wants, err = Between(ctx, c.Pages, from.Tree, now.Tree); err != nil {
			return nil, err
		}
	}
	if err := acceptHalfMade(ctx, c.Root, wants); err != nil {
		return nil, err
	}
	plan, err := livedir.NewPlan(ctx, c.Root, wants, &livedir.Options{Moves: moves})
	if err == nil {
		err = plan.Save(ctx, c.Root, c.Writer)
	}
	if err == nil {
		err = c.apply(ctx, plan)
	}
	if err != nil {
		return nil, err
	}
	// Paths that were left are taken for what they were; if they are something else
	// meanwhile, the next look finds that.
	var edits []trees.Edit
	for _, it := range plan.Items {
		if IsLeft(it) {
			was, err := trees.EntryAt(ctx, c.Pages, from.Tree, it.Path)
			if err != nil {
				return nil, err
			}
			edits = append(edits, trees.Edit{Path: it.Path, New: was})
		}
	}
	now.Coverage = c.Before.Coverage
	if now.Tree, err = trees.Patch(ctx, c.Pages, c.Writer, now.Tree, addMade(edits, plan, true)); err != nil {
		return nil, err
	}
	return plan, c.Records.Ended(ctx, to, now, plan)
}

// Leave ends a change that was cut off where it is, as if all its paths were left: the next look finds
// what they are. It is for one that End cannot end, as what that needs is lost.
func (c *Change) Leave(ctx context.Context) error {
	if err := livedir.Abandon(ctx, c.Root, c.ID, c.Blobs); err != nil { // the next look finds what is there
		c.Log.Warn("something of a change that was cut off is left", "err", err)
	}
	return c.Records.Ended(ctx, Back, c.Before, new(livedir.Plan))
}

func (c *Change) apply(ctx context.Context, plan *livedir.Plan) error {
	err := plan.Apply(ctx, c.Root, c.Blobs, c.ID)
	if plan.Stays != "" {
		c.Log.Warn(plan.Stays)
	}
	return err
}

// acceptHalfMade takes directories for unchanged that the change has made or opened and
// not given their modes yet.
func acceptHalfMade(ctx context.Context, root *livedir.Root, wants []livedir.Want) error {
	for i := range wants {
		w := &wants[i]
		made := w.New
		if made == nil || !made.Mode.IsDir() {
			made = w.Old
		}
		if made == nil || !made.Mode.IsDir() {
			continue
		}
		now, err := root.Entry(ctx, w.Path, trees.NewOverlay(nil))
		if err != nil {
			return err
		}
		if now != nil && (now.Mode == made.Mode|0o700 || now.Mode == tree.ModeDir|0o700) {
			w.Old, w.Parent = now, false
		}
	}
	return nil
}
