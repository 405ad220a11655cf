package mcp

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// groups are names that stand for several tools.
var groups = map[string][]string{
	"snapshots": {"snapshot_create", "snapshot_list"},
	"look": {"snapshot_list", "snapshot_diff", "files_modified", "file_diff", "hunks", "whereis", "blame",
		"find",
		"restore_preview", "revert_preview"},
	"restore": {"restore_preview", "restore", "revert_preview", "revert", "undo", "redo"},
	"edit":    {"patch_apply", "patch_undo"},
}

// allTools returns the names of all tools, in order.
func allTools() []string {
	all := slices.Concat(slices.Collect(maps.Values(groups))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// ToolNames returns the tools that a list of tools and groups names, in order of name.
func ToolNames(list []string) ([]string, error) {
	all := allTools()
	var chosen []string
	for _, name := range list {
		switch {
		case groups[name] != nil:
			chosen = append(chosen, groups[name]...)
		case slices.Contains(all, name):
			chosen = append(chosen, name)
		default:
			return nil, fmt.Errorf("no tool %q: there are %s, and the groups %s", name,
				strings.Join(all, ", "), strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// Choices returns what a list of tools may name: groups, and then tools.
func Choices() []string { return slices.Concat(slices.Sorted(maps.Keys(groups)), allTools()) }

// serves reports whether the server has one of some tools.
func (s *Server) serves(tools ...string) bool {
	return s.Tools == nil || slices.ContainsFunc(tools, func(t string) bool { return slices.Contains(s.Tools, t) })
}

// instructions tell a model which tool is for what. A line may begin with the tool that
// it is about.
//
//go:embed instructions.txt
var instructions string

// instructions returns the lines that are not about tools that are not served.
func (s *Server) instruct() string {
	var b strings.Builder
	for line := range strings.Lines(instructions) {
		tool, rest, about := strings.Cut(line, ": ")
		switch about = about && slices.Contains(allTools(), tool); {
		case !about:
			b.WriteString(line)
		case s.serves(tool):
			b.WriteString("- " + rest)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addPrompts adds what a user may ask a model for by name.
func (x *tools) addPrompts() {
	if x.server.serves("files_modified", "snapshot_diff") {
		x.addPrompt("changes", "What this session has changed", nil, func(map[string]string) string {
			return "Tell me which files this session has changed. Ask snapctl, do not go by what you " +
				"remember: files_modified lists what steps changed, snapshot_diff without arguments what " +
				"differs since the newest snapshot. Say in a line per file what changed in it and why, name " +
				"apart what I or another session have changed, and change nothing."
		})
	}
	if x.server.serves("restore") {
		to := promptArgument{Name: "to", Title: "Where to",
			Description: "what to go back to, in words or as a revision; left out, the model asks"}
		x.addPrompt("rewind", "Take files back", []promptArgument{to}, func(args map[string]string) string {
			where := "If I have not said how far, show me the newest of snapshot_list and ask."
			if args["to"] != "" {
				where = fmt.Sprintf("Go back to: %s. Find the revision that I mean with snapshot_list; "+
					"if several fit, ask.", bounded(args["to"], maxError))
			}
			return "Take files back with snapctl. " + where + " Call restore_preview first and tell me what " +
				"would be restored, deleted and left alone, with the reasons, before you call restore with the " +
				"same arguments. If I mean a turn in the middle, and later ones are to stay, take revert_preview and " +
				"revert instead. Overwrite lines or files of mine only if I say so. At the end say what was done, " +
				"what is in conflict, and that undo takes it back."
		})
	}
}

// addPrompt adds a prompt that is one message of the user.
func (x *tools) addPrompt(name, title string, args []promptArgument, text func(map[string]string) string) {
	x.prompts = append(x.prompts, &prompt{Name: name, Title: title, Description: title, Arguments: args, text: text})
}
