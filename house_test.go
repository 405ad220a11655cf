package filestore

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHouse counts what a reader of this module has to hold in the head, and holds
// limits that only ever fall. With -v it prints the counts: make house. What a snapshot asks of the
// disk is counted by TestNatural of package manager.
func TestHouse(t *testing.T) {
	const mostWideTests = 23 // texts that are as they are in files
	const mostExported, mostLeaks, mostWide = 324, 0, 10
	h := measure(t)
	t.Logf("%-30s %7s %9s %7s", "package", "lines", "exported", "fields")
	var lines, exported int
	for _, pkg := range slices.SortedFunc(maps.Keys(h.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.lines[b], h.lines[a]), cmp.Compare(a, b))
	}) {
		t.Logf("%-30s %7d %9d %7d", pkg, h.lines[pkg], len(h.exported[pkg]), h.fields[pkg])
		lines += h.lines[pkg]
		exported += len(h.exported[pkg])
	}
	t.Logf("%-30s %7d %9d", "all", lines, exported)
	t.Logf("functions over 60 lines: %d", len(h.long))
	for _, f := range h.long {
		t.Log("  ", f)
	}
	if h.wide > mostWide {
		t.Errorf("%d lines of more than 120 columns (a tab is 4) in what is shipped, at most %d", h.wide, mostWide)
	}
	if n := len(h.wideTests); n > mostWideTests {
		t.Errorf("%d such lines in tests, at most %d:\n%s", n, mostWideTests, strings.Join(h.wideTests, "\n"))
	}
	if exported > mostExported {
		t.Errorf("%d exported identifiers, at most %d", exported, mostExported)
	}
	if n := len(h.leaks); n > mostLeaks {
		t.Errorf("%d public names take or give a type that embedders cannot name, at most %d: %v", n,
			mostLeaks, h.leaks)
	}
}

// TestPatterns: no package that snapctl links compiles a regular expression when it is loaded, as
// that is paid by each command. words.Pattern does it when it is needed.
func TestPatterns(t *testing.T) {
	atStart := regexp.MustCompile(`(?m)^(var )?\t?\w+ += regexp\.MustCompile`)
	for _, root := range []string{"checkpoint", "client", "cmd", "internal", "manager", "patch", "session"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			if slices.Contains([]string{"gotest", "mutants", "release"}, filepath.Base(filepath.Dir(name))) { // tools
				return nil
			}
			src, err := os.ReadFile(name)
			if at := atStart.FindIndex(src); at != nil {
				t.Errorf("%s: %q: use words.Pattern", name, src[at[0]:at[1]])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDocuments holds documents to lines of at most 100 columns, but for tables, for what
// is shown as it is, and for docs/benchmarks.md, which a program writes.
func TestDocuments(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".md") || name == filepath.FromSlash("docs/benchmarks.md"):
			return nil
		}
		src, err := os.ReadFile(name)
		number, shown := 0, false
		for line := range strings.Lines(string(src)) {
			number++
			shown = shown != strings.HasPrefix(line, "```")
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 && !shown &&
				!strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d: %d columns, at most 100", name, number, n)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// house is what TestHouse counts, by package where it is a map.
type house struct {
	lines, fields map[string]int
	exported      map[string][]string
	long          []string // functions of more than 60 lines
	leaks         []string // public names with a type of an internal package
	wide          int      // lines of more than 120 columns, but for tags of fields
	wideTests     []string // where such lines are in tests
}

func measure(t *testing.T) *house {
	h := &house{lines: make(map[string]int), fields: make(map[string]int), exported: make(map[string][]string)}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		isTest, number := strings.HasSuffix(name, "_test.go"), 0
		for line := range strings.Lines(string(src)) {
			number++
			columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) + 3*strings.Count(line, "\t")
			switch {
			case columns <= 120 || strings.Contains(line, "`"):
			case isTest:
				h.wideTests = append(h.wideTests, fmt.Sprintf("%s:%d", name, number))
			default:
				h.wide++
			}
		}
		if isTest {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err == nil {
			h.file(fset, f, path.Dir(filepath.ToSlash(name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) file(fset *token.FileSet, f *ast.File, pkg string) {
	h.lines[pkg] += fset.File(f.Pos()).LineCount()
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > 60 {
				h.long = append(h.long, pkg+"."+fn.Name.Name)
			}
		}
	}
	if f.Name.Name == "main" || slices.Contains(strings.Split(pkg, "/"), "internal") {
		return
	}
	internal := make(map[string]bool) // names that imports of internal packages have in f
	for _, imp := range f.Imports {
		if to := strings.Trim(imp.Path.Value, `"`); strings.Contains(to, "/internal/") {
			internal[path.Base(to)] = true
		}
	}
	export := func(name string, public ...ast.Node) {
		h.exported[pkg] = append(h.exported[pkg], name)
		for _, n := range public {
			if n != nil && leaks(n, internal) {
				h.leaks = append(h.leaks, pkg+"."+name)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := receiver(d.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name = of + "." + name
			}
			if d.Name.IsExported() {
				export(name, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						export(s.Name.Name, s.Type)
						h.members(pkg, s, export)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.IsExported() {
							export(n.Name)
						}
					}
				}
			}
		}
	}
}

// members counts the exported fields of a struct, and exports an interface's methods.
func (h *house) members(pkg string, s *ast.TypeSpec, export func(string, ...ast.Node)) {
	switch typ := s.Type.(type) {
	case *ast.StructType:
		for _, f := range typ.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					h.fields[pkg]++
				}
			}
		}
	case *ast.InterfaceType:
		for _, m := range typ.Methods.List {
			for _, n := range m.Names {
				if n.IsExported() {
					export(s.Name.Name + "." + n.Name)
				}
			}
		}
	}
}

// leaks is whether what others see of n, a signature or a type, names a type of one
// of the packages.
func leaks(n ast.Node, internal map[string]bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if f.Names == nil || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
					found = found || leaks(f.Type, internal)
				}
			}
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
				found = true
			}
		}
		return true
	})
	return found
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
