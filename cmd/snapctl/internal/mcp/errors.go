package mcp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
)

// hintFuzzy is for an edit that was refused, and could be made with fuzzy. That
// was tried.
const hintFuzzy = "No file was changed. With fuzzy: true the same call takes what is similar, and can be made " +
	"(preview: true shows what it would do); or read the places named above and call patch_apply again with the text " +
	"that is there, exactly."

// toolHints are hints of one tool, which go before the others.
var toolHints = map[string]string{
	"undo nothing": "No restore is left to undo. To take back what the newest step changed, call restore with " +
		"target \"@~1\".",
	"redo nothing": "No undo is left to redo. Every state is still in reach: snapshot_list has the revisions " +
		"for restore.",
	"restore unknown":     unknownName,
	"revert unknown":      unknownName,
	"patch_undo unknown":  "Take the undoId from the answer of patch_apply.",
	"snapshot_diff stale": "A file was changed while it was read: call again once, or with paths that leave it out.",
}

// unknownName is about all that restore and revert take by name.
const unknownName = "Call snapshot_list: it has the revisions; or hunks, for the IDs of pieces, which are others as " +
	"soon as the files are. Paths are relative to the root; snapshot_diff lists those that differ."

const (
	// maxError is how many bytes of an error are told, or of one refusal of many. It
	// names what is wrong first.
	maxError = 1_000
	// maxRefusals is how many are told of the pieces of a patch, with what is nearest.
	maxRefusals = 6_000
	// maxErrorText is how many are told of errors of the protocol, which repeat names.
	maxErrorText = maxError + 500
)

// bounded returns as much of the text of an error as is told.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s ... and %d bytes more", strings.ToValidUTF8(text[:most], ""), len(text)-most)
}

// maxShown is how many bytes of an argument are told that is refused.
const maxShown = 200

// quoted returns as much of a name as is told.
func quoted(name string) string { return fmt.Sprintf("%q", bounded(name, maxShown)) }

// whatToDo comes before the advice of an error, which is bounded when it is made.
const whatToDo = "\nWhat to do: "

// failed returns the error of a tool as a model is told it: what went wrong, and
// what to do. It makes a result of the tool, and is none of the protocol.
func failed(tool string, err error) error {
	k, message, most := explain.Of(err), err.Error(), maxError
	fuzzyFits := false
	if refused, ok := errors.AsType[*manager.EditError](err); ok {
		message, most = refusals(refused), maxRefusals
		if cause := explain.Of(refused.Refused[0].Err); cause.Advice != "" {
			k = cause
		}
		fuzzyFits = refused.Fuzzy
	}
	hint := k.Advice
	if fuzzyFits {
		hint = hintFuzzy
	}
	if h := toolHints[tool+" "+k.Code]; h != "" {
		hint = h
	}
	if hinted, ok := errors.AsType[*hintError](err); ok {
		hint = hinted.hint
	}
	text := fmt.Sprintf("%s failed [%s]: %s", tool, k.Code, bounded(message, most))
	if hint != "" {
		text += whatToDo + bounded(hint, maxError)
	}
	return errors.New(text)
}

// A hintError is an error with what to do about it.
type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// refusals says why the pieces of a patch were refused, with the places that
// are nearest.
func refusals(e *manager.EditError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "nothing was written: %s refused", words.Count(len(e.Refused), "piece"))
	for _, r := range e.Refused {
		bare := *r // without white space made visible, which a model might copy
		bare.Match.Near = nil
		fmt.Fprintf(&b, "\n- %s", bounded(bare.Error(), maxError))
		word := ""
		if r.Match.Kind == patch.IsNotFound && r.Match.Reason != "both_changed" {
			word = "nearest: "
		}
		for _, n := range r.Match.Near {
			fmt.Fprintf(&b, "\n  %slines %d-%d, %.0f%% similar", word, n.StartLine, n.EndLine, 100*n.Similarity)
			if n.Line > 0 {
				fmt.Fprintf(&b, "; line %d is %q, not %q", n.Line, bounded(n.Got, maxError), bounded(n.Want, maxError))
			}
		}
	}
	return b.String()
}
