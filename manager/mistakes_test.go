package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/boocode/filestore/patch"
)

// A slipCase is one of testdata/mistakes.txt.
type slipCase struct {
	name          string
	head          map[string]string
	files, wanted files
	old, new      string
	patch         string
	hasOld        bool
}

// slipCases reads testdata/mistakes.txt: cases that begin with a line of ==== and
// the name, lines of KEY: TEXT, and files, those of them that are wanted below
// want/. In the texts ␍ is a carriage return, ∎ takes away the line end behind it,
// and ‖ a byte order mark.
func slipCases(t *testing.T) (list []*slipCase) {
	t.Helper()
	b, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("␍", "\r", "∎\n", "", "‖", "\ufeff").Replace
	_, rest, _ := strings.Cut("\n"+string(b), "\n==== ")
	for part := range strings.SplitSeq(rest, "\n==== ") {
		name, body, _ := strings.Cut(part, "\n")
		c := &slipCase{name: name, head: make(map[string]string), files: files{}, wanted: files{}}
		a := txtar.Parse([]byte(body))
		for l := range strings.Lines(string(a.Comment)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(l), ": "); ok {
				c.head[key] = value
			}
		}
		for _, f := range a.Files {
			switch name, wanted := strings.CutPrefix(f.Name, "want/"); {
			case wanted:
				c.wanted[name] = text(string(f.Data))
			case f.Name == "old":
				c.old, c.hasOld = strings.TrimSuffix(text(string(f.Data)), "\n"), true
			case f.Name == "new":
				c.new = strings.TrimSuffix(text(string(f.Data)), "\n")
			case f.Name == "patch":
				c.patch = text(string(f.Data))
			default:
				c.files[f.Name] = text(string(f.Data))
			}
		}
		for name := range strings.FieldsSeq(c.head["gone"]) {
			c.wanted[name] = "\x00"
		}
		list = append(list, c)
	}
	return list
}

// parse returns the patch of a case.
func (c *slipCase) parse() (*patch.Patch, error) {
	if c.hasOld {
		h := patch.Hunk{Old: []byte(c.old), New: []byte(c.new)}
		return &patch.Patch{Format: patch.EditList,
			Files: []patch.FilePatch{{Op: patch.Update, Path: c.head["path"], Hunks: []patch.Hunk{h}}}}, nil
	}
	return patch.Parse(patch.Format(c.head["format"]), []byte(c.patch), c.head["path"])
}

// inMemory applies a case in memory, with the defaults of package patch.
func (c *slipCase) inMemory() (after files, err error) {
	p, err := c.parse()
	if err != nil {
		return nil, err
	}
	results, refused := p.Apply(func(path string) ([]byte, error) {
		content, ok := c.files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}, nil)
	if len(refused) > 0 {
		return nil, &EditError{Refused: refused}
	}
	after = maps.Clone(c.files)
	for _, r := range results {
		delete(after, r.Path)
	}
	for _, r := range results {
		if r.Op == patch.Delete {
			continue
		}
		to := r.Path
		if r.To != "" {
			to = r.To
		}
		after[to] = string(r.Content)
	}
	return after, nil
}

// warned reports whether a case that is applied in memory carries a warning.
func (c *slipCase) warned() bool {
	p, err := c.parse()
	if err != nil {
		return false
	}
	results, _ := p.Apply(func(path string) ([]byte, error) { return []byte(c.files[path]), nil }, nil)
	for _, r := range results {
		for _, h := range r.Hunks {
			if len(h.Warnings) > 0 {
				return true
			}
		}
	}
	return false
}

// TestMistakes applies what models get wrong, each case as it is by default, with
// Fuzzy, and in memory, where similar texts are taken from 0.66 on and new ones
// put as they are given. Nothing may be applied wrong but what is listed, with its
// reason; and that carries a warning.
func TestMistakes(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	cases := slipCases(t)
	if len(cases) < 60 {
		t.Errorf("%d cases", len(cases))
	}
	count := make(map[string]int)
	for _, c := range cases {
		want := maps.Clone(c.files)
		for name, content := range c.wanted {
			if want[name] = content; content == "\x00" {
				delete(want, name)
			}
		}
		onDisk := func(fuzzy bool) (files, error) {
			for name := range b.files() {
				b.remove(name)
			}
			for name, content := range c.files {
				b.write(name, content)
			}
			p, err := c.parse()
			if err == nil {
				_, err = m.ApplyEdits(t.Context(), &EditRequest{Patch: p, Fuzzy: fuzzy})
			}
			after := b.files()
			if err != nil && !cmp.Equal(files(c.files), after) {
				t.Errorf("%s: refused (%v), and yet %q", c.name, err, after)
			}
			return after, err
		}
		for mode, run := range map[string]func() (files, error){
			"default": func() (files, error) { return onDisk(false) },
			"fuzzy":   func() (files, error) { return onDisk(true) },
			"memory":  c.inMemory,
		} {
			after, err := run()
			got := "right"
			switch {
			case err != nil:
				got = "refused"
			case len(c.wanted) == 0 && cmp.Equal(want, after):
				got = "unchanged" // and said to be done
			case len(c.wanted) == 0 || !cmp.Equal(want, after):
				got = "wrong"
			}
			count[mode+" "+got]++
			expected := c.head[mode]
			if got != expected || got == "wrong" && c.head["reason"] == "" {
				t.Errorf("%s, %s: %s, want %s (%v)\n%s", c.name, mode, got, expected, err, cmp.Diff(want, after))
			}
			if got == "wrong" && (mode != "memory" || !c.warned()) {
				t.Errorf("%s, %s: wrong, and no warning of it", c.name, mode)
			}
			if says := c.head["says"]; err != nil && says != "" && mode == "default" &&
				!strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v, want %q", c.name, mode, err, says)
			}
			var refused *EditError
			if mode == "default" && errors.As(err, &refused) && refused.Fuzzy != (c.head["fuzzy"] == "right") {
				t.Errorf("%s: that it could be put with Fuzzy is said: %v", c.name, refused.Fuzzy)
			}
		}
	}
	var summary []string
	for _, mode := range []string{"default", "fuzzy", "memory"} {
		summary = append(summary, fmt.Sprintf("%s: %d right, %d refused, %d wrong", mode, count[mode+" right"],
			count[mode+" refused"], count[mode+" wrong"]))
	}
	t.Logf("%d cases; %s", len(cases), strings.Join(summary, "; "))
}
