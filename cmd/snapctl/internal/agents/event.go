package agents

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/words"
)

// What the events of all agents are to us: the names are those of Claude Code, where it
// has them.
const (
	SessionStart = "SessionStart"
	Prompt       = "UserPromptSubmit"
	ToolStart    = "PreToolUse"
	ToolEnd      = "PostToolUse"
	ToolFailed   = "PostToolUseFailure"
	ToolRefused  = "PermissionDenied"  // by the agent itself; not if the user or a hook does it
	ToolAsked    = "PermissionRequest" // a dialog is shown: the user says whether the tool may run
	BatchEnd     = "PostToolBatch"     // all tools that the model called at once have ended, or never run
	Stop         = "Stop"
	StopFailed   = "StopFailure" // the turn has ended with an error of the model's server
	Interrupted  = "Interrupt"   // the user has stopped the turn
	SessionEnd   = "SessionEnd"
)

// An Event is what a hook is told, as far as it concerns snapshots.
type Event struct {
	Agent   string   `json:"agent,omitempty"` // its [Agent.Name]; "": claude, of older hooks
	Name    string   `json:"name"`            // what it is to us
	Session string   `json:"session"`
	CWD     string   `json:"cwd,omitempty"`
	Source  string   `json:"source,omitempty"` // of SessionStart: startup, resume, compact and others
	Tool    string   `json:"tool,omitempty"`   // identifies the call of a tool
	Called  string   `json:"called,omitempty"` // of ToolStart: the name of the tool
	Call    string   `json:"call,omitempty"`   // of ToolStart and ToolAsked: the same for the same tool and arguments
	Tools   []string `json:"tools,omitempty"`  // of BatchEnd: those calls
	Wrote   []string `json:"wrote,omitempty"`  // by a tool that has ended well and names its files
	Edits   bool     `json:"edits,omitempty"`  // of ToolEnd and ToolFailed: it has written Wrote and nothing else
	Title   string   `json:"title,omitempty"`  // of Prompt: its beginning
	Tell    bool     `json:"tell,omitempty"`   // of Prompt: the model is told what was taken back since its last turn
	Model   string   `json:"model,omitempty"`  // of SessionStart and Prompt, if the agent says which
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

// maxTitle is how much is taken of a prompt, in bytes.
const maxTitle = 4 << 10

// Read reads an event. It is nil if it does not concern snapshots. What an event
// has beside what is needed is passed over, whatever it is.
func (a *Agent) Read(r io.Reader) (*Event, error) {
	in := &io.LimitedReader{R: r, N: MaxEvent + 1}
	b, err := io.ReadAll(in)
	if err == nil && in.N == 0 {
		err = ErrLong
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	var e told
	err = json.Unmarshal(b, &e)
	// a field of another type is as if it were not there
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !ok {
		return nil, fmt.Errorf("read event: %w", err)
	}
	event := &Event{Agent: a.Name, Name: a.ours(e.Name), Session: e.Session, CWD: e.CWD}
	switch {
	case event.Name == "":
		return nil, nil
	case e.Session == "":
		return nil, fmt.Errorf("event %s: no session_id", e.Name)
	case len(e.Session) > maxID:
		return nil, fmt.Errorf("event %s: session_id of %d bytes: %w", e.Name, len(e.Session), ErrLong)
	}
	if err := a.fill(event, &e); err != nil {
		return nil, fmt.Errorf("event %s: %w", e.Name, err)
	}
	if event.Name == "" {
		return nil, nil
	}
	return event, nil
}

// told is what a hook is told.
type told struct {
	Name    string `json:"hook_event_name"`
	Session string `json:"session_id"`
	CWD     string `json:"cwd"`
	Source  string `json:"source"`
	Agent   string `json:"agent_id"` // of a subagent's events
	Prompt  string `json:"prompt"`
	Model   string `json:"model"`
	Kind    string `json:"notification_type"`
	call
	Answer json.RawMessage `json:"tool_response"`
	Calls  []call          `json:"tool_calls"`
}

// fill fills in what an event says beside its name and session. One that turns out to be
// of no concern loses its name.
func (a *Agent) fill(event *Event, e *told) (err error) {
	switch event.Name {
	case SessionStart:
		event.Source, event.Model = e.Source, e.Model
	case Prompt:
		if e.Agent != "" { // what a subagent is told to do
			event.Name = ""
		}
		event.Title, event.Model = titleOf(e.Prompt), e.Model
	case ToolAsked: // it does not say which call of the tool
		switch {
		case e.Tool != "" && a.reads(e.Tool), e.Tool == "" && e.Kind != "ToolPermission":
			event.Name = ""
		case e.Tool != "":
			event.Call = e.fingerprint()
		}
	case ToolStart, ToolEnd, ToolFailed, ToolRefused:
		if a.reads(e.Tool) {
			event.Name = ""
			return nil
		}
		if event.Tool, err = a.nameOf(&e.call); err != nil {
			return err
		}
		switch event.Name {
		case ToolStart:
			event.Called, event.Call = e.Tool, e.fingerprint()
		case ToolEnd:
			event.Wrote = a.wrote(e)
			event.Edits = len(event.Wrote) > 0
		case ToolFailed:
			event.Edits = slices.Contains(a.writers, e.Tool) || slices.Contains(a.patches, e.Tool)
		}
	case BatchEnd:
		for _, c := range e.Calls {
			if a.reads(c.Tool) {
				continue
			}
			name, err := a.nameOf(&c)
			if err != nil {
				return err
			}
			event.Tools = append(event.Tools, name)
		}
		if event.Tools == nil {
			event.Name = ""
		}
	}
	return nil
}

// titleOf returns what says of a prompt what the turn is for: its beginning. One that Claude
// Code writes itself, when a command or a subagent in the background has ended, has a summary.
func titleOf(prompt string) string {
	if strings.HasPrefix(prompt, "<task-notification>") {
		_, rest, _ := strings.Cut(prompt, "<summary>")
		if summary, _, ok := strings.Cut(rest, "</summary>"); ok {
			prompt = summary
		}
	}
	return strings.ToValidUTF8(prompt[:min(len(prompt), maxTitle)], "")
}

// A call is that of a tool.
type call struct {
	Tool  string          `json:"tool_name"`
	ID    string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// nameOf returns what identifies a call: its ID, or else the tool, as in old versions of
// Claude Code, or where calls never have one, the tool and its arguments.
func (a *Agent) nameOf(c *call) (string, error) {
	name := cmp.Or(c.ID, c.Tool)
	switch {
	case name == "":
		return "", errors.New("neither tool_use_id nor tool_name")
	case len(name) > maxID:
		return "", fmt.Errorf("tool_use_id of %d bytes: %w", len(name), ErrLong)
	case a.nameless:
		return c.fingerprint(), nil
	}
	return name, nil
}

// fingerprint is the same for calls of the same tool with the same arguments. What the
// tool is said to be for is none: Codex says it only when it asks.
func (c *call) fingerprint() string {
	input := []byte(c.Input)
	var args map[string]json.RawMessage
	if json.Unmarshal(c.Input, &args) == nil {
		delete(args, "description")
		input, _ = json.Marshal(args) // it was JSON just now, in whatever form
	}
	h := fnv.New128a()
	fmt.Fprintf(h, "%d %s%s", len(c.Tool), c.Tool, input)
	return hex.EncodeToString(h.Sum(nil))
}

// wrote returns the files that a tool has written, if it names them and has not failed.
func (a *Agent) wrote(e *told) []string {
	var answer struct{ Error json.RawMessage }
	json.Unmarshal(e.Answer, &answer) // what is not an object has no error
	if answer.Error != nil {
		return nil
	}
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
		Command  string `json:"command"`
	}
	json.Unmarshal(e.Input, &in) // what is not a path is not there
	var list []string
	switch {
	case slices.Contains(a.writers, e.Tool):
		list = []string{in.File, in.Notebook}
	case slices.Contains(a.patches, e.Tool):
		list = patched(in.Command)
	}
	isCut := words.CheckText("", e.Input) != nil // and U+FFFD stands for what is not known
	list = slices.DeleteFunc(list, func(p string) bool {
		return p == "" || strings.ContainsRune(p, 0) || isCut && strings.ContainsRune(p, utf8.RuneError)
	})
	for i, p := range list {
		if !filepath.IsAbs(p) && e.CWD != "" { // as Gemini's may be
			list[i] = filepath.Join(e.CWD, p)
		}
	}
	return list
}

// patched returns the files that a patch in the format of apply_patch names.
func patched(patch string) (list []string) {
	for line := range strings.Lines(patch) {
		for _, verb := range []string{"Add File", "Update File", "Delete File", "Move to"} {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "*** "+verb+": "); ok {
				list = append(list, path)
			}
		}
	}
	return list
}
