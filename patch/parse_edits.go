package patch

import (
	"bytes"
	"encoding/json"

	"github.com/boocode/filestore/internal/words"
)

// An edit is one of an edit list, under any of the names in use.
type edit struct {
	Path     string `json:"path"`
	FilePath string `json:"file_path"`

	Old       *string `json:"old"`
	OldText   *string `json:"oldText"`
	OldStr    *string `json:"old_str"`
	OldString *string `json:"old_string"`
	New       *string `json:"new"`
	NewText   *string `json:"newText"`
	NewStr    *string `json:"new_str"`
	NewString *string `json:"new_string"`

	ReplaceAll           bool     `json:"replace_all"`
	Stages               []Stage  `json:"stages"`
	ExpectedReplacements *int     `json:"expected_replacements"` // 0: all
	Fuzzy                *bool    `json:"fuzzy"`
	MinSimilarity        float64  `json:"min_similarity"`
	Reindent             Reindent `json:"reindent"`
	Merge                *bool    `json:"merge"`
	LineHint             int      `json:"line_hint"`
}

// options returns what an edit asks for.
func (e *edit) options() Options {
	o := Options{Stages: e.Stages, MinSimilarity: e.MinSimilarity, Reindent: e.Reindent, LineHint: e.LineHint,
		ExactOnly: e.Fuzzy != nil && !*e.Fuzzy, Merge: e.Merge != nil && *e.Merge}
	if e.Reindent == "none" {
		o.Reindent = ReindentOff
	}
	if n := e.ExpectedReplacements; n != nil {
		if o.Replacements = *n; *n <= 0 { // less than 0 stays out of range
			o.Replacements = replaceAll + *n
		}
	}
	if e.ReplaceAll {
		o.Replacements = replaceAll
	}
	return o
}

// parseEdits reads an edit list: a JSON array of edits, or an object with one,
// named edits, and perhaps what they have in common.
func parseEdits(input []byte, path string) (files []FilePatch, err error) {
	var list []json.RawMessage
	var common edit
	if trimmed := bytes.TrimSpace(input); bytes.HasPrefix(trimmed, []byte("[")) {
		err = json.Unmarshal(input, &list)
	} else {
		var object struct {
			Edits []json.RawMessage `json:"edits"`
		}
		if err = json.Unmarshal(input, &object); err == nil {
			if list = object.Edits; list == nil {
				list = []json.RawMessage{input}
			} else {
				err = json.Unmarshal(input, &common)
			}
		}
	}
	if err == nil {
		err = words.CheckText("input", input)
	}
	if err != nil {
		return nil, &ParseError{Reason: "edit list: " + err.Error()}
	}
	for i, raw := range list {
		e := common
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, &ParseError{Line: i + 1, Reason: "edit list: " + err.Error()}
		}
		h := Hunk{Line: i + 1}
		was, is := first(e.Old, e.OldText, e.OldStr, e.OldString), first(e.New, e.NewText, e.NewStr, e.NewString)
		if was == nil || is == nil {
			return nil, &ParseError{Line: i + 1, Reason: "an edit without old or new"}
		}
		h.Old, h.New = []byte(*was), []byte(*is)
		h.Options = e.options()
		p := path
		for _, own := range []string{e.FilePath, e.Path} {
			if own != "" {
				p = own
			}
		}
		if p == "" {
			return nil, &ParseError{Line: i + 1, Reason: "an edit without a path"}
		}
		files = append(files, FilePatch{Op: Update, Path: p, Hunks: []Hunk{h}})
	}
	return files, nil
}

func first(list ...*string) *string {
	for _, s := range list {
		if s != nil {
			return s
		}
	}
	return nil
}
