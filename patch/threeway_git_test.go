package patch

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testhistory"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/textdiff"
)

var (
	mergeCases   = flag.Int("merge.cases", 250, "cases of TestMergeAgreesWithGit; 8200 by make merge")
	mergeHistory = flag.String("merge.history", "",
		"directories in git repositories, separated by commas, whose files'"+
			" histories are merged; default this one")
	mergeShow = flag.Bool("merge.show", false, "print each case that is not as git has it")
)

// A triple is three texts to be merged.
type triple struct{ base, ours, theirs []byte }

// A corpus makes cases at random.
type corpus struct {
	name  string
	share int // of 82 cases
	make  func(t *testing.T, rng *rand.Rand, n int) []triple
}

var corpora = []corpus{
	{"tiny", 15, eachCase(tinyCase)},
	{"real", 15, eachCase(realCase)},
	{"undo", 15, eachCase(undoCase)},
	{"eol", 15, eachCase(eolCase)},
	{"history", 22, historyCases},
}

func eachCase(one func(t *testing.T, rng *rand.Rand) triple) func(*testing.T, *rand.Rand, int) []triple {
	return func(t *testing.T, rng *rand.Rand, n int) (list []triple) {
		for range n {
			list = append(list, one(t, rng))
		}
		return list
	}
}

// tinyCase has few lines, of which most are there several times: what belongs to
// what is hard to tell.
func tinyCase(_ *testing.T, rng *rand.Rand) triple {
	distinct := 2 + rng.IntN(6)
	line := func() string { return string(rune('a'+rng.IntN(distinct))) + "\n" }
	var base []string
	for range rng.IntN(15) {
		base = append(base, line())
	}
	side := func() []byte {
		lines := append([]string(nil), base...)
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(lines) + 1)
			switch k := rng.IntN(3); {
			case k == 0 || at == len(lines):
				lines = append(lines[:at], append([]string{line()}, lines[at:]...)...)
			case k == 1:
				lines = append(lines[:at], lines[at+1:]...)
			default:
				lines[at] = line()
			}
		}
		return joined(lines, rng.IntN(4) == 0)
	}
	return triple{joined(base, rng.IntN(4) == 0), side(), side()}
}

// joined joins lines, the last without its end if it is cut.
func joined(lines []string, cut bool) []byte {
	s := strings.Join(lines, "")
	if cut {
		s = strings.TrimSuffix(s, "\n")
	}
	return []byte(s)
}

// goFiles lists the sources of the standard library, without tests.
var goFiles []string

func sourceLines(t *testing.T, rng *rand.Rand) []string {
	t.Helper()
	if goFiles == nil {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatalf("where are Go's sources? %v", err)
		}
		err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"),
			func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".go") &&
					!strings.HasSuffix(path, "_test.go") {
					goFiles = append(goFiles, path)
				}
				return err
			})
		if err != nil || goFiles == nil {
			t.Fatalf("no sources of Go to edit below %s: %v", root, err)
		}
	}
	for {
		b, err := os.ReadFile(goFiles[rng.IntN(len(goFiles))])
		if err != nil {
			t.Fatal(err)
		}
		if lines := textdiff.SplitLines(b); len(lines) > 5 && len(lines) < 3000 {
			return lines
		}
	}
}

// edited makes up to n edits, as people and models make them, near each other or
// not.
func edited(t *testing.T, rng *rand.Rand, lines []string, n int) []string {
	lines = append([]string(nil), lines...)
	for range 1 + rng.IntN(n) {
		if len(lines) == 0 {
			return lines
		}
		at := rng.IntN(len(lines))
		some := min(1+rng.IntN(6), len(lines)-at)
		from := rng.IntN(len(lines))
		other := append([]string(nil), lines[from:min(from+some, len(lines))]...)
		switch rng.IntN(6) {
		case 0: // lines go
			lines = append(lines[:at], lines[at+some:]...)
		case 1: // some like others come
			lines = append(lines[:at], append(other, lines[at:]...)...)
		case 2: // one changes
			lines[at] = strings.TrimSuffix(lines[at], "\n") + fmt.Sprintf(" // %d\n", rng.IntN(1e6))
		case 3: // some change
			for i := at; i < at+some; i++ {
				lines[i] = "\t" + lines[i]
			}
		case 4: // some move
			moved := append([]string(nil), lines[at:at+some]...)
			lines = append(lines[:at], lines[at+some:]...)
			to := rng.IntN(len(lines) + 1)
			lines = append(lines[:to], append(moved, lines[to:]...)...)
		case 5: // another file's come
			strange := sourceLines(t, rng)
			lines = append(lines[:at], append(strange[:some:some], lines[at:]...)...)
		}
	}
	return lines
}

func realCase(t *testing.T, rng *rand.Rand) triple {
	base := sourceLines(t, rng)
	return triple{joined(base, false), joined(edited(t, rng, base, 8), false), joined(edited(t, rng, base, 8), false)}
}

// undoCase takes back what a turn did beneath edits of the user's.
func undoCase(t *testing.T, rng *rand.Rand) triple {
	before := sourceLines(t, rng)
	after := edited(t, rng, before, 8)
	return triple{joined(after, false), joined(edited(t, rng, after, 4), false), joined(before, false)}
}

// eolCase has CRLF somewhere, or no line end at the end.
func eolCase(t *testing.T, rng *rand.Rand) triple {
	base := sourceLines(t, rng)
	cut := rng.IntN(3) == 0
	c := triple{joined(base, cut), joined(edited(t, rng, base, 4), cut), joined(edited(t, rng, base, 4), cut)}
	toCRLF := func(b []byte) []byte { return bytes.ReplaceAll(toLF(b), lf, crlf) }
	switch rng.IntN(6) {
	case 0: // all
		return triple{toCRLF(c.base), toCRLF(c.ours), toCRLF(c.theirs)}
	case 1: // some lines
		mixed := func(lines []string) (list []string) {
			for _, l := range lines {
				if len(l)%3 == 0 {
					l = strings.TrimSuffix(l, "\n") + "\r\n"
				}
				list = append(list, l)
			}
			return list
		}
		base = mixed(base)
		return triple{joined(base, cut), joined(edited(t, rng, base, 4), cut), joined(edited(t, rng, base, 4), cut)}
	case 2: // one side, with edits
		return triple{c.base, toCRLF(c.ours), c.theirs}
	case 3: // one side, and nothing else
		return triple{c.base, toCRLF(c.base), c.theirs}
	case 4:
		return triple{toCRLF(c.base), toCRLF(c.ours), c.base}
	}
	// one side's final line end
	return triple{c.base, joined(edited(t, rng, base, 4), !cut), c.theirs}
}

// historyCases take a version of a file back beneath one of the eight that came
// next.
func historyCases(t *testing.T, rng *rand.Rand, n int) (list []triple) {
	dirs := strings.Split(*mergeHistory, ",")
	if *mergeHistory == "" {
		dirs = []string{".."}
	}
	for _, dir := range dirs {
		var files [][][]byte
		for _, versions := range testhistory.Versions(t, dir, 5*n) {
			if len(versions) >= 3 {
				files = append(files, versions)
			}
		}
		for range n / len(dirs) {
			if len(files) == 0 {
				t.Logf("NOT CHECKED with histories: no file below %s has three versions", dir)
				break
			}
			versions := files[rng.IntN(len(files))]
			k := 1 + rng.IntN(len(versions)-2)
			list = append(list, triple{versions[k], versions[min(k+1+rng.IntN(8), len(versions)-1)], versions[k-1]})
		}
	}
	return list
}

// gitMerged is what git merge-file makes of three texts.
func gitMerged(t *testing.T, dir string, c triple, args ...string) (text []byte, conflicts int) {
	t.Helper()
	for name, b := range map[string][]byte{"base": c.base, "ours": c.ours, "theirs": c.theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := testhistory.Git(dir, nil, append(append([]string{"merge-file", "-p", "-q"}, args...), "ours", "base",
		"theirs")...)
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return text, 0
	case !ok || exit.ExitCode() > 127:
		t.Fatalf("git merge-file: %v", err)
	}
	return text, exit.ExitCode()
}

// A tally counts how git merge-file and we merge.
type tally struct {
	cases, same       int // the same text, without a conflict
	conflict          int // for both
	sameText          int // of these, with markers
	ours, git         int // conflicts of these
	onlyOurs, onlyGit int // a conflict for one
	differ            int // both without one, and not the same text
	ends              int // merged but for line ends
	endsOurs, endsGit int // conflicts of these, for git without CR
}

func (n *tally) otherwise() int { return n.onlyOurs + n.onlyGit + n.differ }

func (n *tally) String() string {
	return fmt.Sprintf("%d cases: %d the same text, %d merged but for "+
		"line ends (%d conflicts, git without CR %d); %d a conflict for both, %d of these the same "+
		"text, %d conflicts of ours and %d of git's; %d a conflict for us alone, %d for git alone, %d not the same text",
		n.cases, n.same, n.ends, n.endsOurs, n.endsGit, n.conflict, n.sameText, n.ours, n.git,
		n.onlyOurs, n.onlyGit, n.differ)
}

// TestMergeAgreesWithGit merges cases of five kinds as git merge-file does. Of the
// tiny ones at most 2 % may be decided otherwise, of the others 0.1 %.
func TestMergeAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT CHECKED against git: %v", err)
	}
	var tiny, realistic tally
	for _, kind := range corpora {
		t.Run(kind.name, func(t *testing.T) {
			var n tally
			rng, dir := testseed.Rand(t), t.TempDir()
			for _, c := range kind.make(t, rng, *mergeCases*kind.share/82) {
				n.add(t, c, dir)
			}
			t.Log(&n)
			sum := &realistic
			if kind.name == "tiny" {
				sum = &tiny
			}
			sum.cases, sum.differ = sum.cases+n.cases, sum.differ+n.otherwise()
		})
	}
	// One more than that part: few cases are a part of little meaning.
	if n := tiny.differ; n > 1+tiny.cases/50 {
		t.Errorf("%d of %d tiny cases are decided otherwise", n, tiny.cases)
	}
	if n := realistic.differ; n > 1+realistic.cases/1000 {
		t.Errorf("%d of %d cases are decided otherwise", n, realistic.cases)
	}
}

// add merges a case and counts it.
func (n *tally) add(t *testing.T, c triple, dir string) {
	t.Helper()
	text, conflicts := gitMerged(t, dir, c, "--zdiff3")
	m := Merge(c.base, c.ours, c.theirs, nil)
	checkMerged(t, c, m)
	marked := m.Markers("ours", "base", "theirs")
	n.cases++
	what := ""
	switch clean := len(m.Conflicts) == 0; {
	case m.EndsApart: // without CR, git has what we have
		n.ends++
		plain, conflicts := gitMerged(t, dir, triple{toLF(c.base), toLF(c.ours), toLF(c.theirs)})
		if conflicts > 0 == clean || clean && !bytes.Equal(plain, toLF(m.Text)) {
			n.differ++
			what = "merged but for line ends, and not so by git without CR"
		}
		n.endsOurs, n.endsGit = n.endsOurs+len(m.Conflicts), n.endsGit+conflicts
	case clean && conflicts == 0 && bytes.Equal(m.Text, text):
		n.same++
	case clean && conflicts == 0:
		n.differ++
		what = "both have no conflict, and not the same text"
	case clean:
		n.onlyGit++
		what = "a conflict for git alone"
	case conflicts == 0:
		n.onlyOurs++
		what = "a conflict for us alone"
	default:
		n.conflict++
		n.ours += len(m.Conflicts)
		n.git += conflicts
		if bytes.Equal(marked, text) {
			n.sameText++
		}
	}
	if what != "" && *mergeShow {
		t.Logf("%s\n-- base\n%s-- ours\n%s-- theirs\n%s-- git\n%s-- we\n%s", what, c.base, c.ours, c.theirs, text,
			marked)
	}
}
