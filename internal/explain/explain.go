// Package explain is the one table of what can go wrong: each error of the
// packages below with its code for programs, the command's exit code, the status
// over HTTP, and what to do about it, for people and for models. The command, RPC,
// MCP and HTTP look here, and add only what they alone know of.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Exit codes (docs/reference/cli.md).
const (
	Done        = 0
	Refused     = 1   // or differences found, with --exit-code
	Usage       = 2   // the command line makes no sense
	Part        = 3   // something was skipped, and is listed
	Damage      = 4   // the store is not what was written
	Budget      = 5   // over budget, or too broad a root
	Environment = 6   // I/O, locks, a newer format
	Interrupted = 130 // as a shell has it for SIGINT
)

// Statuses over HTTP. Package net/http has their names, and is more than who embeds
// a client has to link.
const (
	badRequest    = 400
	forbidden     = 403
	notFound      = 404
	conflict      = 409
	gone          = 410
	tooLarge      = 413
	unprocessable = 422
	tooMany       = 429
	broken        = 500
	unavailable   = 503
	late          = 504
	fullDisk      = 507
)

// A Kind is a kind of error.
type Kind struct {
	Code   string // for programs, in RPC, MCP and HTTP
	Exit   int
	Status int    // over HTTP
	Hint   string // for who types commands; "": the error says it all
	Advice string // for a model

	Errs []error          // that it matches
	is   func(error) bool // beside these
}

// Kinds of what is wrong with a request, whatever it is about.
var (
	// BadRequest: it is no JSON, or a field is missing or of the wrong kind.
	BadRequest = &Kind{Code: "bad_request", Exit: Usage, Status: badRequest,
		Advice: "Correct the arguments and call again.",
		is: func(err error) bool {
			isPath := errors.Is(err, inside.ErrPath) || errors.Is(err, syscall.ENAMETOOLONG)
			return errors.Is(err, history.ErrNoWindows) || errors.Is(err, history.ErrToolRuns) ||
				errors.Is(err, history.ErrNoTool) || errors.Is(err, inside.ErrPage) ||
				errors.Is(err, sessionlog.ErrNotFile) ||
				isPath && !isA[*manager.EditError](err) // of one file of several the refusal tells
		}}
	BadCommand = &Kind{Code: "bad_command", Exit: Usage, Status: notFound} // there is none of that name
	// DuplicateID: a request under this ID is being answered.
	DuplicateID = &Kind{Code: "duplicate_id", Exit: Environment, Status: conflict}
	TooMany     = &Kind{Code: "too_many", Exit: Environment, Status: tooMany} // at once
	TooLong     = &Kind{Code: "too_long", Exit: Usage, Status: tooLarge}      // a line
	// NoSession: the connection has not initialized the session.
	NoSession = &Kind{Code: "no_session", Exit: Environment, Status: conflict}
	Stalled   = &Kind{Code: "stalled", Exit: Environment, Status: late} // no progress for too long
	Internal  = &Kind{Code: "internal", Exit: Environment, Status: broken}
	Cancelled = &Kind{Code: "cancelled", Exit: Interrupted, Status: unavailable, Errs: []error{context.Canceled},
		Advice: "The call was cancelled: nothing is reported as done. Call snapshot_list to see what is on record."}
	// SeveralTurns: nothing says in which of several open turns a tool was called.
	SeveralTurns = &Kind{Code: "several_turns", Exit: Refused, Status: conflict,
		Advice: "Nothing was done. Another session calls the same tool at this moment: call again once, " +
			"and if that is refused, too, leave it and tell the user."}
	// OtherPlan: what would be done is not what was agreed to.
	OtherPlan = &Kind{Code: "other_plan", Exit: Refused, Status: conflict,
		Hint: "nothing was changed; look at what would be done now", Advice: "Ask for a preview again."}
	// Changed: a list is not what it was for the part before.
	Changed = &Kind{Code: "changed", Exit: Environment, Status: conflict, Advice: "Call again without cursor."}
)

// Kinds are all of them. Of those that an error matches the first counts: some
// have others as causes.
var Kinds = []*Kind{
	BadRequest, BadCommand, DuplicateID, TooMany, TooLong, NoSession, Stalled, SeveralTurns, OtherPlan, Changed,
	Internal,
	Cancelled,
	{Code: "timed_out", Exit: Environment, Status: late, Errs: []error{context.DeadlineExceeded},
		Advice: "Call again: what was read until then is kept."},
	{Code: "budget", Exit: Budget, Status: unprocessable, Errs: []error{tree.ErrBudget},
		Hint: "leave directories out with .booignore, or record what fits with --partial",
		Advice: "Nothing was recorded. Call again with partial: true to take what fits, or list directories that " +
			"are not worth keeping in .booignore."},
	{Code: "bad_patch", Exit: Usage, Status: unprocessable, is: isA[*patch.ParseError],
		Advice: "No file was changed. Correct the patch, or give path, old and new."},
	{Code: "refused", Exit: Refused, Status: unprocessable, is: isA[*manager.EditError],
		Hint: "nothing was written",
		Advice: "No file was changed. Read the places named above and call patch_apply again with the text that is " +
			"there, exactly."},
	{Code: "outside", Exit: Usage, Status: unprocessable, Errs: []error{manager.ErrOutside},
		Advice: "Give a path inside the directory, relative to its root."},
	{Code: "not_all", Exit: Part, Status: gone, Errs: []error{manager.ErrNotAll},
		Hint:   "what was pruned, forgotten or lost is not known; find --since REV looks only at what came after a REV",
		Advice: "What was found is right, and there may be more: tell the user what could not be searched."},
	{Code: "bad_pattern", Exit: Usage, Status: unprocessable, Errs: []error{path.ErrBadPattern},
		Hint:   "a backslash before *, ? or [ takes it as it is",
		Advice: "Correct the pattern: a [ needs its ]."},
	{Code: "too_broad", Exit: Budget, Status: unprocessable, Errs: []error{manager.ErrTooBroad},
		Hint: "name a project with --root DIR, or insist with --allow-broad",
		Advice: "This server was started on a directory that is not one project. Ask the user to start it with " +
			"--root DIR, or with --allow-broad."},
	{Code: "moved", Exit: Refused, Status: conflict, Errs: []error{places.ErrMovedAway},
		Hint: "'snapctl adopt' continues its history here",
		Advice: "The directory was moved, and its history is known under the old path: ask the user to run " +
			"'snapctl adopt' in it."},
	{Code: "not_moved", Exit: Refused, Status: conflict, Errs: []error{places.ErrNotMoved},
		Hint:   "name the old path: 'snapctl adopt OLDPATH'; 'snapctl stores' lists the paths that are known",
		Advice: "Ask the user to run 'snapctl adopt OLDPATH'; 'snapctl stores' lists the paths that are known."},
	{Code: "has_history", Exit: Refused, Status: conflict, Errs: []error{places.ErrStillThere, places.ErrHasHistory},
		Hint:   "both histories are kept, and are not merged; 'snapctl --root OLDPATH log' shows the other one",
		Advice: "Tell the user that both histories are kept: 'snapctl --root OLDPATH log' shows the other one."},
	{Code: "other_project", Exit: Refused, Status: conflict, Errs: []error{places.ErrOtherProject},
		Hint:   "nothing was changed; move the store to where it belongs",
		Advice: "The store in the place of this project's is another's: ask the user to move it to where it belongs."},
	{Code: "other_user", Exit: Environment, Status: forbidden, Errs: []error{cas.ErrOwner},
		Hint:   "'snapctl --store DIR …' keeps stores of your own",
		Advice: "The store is another user's: ask the user to start the server as its owner, or with --store DIR."},
	{Code: "busy", Exit: Refused, Status: conflict, Errs: []error{cas.ErrBusy},
		Hint: "nothing was changed; try again, wait longer with --wait, or end who has the store open: 'snapctl " +
			"serve --stop'",
		Advice: "Another process has the store open that has to be moved or pruned: ask the user to end it, then " +
			"call again."},
	{Code: "plan_stale", Exit: Refused, Status: conflict, Errs: []error{cas.ErrPlanStale},
		Hint:   "another prune or repair changed the store meanwhile: run the command again",
		Advice: "Another prune or repair was faster: call again."},
	{Code: "no_space", Exit: Environment, Status: fullDisk, Errs: []error{store.ErrNoSpace},
		Hint:   "free some space, e.g. by 'snapctl prune --keep-last 50'; restore and undo may take what is left",
		Advice: "The disk is full: ask the user to free some, or to run snapctl prune."},
	// of the store, or of the directory
	{Code: "no_space", Exit: Environment, Status: fullDisk, Errs: []error{syscall.ENOSPC, syscall.EDQUOT},
		Hint: "free some space on that disk, or remove files if 'df -i' says that it can have no more; if the store " +
			"is on it, 'snapctl prune --keep-last 50' may do so",
		Advice: "The disk is full: ask the user to free some, or to run snapctl prune."},
	{Code: "damaged", Exit: Damage, Status: broken, Errs: []error{retain.ErrDamaged},
		Hint: "run 'snapctl repair'; if it cannot mend everything, --accept-loss of repair accepts the loss for " +
			"good, and --despite-damage ignores it this once",
		Advice: "The store is damaged: ask the user to run 'snapctl repair'."},
	{Code: "promised", Exit: Environment, Status: unavailable, is: isA[*cas.PromisedError],
		Hint: "nothing is lost: the same command goes on when the remote answers; 'snapctl remote fetch' brings all",
		Advice: "That content is at a remote which could not be asked: go on without it, or call again later. " +
			"It is not empty, and not deleted."},
	{Code: "forgotten", Exit: Refused, Status: gone, Errs: []error{store.ErrForgotten},
		Hint:   "'snapctl forget' removed it from all snapshots, for good",
		Advice: "The user has removed that content from all snapshots, for good: go on without it."},
	{Code: "pruned", Exit: Refused, Status: gone, Errs: []error{store.ErrPruned},
		Hint:   "'snapctl prune' dropped it; 'snapctl log' lists the snapshots that are left",
		Advice: "Old snapshots were removed: snapshot_list says which are kept."},
	{Code: "changed_nothing", Exit: Refused, Status: conflict, Errs: []error{manager.ErrChangedNothing},
		Advice: "Call again with the revision that the error names, or with one of snapshot_list."},
	{Code: "no_snapshots", Exit: Refused, Status: conflict, Errs: []error{history.ErrNoSession},
		Hint:   "'snapctl sessions --all' lists sessions",
		Advice: "Call snapshot_create first."},
	{Code: "edit_cut_off", Exit: Refused, Status: conflict, Errs: []error{manager.ErrEditCutOff},
		Hint: "the next snapshot or edit takes the unfinished edit back",
		Advice: "An edit was cut off by a crash. The next patch_apply without preview, or snapshot_create, takes " +
			"it back."},
	{Code: "cut_off", Exit: Refused, Status: conflict, Errs: []error{manager.ErrCutOff},
		Hint: "'snapctl restore --continue' finishes it, 'snapctl restore --abort' takes it back",
		Advice: "A restore of another program was cut off since this server started: files may be half of each " +
			"state. snapshot_create, restore, undo and redo bring it to its end first: call snapshot_create, then " +
			"this again."},
	{Code: "unknown", Exit: Refused, Status: conflict, Errs: []error{history.ErrUnknown},
		Hint: "'snapctl log' lists snapshots, 'snapctl log -- PATH' those that changed a path; see 'snapctl help revs'",
		Advice: "Call snapshot_list: it has the revisions. Paths are relative to the root; snapshot_diff lists " +
			"those that differ."},
	{Code: "ambiguous", Exit: Refused, Status: conflict, Errs: []error{history.ErrAmbiguous},
		Hint:   "type more characters of it",
		Advice: "Give more characters of it; snapshot_list has the entries in full."},
	{Code: "other_session", Exit: Refused, Status: conflict, Errs: []error{manager.ErrOtherSession},
		Hint:   "name that session with --session ID",
		Advice: "This server works on one session. Take a revision that snapshot_list has."},
	{Code: "turn_open", Exit: Refused, Status: conflict, Errs: []error{manager.ErrTurnOpen},
		Hint: "wait until the agent has finished; if it was stopped (Esc), --end-turn ends its turn first",
		Advice: "Another session is at work in the directory. Do not call again by yourself, as nobody knows " +
			"when its turn ends: tell the user, who may end it, or agree to force: true for a restore, undo or redo."},
	{Code: "locked", Exit: Environment, Status: conflict, Errs: []error{manager.ErrLocked},
		Advice: "A checkpoint is being restored, which takes seconds: wait, call again once, " +
			"and if that is refused, too, ask the user."},
	{Code: "no_turn", Exit: Environment, Status: conflict, Errs: []error{manager.ErrNoTurn},
		Advice: "The turn has ended meanwhile: call again once."},
	{Code: "head_changed", Exit: Refused, Status: conflict, Errs: []error{manager.ErrHeadChanged},
		Hint: "'snapctl restore -n' shows what would be done, -y does it all the same",
		Advice: "Call restore_preview to see what would be done, then restore with acrossHead: true if that is " +
			"wanted."},
	{Code: "nothing", Exit: Refused, Status: conflict, Errs: []error{manager.ErrNothing},
		Hint:   "'snapctl restore @~1' takes back the newest turn",
		Advice: "Nothing is left to take back. Every state is in reach: snapshot_list has the revisions for restore."},
	{Code: "nothing_to_forget", Exit: Refused, Status: conflict, Errs: []error{retain.ErrNothingToForget},
		Advice: "The file is empty: there is nothing to remove from snapshots."},
	{Code: "stale", Exit: Refused, Status: conflict, Errs: []error{manager.ErrStale},
		Hint: "read the file again; 'snapctl patch undo' takes back the lines of the edit alone with --reverse, and " +
			"what came since, too, with --force",
		Advice: "Read the file again and base the edit on what is there now. patch_undo has reverse: true, which " +
			"takes back only what the edit changed, and force: true."},
	{Code: "not_text", Exit: Refused, Status: unprocessable, Errs: []error{manager.ErrNotText},
		Advice: "Only text files can be edited by patches."},
	{Code: "read_only", Exit: Refused, Status: unprocessable, Errs: []error{manager.ErrReadOnly},
		Advice: "The file's mode forbids writing: ask the user before changing that."},
	{Code: "entry_exists", Exit: Environment, Status: conflict, Errs: []error{session.ErrEntryExists},
		Advice: "Call snapshot_list: the step is on record."},
	{Code: "unknown_entry", Exit: Refused, Status: conflict, Errs: []error{session.ErrUnknownEntry},
		Advice: "Call snapshot_list: it has the entries."},
	{Code: "bad_log", Exit: Refused, Status: conflict, Errs: []error{sessionlog.ErrFormat, session.ErrCycle},
		Advice: "The session file cannot be read: ask the user."},
	{Code: "corrupt", Exit: Damage, Status: broken, Errs: []error{history.ErrUnfinished},
		Hint: "'snapctl repair' may bring back what it needs; else 'snapctl restore --abort --despite-damage' leaves " +
			"the files as they are, and snapshots go on",
		Advice: "A restore was cut off, and the store has lost what it needs: ask the user to run 'snapctl repair'."},
	{Code: "corrupt", Exit: Damage, Status: broken, Errs: []error{store.ErrCorrupt}, is: isBadPage,
		Hint:   "'snapctl check' lists all that is damaged",
		Advice: "The store is damaged: ask the user to run 'snapctl check'."},
	{Code: "not_found", Exit: Damage, Status: broken, Errs: []error{store.ErrNotFound},
		Hint:   "'snapctl check' lists all that is damaged",
		Advice: "The store lacks what it needs: ask the user to run 'snapctl check'."},
	{Code: "format", Exit: Environment, Status: broken, Errs: []error{store.ErrFormat},
		Hint:   "it was made by a newer snapctl, which is needed here, or is not a store; nothing was changed",
		Advice: "The store was made by a newer snapctl: ask the user to update."},
	{Code: "no_locks", Exit: Environment, Status: broken, Errs: []error{layout.ErrNoLocks, cas.ErrNoRename},
		Hint: "put the store on a local disk with --store DIR",
		Advice: "The store is on a file system without locks or renames: ask the user to start the server with " +
			"--store DIR on a local disk."},
	{Code: "not_exist", Exit: Environment, Status: broken, Errs: []error{fs.ErrNotExist, syscall.ENOTDIR},
		Advice: "The path does not exist: see snapshot_diff, or create the file with patch_apply and an empty old."},
	{Code: "exists", Exit: Environment, Status: broken, Errs: []error{fs.ErrExist},
		Advice: "Something is in the way: see what is there first."},
	{Code: "permission", Exit: Environment, Status: broken, Errs: []error{syscall.EROFS},
		Hint: "the disk is read-only, as it is made after disk errors: log, diff, cat and check read what is there, " +
			"and export writes it to another disk",
		Advice: "The disk is read-only: ask the user."},
	{Code: "permission", Exit: Environment, Status: broken, Errs: []error{fs.ErrPermission},
		Advice: "The operating system refuses: ask the user."},
	{Code: "closed", Exit: Environment, Status: unavailable,
		Errs:   []error{fs.ErrClosed, layout.ErrClosed, layout.ErrGone},
		Advice: "The server is ending: ask the user to start it again."},
}

// isBadPage reports whether a tree object is not what it should be.
func isBadPage(err error) bool { return trees.IsLoss(err) && !errors.Is(err, store.ErrNotFound) }

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Of returns the kind of an error, [Internal] if it is none of the table.
func Of(err error) *Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	for _, k := range Kinds {
		if k.matches(err) {
			return k
		}
	}
	return Internal
}

func (k *Kind) matches(err error) bool {
	for _, e := range k.Errs {
		if errors.Is(err, e) {
			return true
		}
	}
	return k.is != nil && k.is(err)
}

// Code returns the code of an error.
func Code(err error) string { return Of(err).Code }

// HasCode reports whether errors that match target have a code.
func HasCode(code string, target error) bool {
	return slices.ContainsFunc(Kinds, func(k *Kind) bool { return k.Code == code && slices.Contains(k.Errs, target) })
}

// An Error is one of a kind that no error of a package below stands for.
type Error struct {
	Kind    *Kind
	Message string
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an error of a kind.
func Errorf(k *Kind, format string, args ...any) error {
	return &Error{k, fmt.Sprintf(format, args...)}
}
