package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Each mutant of the list still changes the code, and leaves a program behind:
// what does not compile is noticed by no test.
func TestList(t *testing.T) {
	list, err := readList(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 60 {
		t.Errorf("%d mutants", len(list))
	}
	pkgs := make(map[string][]*mutant)
	for _, m := range list {
		for _, run := range m.tests {
			if tests, err := filepath.Glob(filepath.Join(root, run.pkg, "*_test.go")); len(tests) == 0 || err != nil {
				t.Errorf("%s: no tests in %s: %v", m.name, run.pkg, err)
			}
		}
		if src, err := os.ReadFile(filepath.Join(root, m.file)); err != nil {
			t.Error(err)
		} else if _, err := m.apply(string(src)); err != nil {
			t.Error(err)
		} else {
			pkgs[m.pkg()] = append(pkgs[m.pkg()], m)
		}
	}
	imp := exports(t, slices.Collect(maps.Keys(pkgs)))
	for path, list := range pkgs {
		p := parsePackage(t, path, imp)
		if err := p.check(nil); err != nil { // else all that is checked says nothing
			t.Errorf("%s, with nothing broken: %v", path, err)
			continue
		}
		for _, m := range p.broken(t, list) {
			t.Errorf("%s:%d: %s does not compile: %v", listName, m.line, m.name, m.err)
		}
	}
}

// A misfit is a mutant that does not compile.
type misfit struct {
	*mutant
	err error
}

// broken returns the mutants of the package that do not compile. It checks as many at once as it
// can, and each alone only where some do not: to check the largest package takes 60 ms.
func (p *checked) broken(t *testing.T, list []*mutant) (bad []misfit) {
	for len(list) > 0 {
		texts := make(map[string]string)
		var together, rest []*mutant
		for _, m := range list {
			text, ok := texts[m.file]
			if !ok {
				src, err := os.ReadFile(filepath.Join(root, m.file))
				if err != nil {
					t.Fatal(err)
				}
				text = string(src)
			}
			if text, err := m.apply(text); err != nil { // another one changes the same lines
				rest = append(rest, m)
			} else {
				texts[m.file], together = text, append(together, m)
			}
		}
		switch err := p.check(texts); {
		case err == nil:
		case len(together) == 1:
			bad = append(bad, misfit{together[0], err})
		default:
			half := len(together) / 2
			bad = append(append(bad, p.broken(t, together[:half])...), p.broken(t, together[half:])...)
		}
		list = rest
	}
	return bad
}

// A checked is a package that is type-checked again and again.
type checked struct {
	path  string
	fset  *token.FileSet
	files map[string]*ast.File // by path from the root, those that this system compiles
	imp   types.Importer
}

func parsePackage(t *testing.T, pkg string, imp func(fset *token.FileSet) types.Importer) *checked {
	t.Helper()
	dir, err := build.ImportDir(filepath.Join(root, pkg), 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &checked{path: pkg, fset: token.NewFileSet(), files: make(map[string]*ast.File)}
	p.imp = imp(p.fset)
	for _, name := range dir.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(root, pkg, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files[strings.TrimPrefix(pkg, "./")+"/"+name] = f
	}
	return p
}

// check type-checks the package with other texts of some files. Of files of
// another system it looks at the syntax only.
func (p *checked) check(texts map[string]string) error {
	var files []*ast.File
	for name, f := range p.files {
		if _, other := texts[name]; !other {
			files = append(files, f)
		}
	}
	for file, text := range texts {
		f, err := parser.ParseFile(p.fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if _, ours := p.files[file]; ours {
			files = append(files, f)
		}
	}
	conf := types.Config{Importer: p.imp, FakeImportC: true}
	_, err := conf.Check(p.path, p.fset, files, nil)
	return err
}

// exports returns what makes importers of all that some packages import: the
// compiler has written it down when it built them.
func exports(t *testing.T, pkgs []string) func(*token.FileSet) types.Importer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, pkgs...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	files := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return func(fset *token.FileSet) types.Importer {
		return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if files[path] == "" {
				return nil, fmt.Errorf("no export data of %s", path)
			}
			return os.Open(files[path])
		})
	}
}

// A list that has gone wrong is noticed.
func TestParseList(t *testing.T) {
	const head = "file a/b.go\ntest ./a\n"
	for _, c := range []struct{ text, want string }{
		{head + "mutant m: what\n-x\n+y\n", ""},
		{head + "mutant m: what\n x\n", "changes nothing"},
		{head + "mutant m: what\nonly\n-x\n", "has no test"},
		{head + "mutant m\n-x\n", "want \"mutant"},
		{head + "mutant m: what\n-x\nmutant m: what\n-y\n", "a name of its own"},
		{head + "-x\n", "belongs to no mutant"},
		{head + "mutant m: what\n-x\nsurvive so\n", "nothing that is known"},
		{"mutant m: what\n-x\ntest ./a\n", "no file yet"},
	} {
		_, err := parseList(c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestApply(t *testing.T) {
	list, err := parseList("file a/b.go\ntest ./a\nmutant m: what\n \tone\n-\ttwo\n+\tTWO\n")
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		"\tone\n\ttwo\nthree\n":        "\tone\n\tTWO\nthree\n",
		"zero\n\tone\n\ttwo\n":         "zero\n\tone\n\tTWO\n",
		"one\ntwo\n":                   "",
		"\tone\n\ttwo, three\n":        "",
		"a\n\tone\n\ttwo\n\tone\n":     "a\n\tone\n\tTWO\n\tone\n",
		"\tone\n\ttwo\n\tone\n\ttwo\n": "",
	} {
		got, err := list[0].apply(src)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("apply(%q) = %q, %v, want %q", src, got, err, want)
		}
	}
}

// What is remembered is of mutants that there are.
func TestKillers(t *testing.T) {
	list, err := readList(root)
	if err != nil {
		t.Fatal(err)
	}
	killers, err := readKillers(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		delete(killers, m.name)
	}
	for name := range killers {
		t.Errorf("%s: %s is no mutant: delete its line", killersName, name)
	}
}

func TestRunOf(t *testing.T) {
	for _, c := range []struct{ args, name, want string }{
		{"", "TestA", "-run ^TestA$"},
		{"-run A|B", "TestA/some.case", `-run ^TestA$/^some\.case$`},
		{"-skip Faults -every -run Many", "TestMany", "-every -run ^TestMany$"},
	} {
		got := runOf(testRun{"./a", c.args}, c.name)
		if want := (testRun{"./a", c.want}); got != want {
			t.Errorf("runOf(%q, %s) = %v, want %v", c.args, c.name, got, want)
		}
	}
	dir := t.TempDir()
	want := map[string]testRun{"m": {"./a", "-every -run ^TestMany$"}, "n": {"./b", "-run ^TestA$/^b$"}}
	os.MkdirAll(filepath.Join(dir, filepath.Dir(killersName)), 0o755)
	if err := writeKillers(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, err := readKillers(dir); err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
}
