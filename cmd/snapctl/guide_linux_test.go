package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// varying is what is another one each time, and differs in width: names, times, sizes.
var varying = regexp.MustCompile(`\b[0-9a-f]{8,64}\b|\brun-[0-9a-f-]+|\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?\b|` +
	`\b\d+ (s|min|h|days?) ago\b|\bjust now\b|\b\d+\.\d+ s\b|\b\d+(\.\d+)? [KMG]?B\b|  +`)

// slow is how long a step has taken, in a column that only slow ones have.
var slow = regexp.MustCompile(`  \d+\.\d+ s\b`)

// masked returns a line without what varies.
func masked(line string) string {
	return varying.ReplaceAllString(slow.ReplaceAllString(line, ""), "…")
}

// TestGuide runs what README.md and the guides show, on a terminal. In an indented block a
// line "$ COMMAND" is run, and what comes below it is what must be printed: but for what
// varies, and for a line "…", which stands for any number of lines. An answer to a question
// that is shown is given. Comments in a page say what is not shown:
//
//	<!-- setup: NAME…         a new home and a new project, ~/shop, in which the scripts
//	COMMAND…                  NAME of testdata/guide were run, and these commands; the page
//	-->                       begins in an empty one
//	<!-- meanwhile:
//	COMMAND…                  what somebody else does between two blocks
//	-->
//	<!-- not run: WHY -->     for the next block
//	<!-- picture: FILE -->    the next block is also a picture, in docs
//
// With -update pages are written anew. How much is not run is logged.
func TestGuide(t *testing.T) {
	bin := guideBin(t)
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	for _, name := range append(pages, "../../README.md") {
		t.Run(strings.TrimPrefix(name, "../../"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p := &page{t: t, bin: bin}
			p.setUp("")
			got := p.run(string(text))
			t.Logf("%s: %d commands were run, %d were not%s", filepath.Base(name), p.ran, len(p.not),
				strings.Join(append([]string{""}, p.not...), "\n"))
			if d := cmp.Diff(string(text), got); d != "" && !*update {
				t.Errorf("%s (-shown +run): go test ./cmd/snapctl -run Guide -update\n%s", name, d)
			} else if d != "" {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// guideBin returns a directory with the programs of the guides.
func guideBin(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"snapctl", "agent"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// A page is a document that is run.
type page struct {
	t         *testing.T
	bin       string
	home, cwd string
	env       []string // beside what all have
	picture   string   // a file: the block that is run is one
	pictured  []pictured
	ran       int
	not       []string // commands that are not run, and why
}

// setUp begins a new home and project, and runs scripts and commands in it.
func (p *page) setUp(text string) {
	p.home = p.t.TempDir()
	p.cwd = filepath.Join(p.home, "shop")
	if err := os.Mkdir(p.cwd, 0o755); err != nil {
		p.t.Fatal(err)
	}
	names, commands, _ := strings.Cut(text, "\n")
	script := "set -e\n"
	for name := range strings.FieldsSeq(names) {
		text, err := os.ReadFile("testdata/guide/" + name + ".sh")
		if err != nil {
			p.t.Fatal(err)
		}
		script += string(text)
	}
	p.quietly(script + commands)
}

// quietly runs what is not shown.
func (p *page) quietly(script string) {
	c := p.command(script)
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		p.t.Fatalf("%s\nprints %s: %v", script, out, err)
	}
	p.moved()
}

// command returns a command of a shell that goes on where the one before has been.
func (p *page) command(text string) *exec.Cmd {
	where := filepath.Join(p.home, ".cwd")
	c := exec.Command("sh", "-c", "trap 'pwd >\"$WHERE\"' EXIT\n"+text)
	c.Dir = p.cwd
	c.Env = append([]string{"HOME=" + p.home, "PATH=" + p.bin + ":" + os.Getenv("PATH"), "WHERE=" + where, "TZ=UTC",
		"LANG=C.UTF-8", "TERM=xterm-256color", "PAGER=cat", "BOO_ENGINE=off", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=You", "GIT_AUTHOR_EMAIL=you@example.com", "GIT_COMMITTER_NAME=You",
		"GIT_COMMITTER_EMAIL=you@example.com", "GORACE=atexit_sleep_ms=0"}, p.env...)
	return c
}

// moved follows the shell to where its last command has ended.
func (p *page) moved() {
	if b, err := os.ReadFile(filepath.Join(p.home, ".cwd")); err == nil {
		p.cwd = strings.TrimSuffix(string(b), "\n")
	}
}

// run returns a page as it is when its commands are run.
func (p *page) run(text string) string {
	var got strings.Builder
	lines := strings.SplitAfter(text, "\n")
	why := ""
	for i := 0; i < len(lines); {
		line := lines[i]
		command, isShown := strings.CutPrefix(line, "    $ ")
		isBlock := strings.HasPrefix(line, "    ") && (i == 0 || strings.TrimSpace(lines[i-1]) == "")
		switch {
		case why != "" && isBlock:
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == "\n" &&
				i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ")); i++ {
				got.WriteString(lines[i])
				command, ok := strings.CutPrefix(lines[i], "    $ ")
				if ok || lines[i] == line {
					p.not = append(p.not, strings.TrimSpace(command)+": "+why)
				}
			}
			why = ""
		case isShown:
			got.WriteString(line)
			first := i + 1
			for i++; i < len(lines) && strings.HasPrefix(lines[i], "    ") &&
				!strings.HasPrefix(lines[i], "    $ "); i++ {
			}
			shown := lines[first:i]
			p.ran++
			out, coloured := p.onTerminal(command, answers(shown))
			typed, comment, hasComment := strings.Cut(strings.TrimSuffix(command, "\n"), " #")
			if hasComment {
				typed += "\x1b[90m #" + comment
			}
			p.pictured = append(p.pictured, pictured{"\x1b[90m$ \x1b[1m" + typed, true})
			for _, line := range coloured {
				p.pictured = append(p.pictured, pictured{text: line})
			}
			for i := range out {
				out[i] = "    " + out[i] + "\n"
			}
			got.WriteString(strings.Join(asShown(shown, out), ""))
			if i == len(lines) || !strings.HasPrefix(lines[i], "    ") {
				p.takePicture()
			}
		case isBlock && !isListed(lines[:i]):
			p.t.Errorf("a block that is not run: begin it with \"$ \", or say why it is not: %s", line)
			fallthrough
		default:
			got.WriteString(line)
			i++
			kind, rest, isComment := strings.Cut(strings.TrimPrefix(line, "<!-- "), ":")
			if !isComment || !strings.HasPrefix(line, "<!-- ") {
				continue
			}
			for !strings.Contains(rest, "-->") {
				rest += lines[i]
				got.WriteString(lines[i])
				i++
			}
			rest = strings.Trim(rest[:strings.Index(rest, "-->")], " ") // names end with the line
			switch kind {
			case "setup":
				p.setUp(rest)
			case "meanwhile":
				p.quietly(rest)
			case "not run":
				why = strings.TrimSpace(rest)
			case "picture":
				p.picture = "../../docs/" + strings.TrimSpace(rest)
			default:
				p.t.Errorf("comment of no known kind: %s", line)
			}
		}
	}
	return got.String()
}

// takePicture compares the picture of a block that was run with the one that there is.
func (p *page) takePicture() {
	name, lines := p.picture, p.pictured
	p.picture, p.pictured = "", nil
	if name == "" {
		return
	}
	want := picture("snapctl in a terminal", lines)
	got, err := os.ReadFile(name)
	texts := func(svg string) (list []string) {
		for _, m := range regexp.MustCompile(`<text [^>]*>([^<]*)`).FindAllStringSubmatch(svg, -1) {
			list = append(list, masked(m[1]))
		}
		return list
	}
	switch d := cmp.Diff(texts(string(got)), texts(want)); {
	case d == "":
	case *update:
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			p.t.Fatal(err)
		}
	default:
		p.t.Errorf("%s (-shown +run): go test ./cmd/snapctl -run Guide -update\n%s%v", name, d, err)
	}
}

// isListed reports whether an indented line goes on with the item of a list.
func isListed(before []string) bool {
	for _, line := range slices.Backward(before) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "    ") {
			return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "  ")
		}
	}
	return false
}

// fits reports whether what is printed is what is shown.
func fits(shown, out []string) bool {
	for i, line := range shown {
		if strings.TrimSpace(line) == "…" {
			for skip := range len(out) - i + 1 {
				if fits(shown[i+1:], out[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(out) || masked(line) != masked(out[i]) {
			return false
		}
	}
	return len(shown) == len(out)
}

// asShown returns what is printed as a page shows it: as it stands there if it fits, else
// anew, with a line "…" for as many lines in the middle as the page leaves out.
func asShown(shown, out []string) []string {
	if fits(shown, out) {
		return shown
	}
	isCut := func(line string) bool { return strings.TrimSpace(line) == "…" }
	if first := slices.IndexFunc(shown, isCut); first >= 0 {
		last := shown[first+1:]
		for at := slices.IndexFunc(last, isCut); at >= 0; at = slices.IndexFunc(last, isCut) {
			last = last[at+1:]
		}
		if begin := len(out) - len(last); begin > first {
			return slices.Concat(asShown(shown[:first], out[:first]), shown[first:first+1], asShown(last, out[begin:]))
		}
	}
	for i := range min(len(shown), len(out)) {
		if masked(shown[i]) == masked(out[i]) {
			out[i] = shown[i]
		}
	}
	return out
}

// question is the end of a line in which a command asks.
var question = regexp.MustCompile(`(\[y/N\]|\[Y/n\]|\[[^]]*\?\]\?|\[1-\d+\]) ([^ ]*)$`)

// answers returns what is answered in lines that are shown.
func answers(shown []string) (list []string) {
	for _, line := range shown {
		if m := question.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			list = append(list, m[2])
		}
	}
	return list
}

// onTerminal runs a command on a terminal, and gives answers to what it asks. It
// returns the lines that the user sees in the end, and the same with colours.
func (p *page) onTerminal(command string, answers []string) (plain, coloured []string) {
	user, program := terminal(p.t)
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: pictureColumns, Row: 40}); err != nil {
		p.t.Skip(err)
	}
	c := p.command(command)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	program.Close()
	var s screen
	buf := make([]byte, 32<<10)
	for {
		n, err := user.Read(buf)
		s.write(buf[:n])
		if err != nil { // nobody has the other end
			break
		}
		if m := question.FindStringSubmatch(s.last()); m != nil && m[2] == "" {
			answer := "\x04"
			if len(answers) > 0 {
				answer, answers = answers[0]+"\n", answers[1:]
			}
			if _, err := user.WriteString(answer); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	user.Close()
	p.moved()
	plain, coloured = s.text(false), s.text(true)
	for i := range plain {
		plain[i] = strings.ReplaceAll(plain[i], p.home, "/home/you")
		coloured[i] = strings.ReplaceAll(coloured[i], p.home, "/home/you")
	}
	return plain, coloured
}

// A screen is what a terminal shows of programs that write lines, and at most change the last
// one. Its zero value is empty.
type screen struct {
	lines  [][]cell
	column int
	style  string // that of what comes next: the parameters of SGR
	rest   []byte // the begin of something that has not ended
}

// A cell is a character.
type cell struct {
	text, style string
}

// sequence is what a program tells a terminal: a CSI, or an OSC with its end.
var sequence = regexp.MustCompile(`^\x1b(\[([0-9;?]*)([@-~])|\][^\x07\x1b]*(\x07|\x1b\\))`)

func (s *screen) write(b []byte) {
	b = append(s.rest, b...)
	for len(b) > 0 {
		if len(s.lines) == 0 {
			s.lines = append(s.lines, nil)
		}
		line := &s.lines[len(s.lines)-1]
		switch c := b[0]; {
		case c == '\x1b':
			m := sequence.FindSubmatch(b)
			if m == nil {
				s.rest = b
				return
			}
			switch string(m[3]) {
			case "m":
				s.style = string(m[2])
			case "K":
				*line = (*line)[:min(s.column, len(*line))]
			}
			b = b[len(m[0]):]
			continue
		case c == '\r':
			s.column = 0
		case c == '\n':
			s.lines, s.column = append(s.lines, nil), 0
		case c == '\t':
			s.column += 8 - s.column%8
		case c == '\b':
			s.column = max(s.column-1, 0)
		case c < ' ':
		case !utf8.FullRune(b):
			s.rest = b
			return
		default:
			_, n := utf8.DecodeRune(b)
			for len(*line) <= s.column {
				*line = append(*line, cell{text: " "})
			}
			(*line)[s.column] = cell{string(b[:n]), s.style}
			s.column++
			b = b[n:]
			continue
		}
		b = b[1:]
	}
	s.rest = nil
}

// last returns the line that the cursor is in.
func (s *screen) last() string {
	text := s.text(false)
	if len(text) == 0 || s.column == 0 {
		return ""
	}
	return text[len(text)-1]
}

// text returns the lines, with the styles of what is in them if it is to be coloured.
func (s *screen) text(coloured bool) (list []string) {
	for i, line := range s.lines {
		if i == len(s.lines)-1 && len(line) == 0 {
			break
		}
		var b strings.Builder
		style := ""
		for _, c := range line {
			if coloured && c.style != style {
				style = c.style
				fmt.Fprintf(&b, "\x1b[%sm", style)
			}
			b.WriteString(c.text)
		}
		list = append(list, b.String())
	}
	return list
}
