// Package agents knows the agents' side of snapshots: which events their hooks bring on
// stdin, and the files of settings that name hooks. It reads and writes no file. Nothing
// here knows of stores or sessions.
//
// An [Agent] is a table: what its events, tools and files are called. What is done with
// them is written once, for all.
package agents

import (
	"slices"
	"strings"
)

// An Agent is a program that tells what it does to files: hooks, or an extension of ours.
type Agent struct {
	Name  string // on the command line
	Title string // as its users call it

	// Dir is the variable of a hook's environment that names the project; "": none does.
	Dir string
	// Settings are where hooks are written.
	Settings Places
	// Notes are what its user has to know beside that, when hooks have been written.
	Notes []string

	own []ownFile // what it runs of ours, if it has no hooks

	events   []event  // all that concern snapshots
	readers  []string // tools that change no files
	writers  []string // tools that name the files that they write
	patches  []string // tools whose argument is a patch that names its files
	nameless bool     // its calls of tools have no IDs

	comments bool     // may be in its settings
	second   int      // what a second is in a time-out of its settings
	ending   int      // how many seconds hooks may take with which a turn or a session ends early; 0: Timeout
	off      []string // the path of the member of its settings with which no hook runs
	offIs    bool     // what that member is then
}

// Places are where an agent has its settings.
type Places struct {
	Var     string // of the environment: the directory of the user's settings
	Base    string // of the environment: the directory in which, as Below, that of the user's settings is
	Below   string
	Dir     string // that of the user's settings below HOME, where neither is set
	User    string // the file in it; "": the agent runs files of ours there
	Project string // the same of a project, below its root, for all who work on it
	Local   string // the same for one user alone; "": there is none
}

// An event is one of an agent's, and what it is to us.
type event struct {
	theirs, ours string
	tool         bool // settings say for which tools: for all
}

// All are the agents that setup knows.
var All = []*Agent{claude, codex, gemini, opencode, pi}

// Named returns the agent of that name, nil if there is none.
func Named(name string) *Agent {
	if i := slices.IndexFunc(All, func(a *Agent) bool { return a.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// HasHooks reports whether the agent tells hooks what it does.
func (a *Agent) HasHooks() bool { return a.events != nil }

// ours returns what an event of the agent's is to us, "" if it is of no concern.
func (a *Agent) ours(theirs string) string {
	if i := slices.IndexFunc(a.events, func(e event) bool { return e.theirs == theirs }); i >= 0 {
		return a.events[i].ours
	}
	return ""
}

// PromptEvent returns what the agent calls the event of a prompt.
func (a *Agent) PromptEvent() string {
	i := slices.IndexFunc(a.events, func(e event) bool { return e.ours == Prompt })
	return a.events[i].theirs
}

// Off returns what the member of the settings is called with which no hook runs.
func (a *Agent) Off() string { return strings.Join(a.off, ".") }

// reads reports whether a tool changes no files. All others may, those of MCP servers,
// too: a look too many costs milliseconds, a change that was not seen is lost.
func (a *Agent) reads(tool string) bool { return slices.Contains(a.readers, tool) }

// claude is Claude Code, 2.1.197.
var claude = &Agent{
	Name: "claude", Title: "Claude Code", Dir: "CLAUDE_PROJECT_DIR",
	Settings: Places{Var: "CLAUDE_CONFIG_DIR", Dir: ".claude", User: "settings.json",
		Project: ".claude/settings.json", Local: ".claude/settings.local.json"},
	events: []event{
		{"SessionStart", SessionStart, false},
		{"UserPromptSubmit", Prompt, false},
		{"PreToolUse", ToolStart, true},
		{"PermissionRequest", ToolAsked, false},
		{"PostToolUse", ToolEnd, true},
		{"PostToolUseFailure", ToolFailed, true},
		{"PermissionDenied", ToolRefused, true},
		{"PostToolBatch", BatchEnd, false},
		{"Stop", Stop, false},
		{"StopFailure", StopFailed, false},
		{"SessionEnd", SessionEnd, false},
	},
	readers: []string{"Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoRead", "TodoWrite",
		"TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "ToolSearch", "AskUserQuestion", "EnterPlanMode",
		"ExitPlanMode", "BashOutput", "TaskOutput", "ListMcpResourcesTool", "ReadMcpResourceTool",
		"Task", "Agent"}, // a subagent's tools are told of one by one
	writers: []string{"Write", "Edit", "MultiEdit", "NotebookEdit"},
	second:  1,
	off:     []string{"disableAllHooks"},
	offIs:   true,
}

// codex is the Codex CLI, 0.169.0, whose hooks are in Claude Code's format. It says when
// the user has stopped a turn.
var codex = &Agent{
	Name: "codex", Title: "Codex",
	Settings: Places{Var: "CODEX_HOME", Dir: ".codex", User: "hooks.json", Project: ".codex/hooks.json"},
	events: []event{
		{"SessionStart", SessionStart, false},
		{"UserPromptSubmit", Prompt, false},
		{"PreToolUse", ToolStart, true},
		{"PermissionRequest", ToolAsked, false},
		{"PostToolUse", ToolEnd, true},
		{"Stop", Stop, false},
		{"Interrupt", Interrupted, false},
		{"SessionEnd", SessionEnd, false},
	},
	readers: []string{"update_plan", "view_image", "web_search", "request_user_input", "request_user_input_async",
		"get_goal", "create_goal", "update_goal", "collaborationspawn_agent", "collaborationwait_agent",
		"collaborationsend_message", "collaborationfollowup_task", "collaborationinterrupt_agent",
		"collaborationlist_agents"}, // a subagent's tools are told of one by one
	patches: []string{"apply_patch"},
	Notes: []string{`Codex runs only hooks that you trust: choose "Trust all and continue" at its next start, ` +
		"or /hooks, and again when setup has changed them"},
	second: 1,
	ending: 3,
}

// gemini is gemini-cli, 0.61.0. Its calls of tools have no names, and a notification that
// the user is asked does not say about which.
var gemini = &Agent{
	Name: "gemini", Title: "Gemini CLI", Dir: "GEMINI_PROJECT_DIR",
	Settings: Places{Base: "GEMINI_CLI_HOME", Below: ".gemini", Dir: ".gemini", User: "settings.json",
		Project: ".gemini/settings.json"},
	events: []event{
		{"SessionStart", SessionStart, false},
		{"BeforeAgent", Prompt, false},
		{"BeforeTool", ToolStart, true},
		{"Notification", ToolAsked, false},
		{"AfterTool", ToolEnd, true},
		{"AfterAgent", Stop, false},
		{"SessionEnd", SessionEnd, false},
	},
	readers: []string{"read_file", "read_many_files", "list_directory", "glob", "grep_search", "search_file_content",
		"web_fetch", "google_web_search", "ask_user", "get_internal_docs", "write_todos", "enter_plan_mode",
		"exit_plan_mode", "activate_skill", "update_topic", "complete_task", "list_mcp_resources",
		"read_mcp_resource", "invoke_agent"}, // as Claude Code's Task
	writers:  []string{"write_file", "replace"},
	nameless: true,
	comments: true,
	second:   1000,
	off:      []string{"hooksConfig", "enabled"},
	offIs:    false,
}
