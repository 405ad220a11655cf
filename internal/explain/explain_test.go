package explain

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// none are errors that no face answers with.
var none = map[string]string{
	"sessionlog.ErrNotBegun":  "a log without a header is written whole by the next turn",
	"sessionlog.ErrRewritten": "a log that was rewritten is read anew",
	"cas.ErrMoved":            "the manager commits again behind what has come",
	"cas.ErrLost":             "the next look begins with another writer",
	"cas.ErrWork":             "the command says that a compaction goes on later; prunes and engines leave it at that",
}

// Whatever error the packages below export is in the table, and nothing else.
func TestAllErrors(t *testing.T) {
	in := names(t, "explain.go", func(x, sel string) bool { return x != "explain" })
	for _, pkg := range []string{"manager", "session", "store", "internal/cas", "internal/history", "internal/places",
		"internal/retain", "internal/sessionlog"} {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(pkg, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.VAR {
					continue
				}
				for _, spec := range g.Specs {
					for i, id := range spec.(*ast.ValueSpec).Names {
						if !strings.HasPrefix(id.Name, "Err") || !id.IsExported() {
							continue
						}
						if _, same := spec.(*ast.ValueSpec).Values[i].(*ast.SelectorExpr); same { // of a package below
							continue
						}
						full := path.Base(pkg) + "." + id.Name
						if (none[full] == "") != slices.Contains(in, full) {
							t.Errorf("%s is not in the table, or in it "+
								"and in the list of those that no face answers with", full)
						}
					}
				}
			}
		}
	}
}

func names(t *testing.T, file string, is func(x, sel string) bool) (list []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && is(x.Name, s.Sel.Name) && strings.HasPrefix(s.Sel.Name, "Err") {
				list = append(list, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return list
}

// Each kind says all that a face needs, and is what its errors are.
func TestKinds(t *testing.T) {
	for _, k := range Kinds {
		if k.Code == "" || k.Exit == Done || k.Status < 400 || k.Advice == "" && k.Errs != nil {
			t.Errorf("%+v lacks something", k)
		}
		for _, err := range k.Errs {
			if got := Of(fmt.Errorf("outer: %w", err)); got != k {
				t.Errorf("%v is %+v", err, got)
			}
			if !HasCode(k.Code, err) {
				t.Errorf("%v has not the code %s", err, k.Code)
			}
		}
	}
	for err, want := range map[error]*Kind{errors.New("other"): Internal, Errorf(Changed, "x"): Changed,
		fmt.Errorf("ask: %w", Errorf(TooLong, "x")): TooLong} {
		if k := Of(err); k != want {
			t.Errorf("%v is %+v, want %+v", err, k, want)
		}
	}
}
