package filestore

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/boocode/filestore"

// mayImport says which packages of ours each may import, tests aside. It is
// the picture in docs/design.md: arrows may skip layers, never turn back.
var mayImport = map[string][]string{
	".":                    {},
	"internal/vfs":         {},
	"internal/vfs/vfstest": {"internal/vfs"}, // for tests
	"internal/ignore":      {},
	"internal/gitrepo":     {"internal/ignore", "internal/vfs"},
	"internal/similar":     {},
	"internal/words":       {},
	"internal/progress":    {},
	"internal/when":        {"internal/words"},
	"internal/inside": {"store", "tree", "internal/capture", "internal/cas", "internal/trees",
		"internal/places", "internal/history", "internal/moments"},
	"internal/filediff": {"tree", "store", "internal/textdiff", "internal/vfs", "internal/object"},
	"internal/textdiff": {"internal/similar", "internal/words"},
	"patch":             {"internal/textdiff", "internal/words"},
	"internal/pickaxe": {"internal/filediff", "internal/similar", "internal/textdiff", "internal/trees",
		"internal/words", "store", "tree"},
	"internal/hunks":       {"internal/similar", "internal/textdiff", "patch", "store", "tree"},
	"store":                {},
	"internal/object":      {"store"},
	"internal/cas/layout":  {"store", "internal/vfs"},
	"internal/cas/pack":    {"internal/cas/layout", "store", "internal/vfs", "internal/object"},
	"internal/cas/journal": {"internal/cas/layout", "store", "internal/vfs", "internal/object"},
	"internal/cas": {"internal/progress", "internal/cas/layout", "internal/cas/pack",
		"internal/cas/journal", "store", "internal/vfs", "internal/object", "internal/words"},
	"internal/watch":       {},
	"internal/nearmiss":    {}, // for tests
	"internal/testhistory": {}, // for tests
	"internal/testseed":    {}, // for tests
	"internal/testdisk":    {}, // for tests
	"internal/testformat":  {}, // for tests
	"internal/explain": {"manager", "internal/history", "internal/inside", "internal/places", "internal/retain",
		"patch", "session", "store", "internal/cas", "tree", "internal/trees", "internal/sessionlog",
		"internal/cas/layout"},
	"internal/mutants": {}, // a program that breaks the rest
	"tree":             {"store"},
	"internal/trees": {"internal/progress", "tree", "store", "internal/vfs", "internal/similar",
		"internal/object"},
	"internal/secrets": {"internal/vfs", "internal/cas/layout"},
	"internal/capture": {"internal/secrets", "internal/progress", "tree", "internal/trees", "store",
		"internal/cas", "internal/vfs", "internal/watch", "internal/ignore", "internal/gitrepo", "internal/cas/layout",
		"internal/object"},
	"internal/audit": {"internal/progress", "tree", "internal/trees", "store", "internal/cas",
		"internal/vfs", "internal/object"},
	"session":             {},
	"internal/sessionlog": {"session", "internal/vfs"},
	"rollback":            {"tree", "internal/words"},
	"internal/livedir": {"internal/progress", "rollback", "tree", "store", "internal/cas",
		"internal/vfs", "internal/trees", "internal/object"},
	"internal/change": {"rollback", "internal/livedir", "internal/trees", "tree", "store"},
	"internal/history": {"rollback", "store", "internal/cas", "internal/cas/layout", "session",
		"internal/vfs", "internal/sessionlog", "internal/object"},
	"internal/bisect":  {},
	"internal/scratch": {"internal/object", "internal/progress", "internal/trees", "internal/vfs", "store", "tree"},
	"internal/windows": {"internal/history", "internal/trees", "tree"},
	"internal/moments": {"internal/history", "internal/windows", "store"},
	"internal/blame": {"internal/textdiff", "internal/cas", "internal/cas/layout", "internal/object",
		"internal/vfs", "store"},
	"internal/standing": {"internal/history", "internal/windows", "internal/trees", "store", "tree"},
	"internal/merging": {"internal/history", "internal/hunks", "internal/object", "internal/standing",
		"internal/trees", "patch", "rollback", "store", "tree"},
	"internal/health": {"store", "internal/cas", "internal/cas/layout", "tree", "internal/vfs",
		"internal/object", "internal/words"},
	"internal/places": {"internal/capture", "internal/history", "store", "internal/cas",
		"internal/cas/layout", "tree", "internal/vfs", "internal/object"},
	"internal/retain": {"internal/blame", "internal/remotes", "internal/progress", "internal/trees", "internal/audit",
		"internal/history",
		"internal/places", "internal/health", "store", "internal/cas", "internal/cas/layout", "tree", "internal/vfs",
		"internal/object"},
	"manager": {"internal/secrets", "internal/history", "internal/places", "internal/health",
		"internal/retain", "internal/cas/layout", "rollback", "internal/livedir", "tree", "store", "internal/cas",
		"session", "patch", "internal/similar", "internal/vfs", "internal/trees", "internal/capture", "internal/audit",
		"internal/sessionlog", "internal/textdiff", "internal/filediff", "internal/words", "internal/when",
		"internal/inside", "internal/change", "internal/object", "internal/hunks", "internal/windows",
		"internal/standing", "internal/merging", "internal/moments", "internal/pickaxe", "internal/blame"},
	"checkpoint": {"manager", "rollback", "store", "internal/inside", "internal/words"},
	"checkpoint/httpapi": {"internal/explain", "internal/wire", "checkpoint", "manager", "session",
		"rollback", "store"},
	"integrations":                    {},
	"cmd/snapctl/internal/agents":     {"integrations", "internal/words"},
	"cmd/snapctl/internal/picker":     {"manager", "internal/words"},
	"cmd/snapctl/internal/configfile": {},
	"cmd/snapctl/internal/s3":         {"internal/remote"},
	"internal/remote":                 {},
	"internal/remote/lines":           {"internal/remote"},
	"internal/remote/near":            {"internal/vfs"},
	"internal/base":                   {"internal/trees", "internal/vfs", "store", "tree"},
	"internal/remotes":                {"internal/cas", "internal/history", "internal/vfs"},
	"internal/exchange": {"internal/audit", "internal/cas", "internal/cas/layout", "internal/history",
		"internal/object", "internal/progress", "internal/remote", "internal/remote/lines", "internal/remotes",
		"internal/trees", "internal/vfs", "internal/words", "store"},
	"cmd/snapctl/internal/identity": {},
	"internal/remote/remotetest":    {"internal/remote"}, // for tests
	"internal/wire":                 {"store", "internal/cas", "internal/vfs", "internal/cas/layout"},
	"internal/dbpipe":               {},
	"internal/version":              {},
	"internal/gotest":               {}, // a program that runs the tests
	"internal/release":              {}, // a program that makes what is downloaded
	"internal/tools/upgrade":        {}, // a program that has several versions of the command write one store
	"internal/tools/systems":        {}, // a program that checks types for other systems
	"cmd/snapctl-checkpoints":       {"internal/dbpipe", "internal/explain", "internal/version"},
	"client":                        {"internal/explain", "internal/wire", "manager", "session", "store"},
	"cmd/snapctl/internal/verbs": {"internal/health", "internal/trees", "client", "internal/explain",
		"internal/wire", "manager", "rollback", "session", "tree", "store", "patch", "internal/words",
		"internal/inside", "internal/filediff", "internal/textdiff", "internal/history"},
	"cmd/snapctl/internal/rpc": {"internal/progress", "internal/capture", "client", "cmd/snapctl/internal/verbs",
		"internal/explain", "internal/wire", "manager", "tree", "internal/inside", "internal/vfs",
		"internal/cas/layout"},
	"cmd/snapctl/internal/mcp": {"internal/trees", "internal/capture", "cmd/snapctl/internal/verbs",
		"internal/explain", "internal/wire", "manager", "rollback", "session", "tree", "store", "patch",
		"internal/textdiff", "internal/filediff", "internal/words", "internal/inside", "internal/object",
		"internal/history"},
	"cmd/snapctl/internal/timeline": {"client", "cmd/snapctl/internal/verbs", "internal/cas", "internal/cas/layout",
		"internal/explain", "internal/filediff", "internal/history", "internal/inside", "internal/object",
		"internal/places", "internal/trees", "internal/vfs", "internal/wire", "manager", "store", "tree"},
	"cmd/snapctl": {"internal/base", "internal/bisect", "internal/moments", "internal/scratch", "internal/progress",
		"internal/change",
		"internal/history", "internal/places",
		"internal/health", "internal/retain", "internal/trees", "internal/capture", "internal/audit", "checkpoint",
		"checkpoint/httpapi", "client", "cmd/snapctl/internal/agents", "cmd/snapctl/internal/configfile",
		"cmd/snapctl/internal/mcp", "cmd/snapctl/internal/picker", "cmd/snapctl/internal/rpc",
		"cmd/snapctl/internal/timeline", "cmd/snapctl/internal/verbs", "internal/explain",
		"internal/wire", "manager", "rollback", "session", "tree", "store", "internal/cas", "patch", "internal/vfs",
		"internal/textdiff", "internal/filediff", "internal/words", "internal/when", "internal/inside",
		"internal/cas/layout", "internal/object", "internal/dbpipe", "internal/version", "internal/exchange",
		"internal/remote", "internal/remote/lines", "internal/remote/near",
		"cmd/snapctl/internal/identity", "cmd/snapctl/internal/s3", "internal/pickaxe"},
	"bench":            {"client", "manager", "rollback"},
	"bench/years":      {"manager"},
	"examples/fleet":   {}, // it runs snapctl
	"examples/runtime": {"checkpoint", "manager", "rollback"},
	"e2e":              {}, // tests
	"faults":           {}, // tests
	"faults/fuse":      {}, // a module of its own
	"web/build":        {}, // a module of its own
	"web/test":         {}, // tests of that
}

// only lists who may use a module that embedders should not have to take.
var only = map[string][]string{
	"github.com/spf13/cobra":           {"cmd/snapctl"},
	"github.com/rogpeppe/go-internal":  {"cmd/snapctl"},
	"github.com/klauspost/compress":    {"internal/cas/pack", "bench"},
	"github.com/sabhiram/go-gitignore": {"internal/ignore"},
	"github.com/pmezard/go-difflib":    {"internal/textdiff"},
	// tests
	"github.com/google/go-cmp":               {},
	"github.com/google/jsonschema-go":        {},
	"github.com/modelcontextprotocol/go-sdk": {},
	// snapctl starts itself
	"os/exec": {"bench", "bench/years", "cmd/snapctl", "examples/runtime", "examples/fleet",
		"internal/gotest", "internal/mutants", "internal/release", "internal/testhistory", "internal/tools/upgrade",
		"internal/remote/remotetest"},
	"github.com/tailscale/hujson":          {"cmd/snapctl/internal/agents"},
	"charm.land/bubbletea":                 {"cmd/snapctl/internal/picker"},
	"github.com/charmbracelet/x":           {"cmd/snapctl/internal/picker"},
	"github.com/clipperhouse/displaywidth": {"cmd/snapctl"},
	"github.com/pelletier/go-toml":         {"cmd/snapctl/internal/configfile"},
	"filippo.io/age":                       {"cmd/snapctl/internal/identity"},
	"database/sql":                         {"checkpoint", "internal/dbpipe", "cmd/snapctl", "examples/runtime"},
	"github.com/jackc/pgx":                 {"cmd/snapctl-checkpoints"},
	"modernc.org/sqlite":                   {"cmd/snapctl-checkpoints", "examples/runtime"},
	"github.com/hanwen/go-fuse":            {"faults/fuse"},
	"github.com/evanw/esbuild":             {"web/build"},
	"net": {"internal/wire", "cmd/snapctl/internal/rpc",
		"checkpoint/httpapi", "cmd/snapctl", "cmd/snapctl/internal/s3", "cmd/snapctl/internal/timeline", "web/build",
		"examples/fleet", "internal/remote/remotetest"},
	"net/http": {"checkpoint/httpapi", "cmd/snapctl", "cmd/snapctl/internal/s3", "cmd/snapctl/internal/timeline",
		"web/build", "examples/fleet"},
	"flag": {"web/build", "bench", "bench/years", "examples/runtime", "examples/fleet", "internal/gotest",
		"internal/tools/upgrade", "internal/mutants", "internal/release", "internal/testformat", "internal/testseed"},
}

// TestLayering parses the sources in this process: a child process's answer
// would be cached by go test past changes of the sources.
func TestLayering(t *testing.T) {
	seen := make(map[string]bool)
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
		pkg := path.Dir(filepath.ToSlash(name))
		seen[pkg] = true
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(name, "_test.go")
		for _, imp := range f.Imports {
			to, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, name, pkg, to, isTest)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range seen {
		if _, ok := mayImport[pkg]; !ok {
			t.Errorf("package %s is not in the picture: add it to mayImport and to docs/packages.md", pkg)
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("package %s is in the picture and does not exist", pkg)
		}
	}
}

// TestPackages holds docs/packages.md to the packages that there are: a row for each of the picture,
// and none of anything that does not exist.
func TestPackages(t *testing.T) {
	page, err := os.ReadFile("docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || cells[1] == "---" || cells[1] == " package " {
			continue
		}
		name := strings.TrimSpace(cells[1])
		if rows[name] {
			t.Errorf("docs/packages.md has two rows for %s", name)
		}
		rows[name] = true
		if strings.TrimSpace(cells[2]) == "" {
			t.Errorf("docs/packages.md does not say what %s knows", name)
		}
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			t.Errorf("docs/packages.md has a row for %s, which does not exist", name)
		}
	}
	for pkg := range mayImport {
		if pkg != "." && !rows[pkg] {
			t.Errorf("package %s has no row in docs/packages.md", pkg)
		}
	}
}

func checkImport(t *testing.T, file, pkg, to string, isTest bool) {
	t.Helper()
	if ours, ok := strings.CutPrefix(to, module+"/"); ok && ours != pkg && !isTest {
		if !slices.Contains(mayImport[pkg], ours) {
			t.Errorf("%s imports %s: not an arrow of the picture", file, ours)
		}
	}
	for prefix, users := range only {
		if (to == prefix || strings.HasPrefix(to, prefix+"/")) && !isTest && !slices.Contains(users, pkg) {
			t.Errorf("%s imports %s, which only %v may", file, to, users)
		}
	}
}
