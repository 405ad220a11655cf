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
	"path/filepath"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/patch"
)

// answerLocate answers a line for patch locate --jsonl.
func answerLocate(line []byte) (any, error) {
	var q struct {
		ID json.RawMessage `json:"id"`
		verbs.Locate
	}
	if err := readLine(line, &q); err != nil {
		return nil, err
	}
	return &struct {
		ID json.RawMessage `json:"id,omitempty"`
		*verbs.Located
	}{q.ID, q.Answer()}, nil
}

// readLine reads a request.
func readLine(line []byte, into any) error {
	if err := json.Unmarshal(line, into); err != nil {
		return err
	}
	return words.CheckText("request", line)
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
				v = map[string]any{"id": nil, "kind": patch.IsInvalid, "reason": "request",
					"message": fmt.Sprintf("line %d: %v", n, err)}
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
		return &failure{code: exitUsage, err: fmt.Errorf("%s could not be read", words.Count(bad, "request"))}
	}
	return nil
}

// An applyRequest is a line for patch apply --jsonl.
type applyRequest struct {
	ID      json.RawMessage   `json:"id"`
	Format  patch.Format      `json:"format"` // default: by its look
	Files   map[string]string `json:"files"`
	Path    string            `json:"path"` // of blocks and edits that name none
	Input   string            `json:"input"`
	Options struct {
		verbs.MatchOptions
		Sequential bool `json:"sequential"`
		Fuzz       *int `json:"fuzz"`
	} `json:"options"`
}

// An applyResponse is the answer: all files afterwards, or all that was refused.
type applyResponse struct {
	ID     json.RawMessage   `json:"id,omitempty"`
	OK     bool              `json:"ok"`
	Files  map[string]string `json:"files,omitzero"` // also where none is left
	Errors []verbs.Refusal   `json:"errors,omitempty"`
}

func answerApply(line []byte) (any, error) {
	var q applyRequest
	if err := readLine(line, &q); err != nil {
		return nil, err
	}
	answer := &applyResponse{ID: q.ID}
	p, err := patch.Parse(q.Format, []byte(q.Input), q.Path)
	if err != nil {
		e := verbs.Refusal{Message: err.Error()}
		if bad, ok := errors.AsType[*patch.ParseError](err); ok {
			e.Line = bad.Line
		}
		answer.Errors = []verbs.Refusal{e}
		return answer, nil
	}
	if answer.Errors = outside(p); answer.Errors != nil {
		return answer, nil
	}
	read := func(path string) ([]byte, error) {
		content, ok := q.Files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
	results, refused := p.Apply(read,
		&patch.ApplyOptions{Options: *q.Options.Options(), Sequential: q.Options.Sequential, Fuzz: q.Options.Fuzz})
	if answer.Errors = verbs.Refusals(refused); len(refused) > 0 {
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

// outside refuses paths of a patch that lead out of the directory that the files
// are in, wherever that is.
func outside(p *patch.Patch) (refused []verbs.Refusal) {
	for i := range p.Files {
		f := &p.Files[i]
		for _, path := range []string{f.Path, f.To, f.Other} {
			if path != "" && !filepath.IsLocal(path) {
				refused = append(refused, verbs.Refusal{Path: path, Reason: "outside",
					Message: fmt.Sprintf("%q: the path leads out of the directory", path)})
			}
		}
	}
	return refused
}
