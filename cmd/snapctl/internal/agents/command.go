package agents

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/words"
)

// A command is what a hook has a shell run, if that is this program and nothing
// else.
type command struct {
	program string // as the shell has it, in quotes say
	args    string // "hook" and the agent's name with flags, and the blanks in front
	end     string // "|| true" or nothing
}

// wordPattern matches a word of a shell: no redirection, no other command. Paths
// of Windows have backslashes.
const wordPattern = `(?:[^\s'"\\<>|&;()` + "`" + `]|\\.|'[^']*'|"(?:[^"$` + "`" + `]|\$[^("` + "`" + `])*")+`

var (
	word        = words.Pattern(wordPattern)
	commandLine = words.Pattern(`^[ \t]*(` + wordPattern + `)((?:[ \t]+` + wordPattern +
		`)+)([ \t]*\|\|[ \t]*true)?[ \t]*$`)
	programName = words.Pattern(`^(.*[/\\])?snapctl[\w.-]*$`)
	assignment  = words.Pattern(`^\w+=`)
)

// TellFlag is what has the hook of a prompt tell the model what was taken back.
const TellFlag = " --tell"

// parseCommand reports with ok whether it is one, for this agent.
func (a *Agent) parseCommand(text string) (c command, ok bool) {
	m := commandLine().FindStringSubmatch(text)
	if m == nil || assignment().MatchString(m[1]) || !programName().MatchString(plainWord(m[1])) {
		return c, false
	}
	var names []string
	for args := word().FindAllString(m[2], -1); len(args) > 0; args = args[1:] {
		if !strings.HasPrefix(args[0], "-") {
			names = append(names, args[0])
		} else if len(args) > 1 && !strings.Contains(args[0], "=") && a.isValue(args[1]) {
			args = args[1:]
		}
	}
	return command{m[1], m[2], m[3]}, slices.Equal(names, []string{"hook", a.Name})
}

// plainWord returns a word of a shell without its quotes.
func plainWord(s string) string { return strings.NewReplacer(`'`, "", `"`, "").Replace(s) }

// isValue reports whether what is behind a flag may be its value.
func (a *Agent) isValue(arg string) bool {
	return !strings.HasPrefix(arg, "-") && arg != "hook" && arg != a.Name
}

func (c command) String() string { return c.program + c.args + c.end }

// with returns the command of a hook as another would be: of the program at its
// place, which is found by variables if the user has it so, with its flags.
func (c command) with(want command) command {
	if !strings.ContainsAny(c.program, "$~") {
		c.program = want.program
	}
	c.end = cmp.Or(c.end, want.end)
	if strings.HasSuffix(want.args, TellFlag) && !strings.Contains(c.args, TellFlag) {
		c.args += TellFlag
	}
	return c
}

// IsOurs reports whether the command of one of the agent's hooks is this program's and
// nothing else.
func (a *Agent) IsOurs(text string) bool {
	_, ok := a.parseCommand(text)
	return ok
}

// isMixed reports whether a command may run ours among others.
func (a *Agent) isMixed(text string) bool {
	mention := regexp.MustCompile(`(^|[^\w.-])snapctl[\w.-]*["']?\s(.*\s)?hook\s(.*\s)?` + a.Name + `($|[^\w-])`)
	return !a.IsOurs(text) && mention.MatchString(text)
}
