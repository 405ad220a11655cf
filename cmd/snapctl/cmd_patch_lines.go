package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/boocode/filestore/patch"
)

// A locateRequest is a line for patch locate --jsonl.
type locateRequest struct {
	ID      json.RawMessage   `json:"id"`
	Content string            `json:"content"`
	Old     string            `json:"old"`
	New     *string           `json:"new"`
	Options patch.OptionsJSON `json:"options"`
}

// A locateResponse is the answer.
type locateResponse struct {
	ID         json.RawMessage `json:"id,omitempty"`
	Kind       patch.Kind      `json:"kind"`
	Stage      *patch.Stage    `json:"stage"` // null: none decided
	Start      *int            `json:"start"` // null: nothing was found
	End        *int            `json:"end"`
	Count      int             `json:"count"`
	Spans      []patch.Span    `json:"spans,omitempty"` // of several
	Similarity float64         `json:"similarity"`
	Result     *string         `json:"result,omitempty"` // only where something was replaced
	Reason     patch.Reason    `json:"reason,omitempty"`

	StartLine int             `json:"startLine,omitempty"`
	EndLine   int             `json:"endLine,omitempty"`
	Near      []patch.Near    `json:"near,omitempty"`
	Warnings  []patch.Warning `json:"warnings,omitempty"`
	Message   string          `json:"message,omitempty"` // of a refusal
}

func locateAnswer(content, old, new []byte, hasNew bool, opts *patch.Options) (*locateResponse, *patch.Match) {
	var r *patch.Result
	if hasNew {
		r = patch.Replace(content, old, new, opts)
	} else {
		r = &patch.Result{Match: *patch.Locate(content, old, opts)}
	}
	m := &r.Match
	answer := &locateResponse{Kind: m.Kind, Count: m.Count, Spans: m.Spans, Similarity: m.Similarity, Reason: m.Reason, StartLine: m.StartLine, EndLine: m.EndLine, Near: m.Near, Warnings: r.Warnings}
	if m.Stage != "" {
		answer.Stage = &m.Stage
	}
	if !m.Found() {
		answer.Message = m.Explain()
		return answer, m
	}
	answer.Start, answer.End = &m.Start, &m.End
	if hasNew {
		text := string(r.Content)
		answer.Result = &text
	}
	return answer, m
}

func answerLocate(line []byte) (any, error) {
	var q locateRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	replacement := ""
	if q.New != nil {
		replacement = *q.New
	}
	answer, _ := locateAnswer([]byte(q.Content), []byte(q.Old), []byte(replacement), q.New != nil, q.Options.Options())
	answer.ID = q.ID
	return answer, nil
}

// patchLines answers requests from stdin, line by line.
func (a *app) patchLines(answer func(line []byte) (any, error)) error {
	if a.stdin == nil {
		return errors.New("no stdin")
	}
	in := bufio.NewReader(a.stdin)
	bad := 0
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			v, err := answer(line)
			if err != nil {
				bad++
				v = map[string]any{"id": nil, "kind": patch.IsInvalid, "reason": "request", "message": fmt.Sprintf("line %d: %v", n, err)}
			}
			if err := a.printJSON(v); err != nil {
				return err
			}
			if in.Buffered() == 0 { // who waits for it gets it
				if err := a.out.Flush(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if bad > 0 {
		return &failure{code: exitUsage, err: fmt.Errorf("%s could not be read", count(bad, "request"))}
	}
	return nil
}

// An applyRequest is a line for patch apply --jsonl.
type applyRequest struct {
	ID      json.RawMessage   `json:"id"`
	Format  patch.Format      `json:"format"`
	Files   map[string]string `json:"files"`
	Path    string            `json:"path"` // of blocks and edits that name none
	Input   string            `json:"input"`
	Options struct {
		patch.OptionsJSON
		Sequential bool `json:"sequential"`
		Fuzz       *int `json:"fuzz"`
	} `json:"options"`
}

// An applyResponse is the answer: all files afterwards, or all that was refused.
type applyResponse struct {
	ID     json.RawMessage   `json:"id,omitempty"`
	OK     bool              `json:"ok"`
	Files  map[string]string `json:"files,omitempty"`
	Errors []hunkError       `json:"errors,omitempty"`
}

type hunkError struct {
	Path    string       `json:"path,omitempty"`
	Line    int          `json:"line,omitempty"` // of the patch
	Reason  patch.Reason `json:"reason,omitempty"`
	Message string       `json:"message"`
	Near    []patch.Near `json:"near,omitempty"`
}

func hunkErrors(list []*patch.HunkError) (out []hunkError) {
	for _, e := range list {
		out = append(out, hunkError{e.Path, e.Line, e.Match.Reason, e.Error(), e.Match.Near})
	}
	return out
}

func answerApply(line []byte) (any, error) {
	var q applyRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	answer := &applyResponse{ID: q.ID}
	p, err := patch.Parse(q.Format, []byte(q.Input), q.Path)
	if err != nil {
		e := hunkError{Message: err.Error()}
		if bad, ok := errors.AsType[*patch.ParseError](err); ok {
			e.Line = bad.Line
		}
		answer.Errors = []hunkError{e}
		return answer, nil
	}
	read := func(path string) ([]byte, error) {
		content, ok := q.Files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
	results, refused := p.Apply(read, &patch.ApplyOptions{Options: *q.Options.Options(), Sequential: q.Options.Sequential, Fuzz: q.Options.Fuzz})
	if answer.Errors = hunkErrors(refused); len(refused) > 0 {
		return answer, nil
	}
	answer.OK, answer.Files = true, make(map[string]string)
	for path, content := range q.Files {
		answer.Files[path] = content
	}
	for _, r := range results {
		delete(answer.Files, r.Path)
	}
	for _, r := range results {
		if r.Op != patch.Delete {
			answer.Files[cmp.Or(r.To, r.Path)] = string(r.Content)
		}
	}
	return answer, nil
}
