package patch

import "fmt"

// A ParseError says why a patch makes no sense. Nothing of it is applied.
type ParseError struct {
	Line   int // of the patch, from 1; 0: of all of it
	Reason string
}

func (e *ParseError) Error() string {
	if e.Line == 0 {
		return "patch: " + e.Reason
	}
	return fmt.Sprintf("patch: line %d: %s", e.Line, e.Reason)
}

// A HunkError says why a hunk, or a file as a whole, is refused.
type HunkError struct {
	Path  string
	Line  int   // of the patch; 0: of the file as a whole
	Match Match // why it was not found
	Err   error // why else; nil: see Match
}

func (e *HunkError) Error() string {
	what := fmt.Sprintf("%q", e.Path)
	if e.Line > 0 {
		what += fmt.Sprintf(", line %d of the patch", e.Line)
	}
	if e.Err != nil {
		return what + ": " + e.Err.Error()
	}
	return what + ": " + e.Match.Explain()
}

func (e *HunkError) Unwrap() error { return e.Err }
