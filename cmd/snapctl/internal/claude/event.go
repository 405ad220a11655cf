// Package claude knows Claude Code's side of snapshots: the events that its hooks
// bring on stdin, and the file of settings that names hooks. It reads and writes
// no file. Nothing here knows of stores or sessions.
package claude

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
)

// Names of events that concern snapshots.
const (
	SessionStart = "SessionStart"
	Prompt       = "UserPromptSubmit"
	ToolStart    = "PreToolUse"
	ToolEnd      = "PostToolUse"
	ToolFailed   = "PostToolUseFailure"
	ToolRefused  = "PermissionDenied"  // by Claude Code itself; not if the user or a hook does it
	ToolAsked    = "PermissionRequest" // a dialog is shown: the user says whether the tool may run
	BatchEnd     = "PostToolBatch"     // all tools that the model called at once have ended, or never run
	Stop         = "Stop"
	StopFailed   = "StopFailure" // the turn has ended with an error of the model's server
	SessionEnd   = "SessionEnd"
)

// Events returns the names of all events that concern snapshots.
func Events() []string {
	return []string{SessionStart, Prompt, ToolStart, ToolAsked, ToolEnd, ToolFailed, ToolRefused, BatchEnd, Stop,
		StopFailed, SessionEnd}
}

// An Event is what a hook is told, as far as it concerns snapshots.
type Event struct {
	Name    string   `json:"name"`
	Session string   `json:"session"`
	CWD     string   `json:"cwd,omitempty"`
	Source  string   `json:"source,omitempty"` // of SessionStart: startup, resume, compact and others
	Tool    string   `json:"tool,omitempty"`   // identifies the call of a tool
	Called  string   `json:"called,omitempty"` // of ToolStart: the name of the tool
	Call    string   `json:"call,omitempty"`   // of ToolStart and ToolAsked: the same for the same tool and arguments
	Tools   []string `json:"tools,omitempty"`  // of BatchEnd: those calls
	Wrote   []string `json:"wrote,omitempty"`  // by a tool that has ended well and names its files
}

// Begins reports whether a session, a turn or a tool begins.
func (e *Event) Begins() bool {
	return e.Name == SessionStart || e.Name == Prompt || e.Name == ToolStart
}

// MaxEvent is how long an event may be: it brings along whole files, and what
// tools have printed.
const MaxEvent = 64 << 20

// maxID is how long the name of a session or a tool may be, in bytes.
const maxID = 256

// ErrLong: the event is longer than MaxEvent, or a name in it than 256 bytes.
var ErrLong = errors.New("event is too long")

// readers are tools that change no files. All others may, those of MCP servers,
// too: a look too many costs milliseconds, a change that was not seen is lost.
var readers = []string{"Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoRead", "TodoWrite",
	"TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "ToolSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode",
	"BashOutput", "TaskOutput", "ListMcpResourcesTool", "ReadMcpResourceTool",
	"Task", "Agent"} // a subagent's tools are told of one by one

// writers name the file that they write.
var writers = []string{"Write", "Edit", "MultiEdit", "NotebookEdit"}

// Read reads an event. It is nil if it does not concern snapshots. What an event
// has beside what is needed is passed over, whatever it is.
func Read(r io.Reader) (*Event, error) {
	in := &io.LimitedReader{R: r, N: MaxEvent + 1}
	b, err := io.ReadAll(in)
	if err == nil && in.N == 0 {
		err = ErrLong
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	var e struct {
		Name    string `json:"hook_event_name"`
		Session string `json:"session_id"`
		CWD     string `json:"cwd"`
		Source  string `json:"source"`
		call
		Input json.RawMessage `json:"tool_input"`
		Calls []call          `json:"tool_calls"`
	}
	err = json.Unmarshal(b, &e)
	// a field of another type is as if it were not there
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !ok {
		return nil, fmt.Errorf("read event: %w", err)
	}
	if !slices.Contains(Events(), e.Name) {
		return nil, nil
	}
	if e.Session == "" {
		return nil, fmt.Errorf("event %s: no session_id", e.Name)
	}
	if len(e.Session) > maxID {
		return nil, fmt.Errorf("event %s: session_id of %d bytes: %w", e.Name, len(e.Session), ErrLong)
	}
	event := &Event{Name: e.Name, Session: e.Session, CWD: e.CWD}
	switch e.Name {
	case SessionStart:
		event.Source = e.Source
	case ToolAsked: // it does not say which call of the tool
		if slices.Contains(readers, e.Tool) {
			return nil, nil
		}
		event.Call = e.fingerprint(e.Input)
	case ToolStart, ToolEnd, ToolFailed, ToolRefused:
		if slices.Contains(readers, e.Tool) {
			return nil, nil
		}
		if event.Tool, err = e.name(); err != nil {
			return nil, fmt.Errorf("event %s: %w", e.Name, err)
		}
		if e.Name == ToolStart {
			event.Called, event.Call = e.Tool, e.fingerprint(e.Input)
		}
		if e.Name == ToolEnd && slices.Contains(writers, e.Tool) {
			event.Wrote = paths(e.Input)
		}
	case BatchEnd:
		for _, c := range e.Calls {
			if slices.Contains(readers, c.Tool) {
				continue
			}
			name, err := c.name()
			if err != nil {
				return nil, fmt.Errorf("event %s: %w", e.Name, err)
			}
			event.Tools = append(event.Tools, name)
		}
		if event.Tools == nil {
			return nil, nil
		}
	}
	return event, nil
}

// A call is that of a tool.
type call struct {
	Tool string `json:"tool_name"`
	ID   string `json:"tool_use_id"`
}

// name returns what identifies the call: its ID, or the tool where there is none,
// as in old versions.
func (c call) name() (string, error) {
	name := cmp.Or(c.ID, c.Tool)
	switch {
	case name == "":
		return "", errors.New("neither tool_use_id nor tool_name")
	case len(name) > maxID:
		return "", fmt.Errorf("tool_use_id of %d bytes: %w", len(name), ErrLong)
	}
	return name, nil
}

// fingerprint is the same for calls of the same tool with the same arguments.
func (c call) fingerprint(input json.RawMessage) string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%d %s%s", len(c.Tool), c.Tool, input)
	return hex.EncodeToString(h.Sum(nil))
}

// paths returns the files that the input of a tool names.
func paths(input json.RawMessage) []string {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	json.Unmarshal(input, &in) // what is not a path is not there
	return slices.DeleteFunc([]string{in.File, in.Notebook}, func(p string) bool {
		return p == "" ||
			strings.ContainsRune(p, 0)
	})
}
