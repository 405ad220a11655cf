package gitrepo

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/nearmiss"
)

// list prints settings as "git config --list -z" does.
func list(settings []setting) []string {
	var out []string
	for _, s := range settings {
		line := s.key
		if s.nested {
			line = s.subsection + "." + line
		}
		if s.section != "" || s.nested {
			line = s.section + "." + line
		}
		if s.set {
			line += "\n" + s.value
		}
		out = append(out, line)
	}
	return out
}

var configs = []string{
	"",
	"\xef\xbb\xbf[a]\nb=c",
	"[a]\nb = c\n\tD=E ; f\n  g = h # i\n",
	"[a]b=c\n[A \"B c\"] D = e\n[a.Bc]\nk=v\n",
	"[a]\r\nb = c\r\nd\r\n",
	"[a]\nb\nc=\nd = \"\"\n",
	"[a]\nb = \" x  y \" z  \nc = x\\\n  y\nd = \"x\\\ny\"\n",
	"[a]\nb = \\t\\n\\b\\\\\\\"\n",
	"[a]\nb = x#y\nc = \"x#y\";z\nd = 'x'\n",
	"[a \"x\\\"y\\\\z\\w\"]\nb=c\n",
	"# c\n; d\n[a] # e\nb=c\n",
	"[a-b.c]\nd-1 = e\n",
	"[a]\nb = c\\",
	"[a \"\"]\nb = c",
	"[a]\nb = \xff\xc3\n",
	"[a]\nb\t=\tc\n",
	"[a]\n\fb = c", "[a\n", "[a", "[a b]\n", "[a \"b\n\"]", "[a \"b\"x]", "[a]\nb = \"c\n", "[a]\nb = \\x\n",
	"[a]\n1b = c\n", "[a]\nb c\n", "x", "[a]\nb_c = d\n", "]", "[a]\nb\r=c\n",
}

var every = flag.Bool("every", false, "ask git about each near miss, not about one of several")

func TestParseConfig(t *testing.T) {
	dir, _ := setup(t)
	for _, text := range configs {
		checkConfig(t, dir, text)
	}
	for i, b := range nearmiss.Of([]byte("\xef\xbb\xbf[a]b=c;d\r\n[A \"\\\\B\"] \n D = \" e # \"\\\n f\\t\n[x.y-1]\n" +
		"g\n;h\n")) {
		if i%7 == 0 || *every {
			checkConfig(t, dir, string(b))
		}
	}
}

func checkConfig(t *testing.T, dir, text string) {
	t.Helper()
	name := filepath.Join(dir, "config")
	os.Remove(name) // what is written over waits for the disk
	write(t, name, text)
	settings, err := parseConfig([]byte(text))
	out, gitErr := exec.Command("git", "config", "--file", name, "--list", "-z").Output()
	if (err != nil) != (gitErr != nil) {
		t.Errorf("parseConfig(%q): %v, git: %v", text, err, gitErr)
	}
	if err != nil || gitErr != nil || slices.ContainsFunc(settings,
		func(s setting) bool { return strings.Contains(s.subsection, "\x00") }) {
		return // to git, the name of a setting ends at a zero byte
	}
	// Before 2.45, git made each blank within a value a space.
	want := strings.FieldsFunc(strings.ReplaceAll(string(out), "\t", " "), func(c rune) bool { return c == 0 })
	got := list(settings)
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "\t", " ")
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("parseConfig(%q): git (-), we (+)\n%s", text, diff)
	}
}

// TestIgnoreOptions compares with git config on one setting made in several
// files and under several conditions.
func TestIgnoreOptions(t *testing.T) {
	dir, home := setup(t)
	root := filepath.Join(dir, "Proj", "repo")
	mkdir(t, root)
	commit(t, root)
	linked := filepath.Join(dir, "linked")
	git(t, root, "worktree", "add", "-q", "-b", "topic/x", linked)
	gitDir := filepath.Join(root, ".git")
	env := Env{Home: home}
	exclude := func(name string) string { return "[core]\n\texcludesFile = " + name + "\n" }
	for _, name := range []string{"1", "2", "3", "4"} {
		write(t, filepath.Join(dir, name), "from "+name+"\n")
		write(t, filepath.Join(home, name), "home "+name+"\n")
	}
	write(t, filepath.Join(root, "rel"), "relative\n")
	write(t, filepath.Join(linked, "rel"), "relative to linked\n")
	write(t, filepath.Join(gitDir, "info/exclude"), "in info\n")
	write(t, filepath.Join(home, ".config/git/ignore"), "in xdg\n")
	own := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"

	tests := []struct {
		what string
		from string
		set  map[string]string // files by name
	}{
		{"nothing set", root, nil},
		{"home", root, map[string]string{home + "/.gitconfig": exclude("~/1")}},
		{"xdg", root, map[string]string{home + "/.config/git/config": exclude("~/2")}},
		{"home over xdg", root, map[string]string{home + "/.config/git/config": exclude("~/2"),
			home + "/.gitconfig": exclude("~/1")}},
		{"own over home", root, map[string]string{home + "/.gitconfig": exclude("~/1"),
			gitDir + "/config": own + exclude(dir+"/3")}},
		{"relative", root, map[string]string{gitDir + "/config": own + exclude("rel")}},
		{"relative, linked", linked, map[string]string{gitDir + "/config": own + exclude("rel")}},
		{"empty", root, map[string]string{home + "/.gitconfig": exclude("")}},
		{"missing", root, map[string]string{home + "/.gitconfig": exclude("/nowhere")}},
		{"include", root, map[string]string{home + "/.gitconfig": "[include]\npath = sub/inc\n",
			home + "/sub/inc": "[include]\npath=../inc2", home + "/inc2": exclude("~/1")}},
		{"include of home", root, map[string]string{home + "/.gitconfig": "[include]\npath = ~/inc",
			home + "/inc": exclude("~/2")}},
		{"missing include", root, map[string]string{home + "/.gitconfig": exclude("~/1") +
			"[include]\npath = nowhere"}},
		{"later wins over include", root, map[string]string{home + "/.gitconfig": "[include]\npath = inc\n" +
			exclude("~/1"), home + "/inc": exclude("~/2")}},
		{"include with subsection", root, map[string]string{home + "/.gitconfig": "[include \"x\"]\npath = inc\n",
			home + "/inc": exclude("~/2")}},
		{"worktree config on", linked, map[string]string{gitDir + "/config": own + "[extensions]\nworktreeConfig\n" +
			exclude("~/1"), gitDir + "/worktrees/linked/config.worktree": exclude("~/2")}},
		{"worktree config off", linked, map[string]string{gitDir + "/config": own + exclude("~/1"),
			gitDir + "/worktrees/linked/config.worktree": exclude("~/2")}},
		{"worktree config of the main tree", root,
			map[string]string{gitDir + "/config": own + "[extensions]\nworktreeConfig = yes\n",
				gitDir + "/config.worktree": exclude("~/3")}},
		{"ignoreCase", root, map[string]string{gitDir + "/config": own + "[core]\nignorecase = true\n"}},
		{"ignoreCase without value", root, map[string]string{gitDir + "/config": own + "[CORE]\nIgnoreCase\n"}},
		{"ignoreCase 0", root, map[string]string{gitDir + "/config": own + "[core]\nignorecase\nignorecase = 0\n"}},
		{"ignoreCase 1k", root, map[string]string{gitDir + "/config": own + "[core]\nignorecase = 1k\n"}},
	}
	conditions := []string{
		"gitdir:" + gitDir, "gitdir:" + root + "/", "gitdir:" + root, "gitdir:" + dir + "/",
		"gitdir:" + dir + "/*/repo/.git", "gitdir:" + dir + "/*/.git",
		"gitdir:repo/", "gitdir:repo", "gitdir:Proj/", "gitdir:proj/", "gitdir/i:proj/",
		"gitdir/i:" + strings.ToUpper(gitDir), "gitdir:~/", "gitdir:**/repo/**",
		"gitdir:./", "gitdir:./x/", "gitdir:.git", "gitdir:r?po/.git", "gitdir:[qr]epo/", "gitdir:linked/",
		"gitdir:worktrees/linked", "gitdir:worktrees/",
		"onbranch:main", "onbranch:topic/x", "onbranch:topic/", "onbranch:topic", "onbranch:*", "onbranch:**",
		"onbranch:m[a-i]*", "onbranch:", "gitdir:", "nonsense", "nonsense:x", "GITDIR:repo/",
	}
	linkTo := filepath.Join(dir, "moved")
	mkdir(t, linkTo)
	if err := os.Symlink(gitDir, filepath.Join(linkTo, ".git")); err != nil {
		t.Fatal(err)
	}
	conditions = append(conditions, "gitdir:moved/", "gitdir:"+linkTo+"/.git")
	for _, from := range []string{root, linked, linkTo} {
		for _, c := range conditions {
			for _, in := range []string{home + "/.gitconfig", dir + "/Proj/c"} {
				tests = append(tests, struct {
					what, from string
					set        map[string]string
				}{fmt.Sprintf("includeIf %q in %s, from %s", c, in, from), from, map[string]string{
					in:                 fmt.Sprintf("[includeIf %q]\npath = %s\n", c, home+"/inc"),
					gitDir + "/config": own + "[include]\npath = " + dir + "/Proj/c\n",
					home + "/inc":      exclude("~/4"),
				}})
			}
		}
	}
	for _, tt := range tests {
		for _, name := range []string{home + "/.gitconfig", home + "/.config/git/config",
			gitDir + "/worktrees/linked/config.worktree", gitDir + "/config.worktree", dir + "/Proj/c"} {
			write(t, name, "")
		}
		write(t, gitDir+"/config", own)
		for name, text := range tt.set {
			write(t, name, text)
		}
		got, err := find(t, tt.from).IgnoreOptions(env)
		if err != nil {
			t.Errorf("%s: IgnoreOptions: %v", tt.what, err)
			continue
		}
		wantExcludes := "in xdg\n"
		if out, err := exec.Command("git", "-C", tt.from, "config", "--type=path",
			"core.excludesFile").Output(); err == nil {
			wantExcludes = map[string]string{
				home + "/1": "home 1\n", home + "/2": "home 2\n", home + "/3": "home 3\n", home + "/4": "home 4\n",
				dir + "/3": "from 3\n", "rel": "relative\n", "": "", "/nowhere": "",
			}[strings.TrimSuffix(string(out), "\n")]
			if wantExcludes == "relative\n" && tt.from == linked {
				wantExcludes = "relative to linked\n"
			}
		}
		want := false
		if strings.Contains(strings.ToLower(fmt.Sprint(tt.set)), "ignorecase") {
			out, _ := exec.Command("git", "-C", tt.from, "config", "--type=bool", "core.ignoreCase").Output()
			want = string(out) == "true\n"
		}
		if string(got.Excludes) != wantExcludes || string(got.Info) != "in info\n" ||
			got.IgnoreCase != want {
			t.Errorf("%s: excludes %q, info %q, ignoreCase %v; want %q, %v", tt.what, got.Excludes, got.Info,
				got.IgnoreCase, wantExcludes, want)
		}
	}
}

func TestIgnoreOptionsErrors(t *testing.T) {
	dir, home := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	for _, text := range []string{
		"[core]\nexcludesFile\n", "[core]\nexcludesFile = ~nobody-here/x\n", "[core]\nignoreCase = maybe\n",
		"[core]\nignoreCase = kk\n", "[x\n",
		"[include]\npath = config\n", "[core]\nexcludesFile = " + home + "\n",
	} {
		write(t, filepath.Join(r.GitDir, "config"), text)
		if o, err := r.IgnoreOptions(Env{Home: home}); err == nil {
			t.Errorf("IgnoreOptions() with %q = %+v, want an error", text, o)
		}
	}
	write(t, filepath.Join(r.GitDir, "config"), "[core]\nexcludesFile = ~u/x\n")
	write(t, filepath.Join(home, "x"), "of u\n")
	env := Env{UserHome: func(string) (string, error) { return home, nil }}
	if o, err := r.IgnoreOptions(env); err != nil || string(o.Excludes) != "of u\n" {
		t.Errorf("IgnoreOptions() with ~u/x = %q, %v", o.Excludes, err)
	}
}

func TestIncludesAreBounded(t *testing.T) {
	dir, home := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	// A chain of files, each including the next some times.
	chain := func(levels, times int) {
		for i := range levels {
			write(t, filepath.Join(home, fmt.Sprint(i)),
				strings.Repeat(fmt.Sprintf("[include]\npath = %d\n", i+1), times))
		}
		write(t, filepath.Join(home, fmt.Sprint(levels)), "[core]\nignoreCase\n")
	}
	for _, tt := range []struct {
		levels, times int
		ok            bool
	}{{10, 1, true}, {11, 1, false}, {10, 5, false}} {
		chain(tt.levels, tt.times)
		o, err := r.IgnoreOptions(Env{GlobalConfig: filepath.Join(home, "0")})
		if (err == nil) != tt.ok {
			t.Errorf("%d levels, each %d times: %+v, %v", tt.levels, tt.times, o, err)
		}
		if tt.times > 1 {
			continue // git takes minutes for it
		}
		cmd := exec.Command("git", "config", "--includes", "--file", filepath.Join(home, "0"), "core.ignoreCase")
		if err := cmd.Run(); (err == nil) != tt.ok {
			t.Errorf("%d levels: git: %v", tt.levels, err)
		}
	}
}

// TestConfigIsBounded: what a short text takes in memory, and what files have that include others.
func TestConfigIsBounded(t *testing.T) {
	dir, home := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	long := "#" + strings.Repeat("x", maxText*2/5) + "\n"
	for _, tt := range []struct {
		what, text string
		ok         bool
	}{
		{"nearly as many settings as may be", "[a]\n" + strings.Repeat("b\n", maxSettings-100), true},
		{"more", "[a]\n" + strings.Repeat("b\n", maxSettings+1), false},
		{"twice half", "[a]\n" + strings.Repeat("b\n", maxSettings/2), false},
		{"two long ones", long, true},
		{"three", long + "[include]\npath = again\n", false},
	} {
		write(t, filepath.Join(home, "config"), "[include]\npath = big\n")
		if tt.what == "twice half" {
			write(t, filepath.Join(home, "config"), "[include]\npath = big\npath = big\n")
		}
		write(t, filepath.Join(home, "big"), tt.text)
		write(t, filepath.Join(home, "again"), "[include]\npath = last\n"+long)
		write(t, filepath.Join(home, "last"), long)
		if _, err := r.IgnoreOptions(Env{GlobalConfig: filepath.Join(home, "config")}); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, text := range configs {
		for _, b := range nearmiss.Of([]byte(text)) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := parseConfig(text)
		if err != nil && settings != nil {
			t.Error("settings and an error")
		}
		for _, s := range settings {
			if s.key == "" || !s.set && s.value != "" {
				t.Errorf("parseConfig(%q) has %+v", text, s)
			}
		}
	})
}
