package patch

import (
	"bytes"
	"encoding/json"
	"slices"
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

	ReplaceAll bool `json:"replace_all"`
	OptionsJSON
}

// OptionsJSON are [Options] as programs write them. A patch that has them may
// ask for less than who applies it allows, and not for more.
type OptionsJSON struct {
	Stages               []Stage  `json:"stages,omitempty"`
	ExpectedReplacements *int     `json:"expected_replacements,omitempty"` // 0: all
	Fuzzy                *bool    `json:"fuzzy,omitempty"`                 // default true
	MinSimilarity        float64  `json:"min_similarity,omitempty"`
	Reindent             Reindent `json:"reindent,omitempty"` // "auto" or "off"; default: what who applies it has
	Merge                *bool    `json:"merge,omitempty"`    // default: what who applies it has
	LineHint             int      `json:"line_hint,omitempty"`
}

// Options returns the options for [Locate].
func (o *OptionsJSON) Options() *Options {
	opts := o.over(Options{})
	return &opts
}

// over returns options with those that are set in place of the given ones.
func (o *OptionsJSON) over(opts Options) Options {
	switch {
	case o.Stages == nil:
	case opts.Stages == nil:
		opts.Stages = o.Stages
	default: // what both allow
		opts.Stages = slices.DeleteFunc(slices.Clone(opts.Stages), func(s Stage) bool { return !slices.Contains(o.Stages, s) })
	}
	if n := o.ExpectedReplacements; n != nil {
		switch opts.Replacements = *n; {
		case *n == 0:
			opts.Replacements = All
		case *n < 0:
			opts.Replacements = All - 1 // out of range
		}
	}
	// These, too, may only ask for more than what is given.
	opts.ExactOnly = opts.ExactOnly || o.Fuzzy != nil && !*o.Fuzzy
	opts.MinSimilarity = max(opts.MinSimilarity, o.MinSimilarity)
	switch o.Reindent {
	case "":
	case ReindentOff, "none":
		if opts.Reindent == ReindentNone {
			opts.Reindent = ReindentOff
		}
	default:
		opts.Reindent = o.Reindent
	}
	if o.LineHint != 0 {
		opts.LineHint = o.LineHint
	}
	opts.Merge = opts.Merge || o.Merge != nil && *o.Merge
	return opts
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
		if e.ReplaceAll {
			e.ExpectedReplacements = new(int)
		}
		h.Options = e.OptionsJSON
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
