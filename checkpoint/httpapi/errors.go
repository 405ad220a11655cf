package httpapi

import (
	"errors"
	"net/http"

	"github.com/boocode/filestore/checkpoint"
	explained "github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/manager"
)

// codes are those of errors of package checkpoint, and those that mean something
// else to who takes back a chat. The first that matches counts: what is undecided has
// a cause, which is not the answer. Other errors are in package explain.
var codes = []struct {
	err    error
	status int
	code   string
}{
	{checkpoint.ErrUndecided, http.StatusServiceUnavailable, "undecided"},
	{checkpoint.ErrNotFound, http.StatusNotFound, "not_found"},
	{checkpoint.ErrDirty, http.StatusConflict, "dirty"},
	{checkpoint.ErrFiles, http.StatusConflict, "files"},
	{checkpoint.ErrBusy, http.StatusConflict, "busy"},
	{checkpoint.ErrRunning, http.StatusConflict, "running"},
	{manager.ErrTurnOpen, http.StatusConflict, "running"},
	{checkpoint.ErrChanged, http.StatusConflict, "changed"},
	{checkpoint.ErrFollowed, http.StatusConflict, "followed"},
	{checkpoint.ErrNoWorktree, http.StatusConflict, "no_worktree"},
	{checkpoint.ErrAnchor, http.StatusConflict, "anchor"},
	{manager.ErrNoSession, http.StatusConflict, "unknown"},
}

// explain finds status and code for any error.
func explain(err error) *refusal {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e
	}
	k := explained.Of(err)
	e := &refusal{status: k.Status, Code: k.Code, Message: err.Error()}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			e.status, e.Code = c.status, c.code
			break
		}
	}
	if u, ok := errors.AsType[*checkpoint.UndecidedError](err); ok {
		e.RestoreID = u.RestoreID
	}
	if files, ok := errors.AsType[*checkpoint.FilesError](err); ok {
		switch e.Code {
		case "dirty":
			e.Files = files.Files.Dirty
		case "files":
			e.Files = files.Files.Failed
		}
	}
	return e
}
