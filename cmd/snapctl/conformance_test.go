package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/boocode/filestore/checkpoint/httpapi"
	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
	"github.com/boocode/filestore/cmd/snapctl/internal/rpc"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
)

// A verb can be asked for in five ways: as a method of the manager, over RPC and
// HTTP, as a tool of a model, and as a command. Each is a face of it; where one is
// missing, none says why.
type faces struct {
	method  string // of manager.FileSnapshotManager
	tool    string
	command string
	none    string
	ask     asking
}

// facesOf has the verbs of package verbs, with their faces.
var facesOf = map[string]faces{
	"initialize": {"Initialize", "", "", "mcp and the command begin by themselves",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, _ *struct{}) (any, error) {
			return m.Initialize(ctx)
		})},
	"turn_start": {"OnTurnStart", "", "", "only runtimes have turns; hooks tell the command of them",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.Turn) (any, error) {
			return m.OnTurnStart(ctx, a)
		})},
	"turn_end": {"EndTurn", "", "", "only runtimes have turns",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, _ *struct{}) (any, error) {
			r, _, err := m.EndTurn(ctx)
			return r, err
		})},
	"tool_start": {"OnToolStart", "", "", "only runtimes have tools",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Tool) (any, error) {
			return m.OnToolStart(ctx, a.Tool)
		})},
	"tool_end": {"OnToolEnd", "", "", "only runtimes have tools",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Tool) (any, error) {
			return m.OnToolEnd(ctx, a.Tool)
		})},
	"told": {"Told", "", "", "only runtimes have logs",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Told) (any, error) {
			return nil, m.Told(ctx, a.SnapshotSeq, a.EntryID)
		})},
	"claim": {"Claim", "", "", "only runtimes have turns",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Claim) (any, error) {
			return nil, m.Claim(ctx, a.Paths...)
		})},
	"note_read": {"NoteRead", "", "", "it is for edits of who asks next",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.File) (any, error) {
			return m.NoteRead(ctx, a.Path)
		})},
	"get_modified_files": {"ModifiedFiles", "files_modified", "", "log --name-status lists them by turns",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.Range) (any, error) {
			return m.ModifiedFiles(ctx, a)
		})},
	"get_file_diff": {"FileDiff", "file_diff", "diff", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.FileRange) (any, error) {
			return m.FileDiff(ctx, a)
		})},
	"get_turn_diff": {"TurnDiff", "snapshot_diff", "diff", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.TurnDiffOf) (any, error) {
			return m.TurnDiff(ctx, a.Rev)
		})},
	"hunks": {"Hunks", "hunks", "diff", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.HunkRange) (any, error) {
			return m.Hunks(ctx, a)
		})},
	"get_snapshots": {"Timeline", "snapshot_list", "log", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, _ *struct{}) (any, error) {
			var list []*manager.Moment
			for mo, err := range m.Timeline(ctx) {
				if err != nil {
					return nil, err
				}
				list = append(list, mo)
			}
			return list, nil
		})},
	"whereis": {"WhereIs", "whereis", "whereis", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.File) (any, error) {
			return m.WhereIs(ctx, a.Path)
		})},
	"blame": {"Blame", "blame", "blame", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.BlameOptions) (any, error) {
			return m.Blame(ctx, a)
		})},
	"find": {"Find", "find", "find", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Find) (any, error) {
			list := []*manager.Found{}
			for f, err := range m.Find(ctx, &a.FindOptions) {
				if err != nil {
					return list, err
				}
				list = append(list, f)
			}
			return list, nil
		})},
	"get_coverage": {"Resolve", "", "coverage", "snapshot_create says it to models",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.CoverageOf) (any, error) {
			return m.Resolve(ctx, a.Rev)
		})},
	"restore_preview": {"RestoreFiles", "restore_preview", "restore", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.RestoreOptions) (any, error) {
			a.Preview = true
			return m.RestoreFiles(ctx, a)
		})},
	"restore": {"RestoreFiles", "restore", "restore", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.RestoreOptions) (any, error) {
			return m.RestoreFiles(ctx, a)
		})},
	"revert_preview": {"Revert", "revert_preview", "revert", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.RevertOptions) (any, error) {
			a.Preview = true
			return m.Revert(ctx, a)
		})},
	"revert": {"Revert", "revert", "revert", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.RevertOptions) (any, error) {
			return m.Revert(ctx, a)
		})},
	"undo": {"Undo", "undo", "undo", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.UndoOptions) (any, error) {
			return m.Undo(ctx, a)
		})},
	"redo": {"Redo", "redo", "redo", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *manager.UndoOptions) (any, error) {
			return m.Redo(ctx, a)
		})},
	"navigate_tree": {"NavigateTree", "", "navigate", "a model does not move its own conversation",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.Navigate) (any, error) {
			return m.NavigateTree(ctx, a.Target, &a.NavigateOptions)
		})},
	"apply_patch": {"ApplyEdits", "patch_apply", "patch apply", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.ApplyPatch) (any, error) {
			q, err := a.Request()
			if err != nil {
				return nil, err
			}
			return m.ApplyEdits(ctx, q)
		})},
	"undo_patch": {"UndoEdit", "patch_undo", "patch undo", "",
		ask(func(ctx context.Context, m *manager.FileSnapshotManager, a *verbs.UndoPatch) (any, error) {
			return m.UndoEdit(ctx, a.UndoID, &a.UndoEditOptions)
		})},
}

// asking asks the manager with arguments in JSON.
type asking func(ctx context.Context, m *manager.FileSnapshotManager, args []byte) (any, error)

func ask[A any](fn func(context.Context, *manager.FileSnapshotManager, *A) (any, error)) asking {
	return func(ctx context.Context, m *manager.FileSnapshotManager, args []byte) (any, error) {
		a := new(A)
		if err := verbs.DecodePart("arguments", args, a); err != nil {
			return nil, err
		}
		return fn(ctx, m, a)
	}
}

const bisects = "a program runs commands of its own"

// alone are what one face has, and others do not need, with the reason.
var alone = map[string]map[string]string{
	"method": {
		"Close": "its life", "Project": "what it was opened with", "Session": "what it was opened with",
		"StoreDir": "what it was opened with", "TryLock": "package checkpoint", "RebuildIndex": "the runtime's log",
		"OnTurnEnd": "turn_end", "OnToolsRefused": "tool_end", "OpenTurns": "hooks",
		"FinishRestore": "restore --continue, mcp's start", "Snapshot": "snapshot, snapshot_create",
		"Describe":             "log",
		"LatestSnapshotOnPath": "a name", "SnapshotAtEntry": "a name", "SnapshotAtTurn": "a name",
		"Marked": "status", "Edits": "patch log", "Sessions": "sessions", "Health": "told with a turn",
	},
	"tool": {"snapshot_create": "models have no turns: Snapshot"},
	"rpc":  {"cancel": "the connection", "ping": "the connection", "stats": "the connection", "locate": "no session"},
	"command": {
		"snapshot": "who has no turns: Snapshot", "run": "turn_start and turn_end around a program",
		"tag": "a user's own names", "export": "objects", "cat": "objects", "ls": "objects",
		"bisect run": bisects, "bisect start": bisects, "bisect good": bisects, "bisect bad": bisects,
		"bisect skip": bisects, "bisect log": bisects, "bisect reset": bisects,
		"status": "the disk", "show": "get_turn_diff, with what is known of the turn", "sessions": "all sessions",
		"serve": "a server", "rpc": "a server", "mcp": "a server", "hook claude": "turns", "hook codex": "turns",
		"hook gemini": "turns", "setup claude": "upkeep", "setup codex": "upkeep", "setup gemini": "upkeep",
		"setup opencode": "upkeep", "setup pi": "upkeep",
		"check": "upkeep", "repair": "upkeep", "prune": "upkeep", "compact": "upkeep", "forget": "upkeep",
		"adopt": "upkeep", "stores": "upkeep", "stores rm": "upkeep", "stats": "upkeep", "du": "upkeep",
		"remote init": "upkeep", "remote add": "upkeep", "remote list": "upkeep", "remote remove": "upkeep",
		"remote push": "upkeep", "remote pull": "upkeep", "remote status": "upkeep", "remote check": "upkeep",
		"remote fetch": "upkeep", "remote evict": "upkeep", "remote prune": "upkeep", "remote wait": "upkeep",
		"remote rotate": "upkeep", "remote repair": "upkeep", "remote key list": "upkeep",
		"remote key add": "upkeep", "remote key drop": "upkeep",
		"clone":       "no session here yet",
		"config edit": "settings", "config get": "settings", "config list": "settings", "config path": "settings",
		"config set": "settings",
		"version":    "itself", "man": "itself", "pick": "a terminal", "timeline": "a browser",
		"patch log":    "edits of all sessions",
		"patch locate": "no session",
	},
}

// TestFaces: whatever one face has is a verb that all have, or is listed with the
// reason why not.
func TestFaces(t *testing.T) {
	has := map[string][]string{"rpc": rpc.Commands()}
	for m := range reflect.TypeFor[*manager.FileSnapshotManager]().Methods() {
		has["method"] = append(has["method"], m.Name)
	}
	w := newWorld(t, nil)
	list, err := w.model().ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		has["tool"] = append(has["tool"], tool.Name)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		_, name, _ := strings.Cut(c.CommandPath(), " ")
		first, _, _ := strings.Cut(name, " ")
		if c.Runnable() && (!c.HasSubCommands() || name == "stores") && first != "help" && first != "completion" {
			has["command"] = append(has["command"], name)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	a := &app{getenv: func(string) string { return "" }}
	walk(a.rootCommand())

	known := map[string]map[string]string{"method": {}, "tool": {}, "rpc": {}, "command": {}}
	for _, v := range verbs.All {
		f, ok := facesOf[v.Name]
		if !ok || f.method == "" || (f.tool == "" || f.command == "") == (f.none == "") {
			t.Errorf("verb %s: facesOf has no faces, or no reason why one is missing: %+v", v.Name, f)
		}
		known["method"][f.method], known["rpc"][v.Name] = v.Name, v.Name
		known["tool"][f.tool], known["command"][f.command] = v.Name, v.Name
		if !slices.ContainsFunc(conforms, func(r conform) bool { return r.verb == v.Name }) {
			t.Errorf("verb %s: conforms has no row", v.Name)
		}
	}
	for face, list := range has {
		for _, name := range list {
			if known[face][name] == "" && alone[face][name] == "" {
				t.Errorf("%s %s: no verb has it, and no reason is given", face, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(known[face])) {
			if name != "" && !slices.Contains(list, name) {
				t.Errorf("%s %s, of verb %s, is not there", face, name, known[face][name])
			}
		}
		for name := range alone[face] {
			if !slices.Contains(list, name) || known[face][name] != "" {
				t.Errorf("%s %s is not there, or is a verb's", face, name)
			}
		}
	}
}

// A world is a directory with one turn of session s behind it, which has changed a
// and made b.
type world struct {
	*testing.T
	dir, stores string
	undoID      string // of an edit, if before made one
}

// A conform is a verb that is asked in all faces, in a world of its own each time.
// What comes of it is the same: the code, the files, and what is said.
type conform struct {
	verb   string
	args   string                                               // of the verb; $UNDO is the world's undoID
	tool   string                                               // of the tool; "": as args
	cli    string                                               // arguments of the command
	before func(w *world, m *manager.FileSnapshotManager) error // nil: nothing more
	code   string                                               // "": it is done
	exit   int                                                  // of the command, if it is not that of code
	model  string                                               // why a piece was refused: what a model is told
	after  string                                               // files; "": as before
	has    []string                                             // what each answer has
}

const asWas = "a=two b=new"

func afterRestored(w *world, m *manager.FileSnapshotManager) error {
	_, err := m.RestoreFiles(w.Context(), &manager.RestoreOptions{Target: "@~1"})
	return err
}

func afterUndone(w *world, m *manager.FileSnapshotManager) error {
	err := afterRestored(w, m)
	if err == nil {
		_, err = m.Undo(w.Context(), nil)
	}
	return err
}

// afterEdited is a change of the user's at what the turn has changed.
func afterEdited(w *world, _ *manager.FileSnapshotManager) error {
	w.write("a", "mine")
	return nil
}

// afterByHand is the turn's work taken back by hand.
func afterByHand(w *world, _ *manager.FileSnapshotManager) error {
	w.write("a", "one")
	return os.Remove(filepath.Join(w.dir, "b"))
}

// afterPart is without what the turn did to b.
func afterPart(w *world, m *manager.FileSnapshotManager) error {
	_, err := m.Revert(w.Context(), &manager.RevertOptions{Turns: []string{"0"}, Paths: []string{"b"}})
	return err
}

// afterBoth has a turn behind it that has changed a line of c, and another line that the
// user has changed since.
func afterBoth(w *world, m *manager.FileSnapshotManager) error {
	w.write("c", "1\n2\n3\n")
	_, err := m.OnTurnStart(w.Context(), nil)
	w.write("c", "one\n2\n3\n")
	if err == nil {
		_, err = m.OnTurnEnd(w.Context(), nil)
	}
	w.write("c", "one\n2\nmine\n")
	return err
}

func afterPatched(w *world, m *manager.FileSnapshotManager) error {
	r, err := m.ApplyEdits(w.Context(), &manager.EditRequest{Path: "a", Old: []byte("two"), New: []byte("2")})
	if err == nil {
		w.undoID = r.UndoID
	}
	return err
}

// afterBusy has a turn of another session open for as long as the test runs.
func afterBusy(w *world, _ *manager.FileSnapshotManager) error {
	m := w.open("other")
	w.Cleanup(func() { m.Close() })
	_, err := m.OnTurnStart(w.Context(), nil)
	return err
}

func afterPruned(w *world, m *manager.FileSnapshotManager) error {
	for _, content := range []string{"three", "two"} {
		w.write("a", content)
		if _, err := m.Snapshot(w.Context(), nil); err != nil {
			return err
		}
	}
	p, err := retain.PlanPrune(w.Context(), inside.Store(m), &retain.Retention{KeepLast: 1, Alone: true})
	if err == nil {
		_, err = p.Do(w.Context())
	}
	return err
}

// afterIdle has a turn behind it that changed nothing.
func afterIdle(w *world, m *manager.FileSnapshotManager) error {
	_, err := m.OnTurnStart(w.Context(), nil)
	if err == nil {
		_, err = m.OnTurnEnd(w.Context(), nil)
	}
	return err
}

// afterOther has a turn of another session behind it, whose entry is undoID.
func afterOther(w *world, _ *manager.FileSnapshotManager) error {
	m := w.open("other")
	defer m.Close()
	_, err := m.OnTurnStart(w.Context(), nil)
	w.write("c", "theirs")
	if err == nil {
		var r *manager.Result
		if r, err = m.OnTurnEnd(w.Context(), nil); err == nil {
			w.undoID = r.EntryID
		}
	}
	return err
}

// afterLocked holds the lock under which no turn begins.
func afterLocked(w *world, _ *manager.FileSnapshotManager) error {
	m := w.open("other")
	unlock, err := m.TryLock(manager.NoTurns)
	w.Cleanup(func() {
		unlock()
		m.Close()
	})
	return err
}

func afterBinary(w *world, _ *manager.FileSnapshotManager) error {
	w.write("a", "two\x00")
	return nil
}

func afterReadOnly(w *world, _ *manager.FileSnapshotManager) error {
	return os.Chmod(filepath.Join(w.dir, "a"), 0o444)
}

// rare are the kinds of errors that no row ends with, and why.
var rare = map[string]string{
	"bad_command": "of RPC", "duplicate_id": "of RPC", "too_many": "of RPC", "too_long": "of RPC",
	"no_session": "of RPC", "stalled": "it takes 90 s", "internal": "a mistake", "changed": "of MCP",
	"several_turns": "of MCP", "not_all": "find says it in its answer",
	"other_plan": "of RPC and HTTP: TestPlan of package verbs",
	"cancelled":  "by who asks", "timed_out": "by who asks", "budget": "large files",
	"too_broad": "the user's home", "moved": "opening", "not_moved": "adopt", "has_history": "adopt",
	"other_project": "opening", "other_user": "opening", "busy": "prune", "plan_stale": "prune",
	"no_space": "a full disk", "damaged": "a damaged store", "forgotten": "forget",
	"promised":     "a remote: remote_lazy.txtar",
	"no_snapshots": "who opens it begins one", "edit_cut_off": "a crash", "cut_off": "a crash",
	"ambiguous": "luck", "head_changed": "a repository", "nothing_to_forget": "forget",
	"entry_exists": "logs", "unknown_entry": "logs", "bad_log": "logs", "corrupt": "a damaged store",
	"not_found": "a damaged store", "format": "another version", "no_locks": "another file system",
	"not_exist": "races", "exists": "races", "permission": "modes", "closed": "the end",
}

// tooLong is a name that no file can have.
var tooLong = strings.Repeat("n", 300)

// conforms has each verb, and each error that one can be made to end with.
var conforms = []conform{
	{verb: "initialize", args: `{}`},
	{verb: "turn_start", args: `{}`},
	{verb: "turn_start", args: `{}`, before: afterLocked, code: "locked"},
	{verb: "turn_end", args: `{}`},
	{verb: "tool_start", args: `{"tool":"bash"}`, code: "no_turn"},
	{verb: "tool_end", args: `{"tool":"bash"}`, code: "no_turn"},
	{verb: "tool_end", args: `{"tool":1}`, code: "bad_request"},
	{verb: "told", args: `{"snapshotSeq":99,"entryId":"x"}`, code: "unknown"},
	{verb: "claim", args: `{"paths":["a"]}`, code: "no_turn"},
	{verb: "claim", args: `{"paths":["a","\ud800"]}`, code: "bad_request"},
	{verb: "note_read", args: `{"path":"a"}`},
	{verb: "note_read", args: `{"path":"../a"}`, code: "outside"},
	{verb: "note_read", args: `{"path":"a\u0000b"}`, code: "bad_request"},
	{verb: "note_read", args: `{"path":"` + tooLong + `"}`, code: "bad_request"},
	{verb: "restore_preview", args: `{"target":"start","paths":["` + tooLong + `"]}`, cli: "-n start -- " + tooLong,
		code: "bad_request"},
	{verb: "hunks", args: `{"turns":["@"],"paths":["a"],"context":9223372036854775807}`,
		tool: `{"turn":"@","paths":["a"]}`,
		cli:  "--hunks --turn @ -- a", has: []string{"+two"}},
	{verb: "get_modified_files", args: `{}`, has: []string{"a", "modified", "b", "added"}},
	{verb: "get_modified_files", args: `{"from":"turn:9"}`, code: "unknown"},
	{verb: "get_file_diff", args: `{"path":"a"}`, cli: "start @ -- a", has: []string{"-one", "+two"}},
	{verb: "get_file_diff", args: `{"path":"../a"}`, cli: "start @ -- ../a", code: "outside"},
	{verb: "get_file_diff", args: `{"path":"a","from":"dead"}`, cli: "dead @ -- a", code: "unknown"},
	{verb: "get_turn_diff", args: `{"rev":"@"}`, tool: `{"turn":"@"}`, cli: "--turn @", has: []string{"a", "b"}},
	{verb: "get_turn_diff", args: `{"rev":"turn:9"}`, tool: `{"turn":"turn:9"}`, cli: "--turn turn:9", code: "unknown"},
	{verb: "get_turn_diff", args: `{"rev":"turn:0"}`, tool: `{"turn":"turn:0"}`, cli: "--turn turn:0",
		before: afterPruned, code: "pruned"},
	{verb: "hunks", args: `{"turns":["@"]}`, tool: `{"turn":"@"}`, cli: "--hunks --turn @", has: []string{"b", "-one", "+two", "clean", "whole"}},
	{verb: "hunks", args: `{"turns":["@"]}`, tool: `{"turn":"@"}`, cli: "--hunks --turn @", before: afterEdited, has: []string{"a", "conflict"}},
	{verb: "hunks", args: `{"from":"start","to":"@","paths":["a"]}`, cli: "--hunks start @ -- a", has: []string{"+two"}},
	{verb: "hunks", args: `{"lines":{"path":"a","start":1,"end":1}}`, cli: "--hunks --turn @ -- a",
		has: []string{"-one", "+two", "clean"}},
	{verb: "hunks", args: `{"turns":["turn:9"]}`, tool: `{"turn":"turn:9"}`, cli: "--hunks --turn turn:9", code: "unknown"},
	{verb: "hunks", args: `{"turns":["@"],"paths":["../a"]}`, tool: `{"turn":"@","paths":["../a"]}`,
		cli: "--hunks --turn @ -- ../a", code: "outside"},
	{verb: "hunks", args: `{"turns":["turn:0"]}`, tool: `{"turn":"turn:0"}`, cli: "--hunks --turn turn:0", before: afterPruned, code: "pruned"},
	{verb: "get_snapshots", args: `{}`, cli: "--json", has: []string{"step", "start"}},
	{verb: "whereis", args: `{"path":"b"}`, cli: "--json b", has: []string{`"turnIndex":0`, `"owner":"turn"`}},
	{verb: "whereis", args: `{"path":"a"}`, cli: "--json a", before: afterEdited, has: []string{`"turnIndex":`}},
	{verb: "whereis", args: `{"path":"none"}`, cli: "none", code: "unknown"},
	{verb: "whereis", args: `{"path":"../a"}`, cli: "../a", code: "outside"},
	{verb: "whereis", args: `{"path":"b"}`, cli: "b", before: afterPruned, code: "pruned"},
	{verb: "blame", args: `{"path":"b"}`, cli: "--json b", has: []string{"turn", "1"}},
	{verb: "blame", args: `{"path":"b","rev":"@","start":1,"end":1}`, cli: "--json -L 1,1 @ b",
		has: []string{"turn", "1"}},
	{verb: "blame", args: `{"path":"none"}`, cli: "none", code: "unknown"},
	{verb: "blame", args: `{"path":"b","rev":"turn:9"}`, cli: "turn:9 b", code: "unknown"},
	{verb: "blame", args: `{"path":"b","start":99}`, cli: "-L 99 b", code: "unknown"},
	{verb: "blame", args: `{"path":"../a"}`, cli: "../a", code: "outside"},
	{verb: "find", args: `{"text":"new"}`, cli: "--json new", has: []string{`"new"`, "b"}},
	{verb: "find", args: `{"text":"^one$","regexp":true,"paths":["a"]}`, cli: "--json -e ^one$ -- a",
		has: []string{`"one"`, "a"}},
	{verb: "find", args: `{"text":"a(","regexp":true}`, cli: "-e a(", code: "bad_pattern"},
	{verb: "find", args: `{"text":"x","paths":["../a"]}`, cli: "x -- ../a", code: "outside"},
	{verb: "find", args: `{"text":"x","since":"turn:9"}`, cli: "x --since turn:9", code: "unknown"},
	{verb: "get_coverage", args: `{"rev":"@"}`, cli: "@"},
	{verb: "get_coverage", args: `{"rev":"turn:9"}`, cli: "turn:9", code: "unknown"},
	{verb: "restore_preview", args: `{"target":"@~1"}`, cli: "-n @~1", has: []string{"a", "b"}},
	{verb: "restore_preview", args: `{"target":"x"}`, cli: "-n x", code: "unknown"},
	{verb: "restore", args: `{"target":"@~1"}`, cli: "@~1", after: "a=one", has: []string{"a", "b"}},
	{verb: "restore", args: `{"target":"start","paths":["a"]}`, cli: "start a", after: "a=one b=new"},
	{verb: "restore", args: `{"target":"@~1","paths":["` + "\xff" + `"]}`, code: "bad_request"},
	{verb: "restore", args: `{"target":"@~1","onDirty":"ABORT"}`, cli: "@~1 --on-dirty ABORT", code: "bad_request"},
	{verb: "restore", args: `{"target":"@~1","onDirty":"abort"}`, cli: "@~1 --on-dirty abort",
		before: afterEdited, exit: exitRefused, after: "a=mine b=new"},
	{verb: "restore", args: `{"target":"@~1"}`, cli: "@~1", before: afterEdited, exit: exitPart, after: "a=mine"},
	{verb: "restore", args: `{"target":"@~1","onDirty":"overwrite"}`, cli: "@~1 --on-dirty overwrite",
		before: afterEdited, after: "a=one"},
	{verb: "restore", args: `{"target":"@~1"}`, cli: "@~1", before: afterBoth, after: asWas + " c=1 2 mine",
		has: []string{"c", "merged"}},
	{verb: "restore", args: `{"target":"@~1","onDirty":"skip"}`, cli: "@~1 --on-dirty skip", before: afterBoth,
		exit: exitPart},
	{verb: "restore", args: `{"target":"@~1","paths":["c"]}`, cli: "@~1 c", before: afterBoth, exit: exitPart},
	{verb: "restore", args: `{"target":"@~1"}`, cli: "@~1", before: afterBusy, code: "turn_open"},
	{verb: "restore", args: `{"target":"@~1","force":true}`, cli: "@~1 --force", before: afterBusy, after: "a=one"},
	{verb: "restore", args: `{"target":"@","paths":["x["]}`, cli: "@ x[", code: "bad_pattern"},
	{verb: "restore", args: `{"target":"@","paths":["../x"]}`, cli: "@ ../x", code: "outside"},
	{verb: "restore", args: `{"target":"turn:0"}`, cli: "turn:0", before: afterPruned, code: "pruned"},
	{verb: "restore", args: `{"target":"@~1"}`, cli: "@~1", before: afterIdle, code: "changed_nothing"},
	{verb: "restore", args: `{"target":"$UNDO"}`, cli: "$UNDO", before: afterOther, code: "other_session"},
	{verb: "revert_preview", args: `{"turns":["turn:0"]}`, cli: "-n turn:0", has: []string{"a", "b"}},
	{verb: "revert_preview", args: `{"turns":["turn:0"]}`, cli: "turn:0", exit: exitRefused, has: []string{"a", "b"}},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", after: "a=one", has: []string{"a", "b"}},
	{verb: "revert", args: `{"turns":["0"],"paths":["b"]}`, cli: "-y 0 -- b", after: "a=two"},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterBoth, after: "a=one c=one 2 mine"},
	{verb: "revert", args: `{"turns":["turn:1"]}`, cli: "-y turn:1", before: afterBoth, after: asWas + " c=1 2 mine",
		has: []string{"c", "merged"}},
	{verb: "revert", args: `{"turns":["turn:0..turn:1"]}`, cli: "-y turn:0..turn:1", before: afterBoth,
		after: "a=one c=1 2 mine", has: []string{"merged"}},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterEdited, exit: exitPart,
		after: "a=mine", has: []string{"conflict"}},
	{verb: "revert", args: `{"turns":["turn:0"],"onDirty":"skip"}`, cli: "-y turn:0 --on-dirty skip", before: afterEdited,
		exit: exitPart, after: "a=mine"},
	{verb: "revert", args: `{"turns":["turn:0"],"onDirty":"abort"}`, cli: "-y turn:0 --on-dirty abort",
		before: afterEdited, exit: exitRefused},
	{verb: "revert", args: `{"turns":["turn:0"],"onConflict":"ours"}`, cli: "-y turn:0 --on-conflict ours",
		code: "bad_request"},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterRestored, code: "nothing"},
	{verb: "revert", args: `{"turns":["turn:0"],"paths":["b"]}`, cli: "-y turn:0 -- b", before: afterPart,
		code: "nothing", after: "a=two"},
	{verb: "revert_preview", args: `{"turns":["turn:0"]}`, cli: "-n turn:0", before: afterByHand, code: "nothing",
		after: "a=one"},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterByHand, code: "nothing", after: "a=one"},
	{verb: "revert", args: `{"turns":["turn:1"]}`, cli: "-y turn:1", before: afterIdle, code: "changed_nothing"},
	{verb: "revert", args: `{"turns":["turn:9"]}`, cli: "-y turn:9", code: "unknown"},
	{verb: "revert", args: `{"turns":["turn:0"],"paths":["c"]}`, cli: "-y turn:0 -- c", code: "unknown"},
	{verb: "revert", args: `{"turns":["turn:0"],"paths":["../c"]}`, cli: "-y turn:0 -- ../c", code: "outside"},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterPruned, code: "pruned"},
	{verb: "revert", args: `{"turns":["$UNDO"]}`, cli: "-y $UNDO", before: afterOther, code: "other_session"},
	{verb: "revert", args: `{"turns":["turn:0"]}`, cli: "-y turn:0", before: afterBusy, code: "turn_open"},
	{verb: "revert", args: `{"turns":["turn:0"],"force":true}`, cli: "-y turn:0 --force", before: afterBusy,
		after: "a=one"},
	{verb: "undo", args: `{}`, cli: "", before: afterRestored, after: asWas},
	{verb: "undo", args: `{}`, cli: "", code: "nothing"},
	{verb: "undo", args: `{"onDirty":"ABORT"}`, cli: "--on-dirty ABORT",
		before: afterRestored, code: "bad_request", after: "a=one"},
	{verb: "undo", args: `{"preview":true}`, cli: "-n", before: afterRestored, after: "a=one", has: []string{"a", "b"}},
	{verb: "redo", args: `{}`, cli: "", before: afterUndone, after: "a=one"},
	{verb: "redo", args: `{}`, cli: "", before: afterRestored, code: "nothing", after: "a=one"},
	{verb: "navigate_tree", args: `{"target":"nowhere"}`, cli: "nowhere", code: "unknown"},
	{verb: "apply_patch", args: `{"path":"a","old":"two","new":"2"}`,
		cli: "--path a --old two --new 2", after: "a=2 b=new", has: []string{"a"}},
	{verb: "apply_patch", args: `{"path":"a","old":"x","new":"2"}`, cli: "--path a --old x --new 2", code: "refused"},
	{verb: "apply_patch", args: `{"path":"../a","old":"x","new":"2"}`,
		cli: "--path ../a --old x --new 2", code: "refused",
		exit: exitUsage, model: "outside"},
	{verb: "apply_patch", args: `{"path":"a","old":"two","new":"2","expected":{"a":"00"}}`,
		cli: "--path a --old two --new 2 --expected-hash 00", code: "refused", model: "stale"},
	{verb: "apply_patch", args: `{"path":"a","old":"two","new":"2"}`, cli: "--path a --old two --new 2",
		before: afterBinary, code: "refused", model: "not_text"},
	{verb: "apply_patch", args: `{"path":"a","old":"two","new":"2"}`, cli: "--path a --old two --new 2",
		before: afterReadOnly, code: "refused", model: "read_only"},
	{verb: "apply_patch", args: `{"format":"v4a","patch":"*** Begin"}`, cli: "--format v4a $FILE", code: "bad_patch"},
	{verb: "apply_patch", args: `{}`, code: "bad_request", cli: "--old x"},
	{verb: "undo_patch", args: `{"undoId":"$UNDO"}`, cli: "$UNDO", before: afterPatched, after: asWas},
	{verb: "undo_patch", args: `{"undoId":"none"}`, cli: "none", code: "unknown"},
	{verb: "undo_patch", args: `{"undoId":"$UNDO"}`, cli: "$UNDO",
		before: func(w *world, m *manager.FileSnapshotManager) error {
			return errors.Join(afterPatched(w, m), afterEdited(w, m))
		}, code: "stale", after: "a=mine b=new"},
}

func newWorld(t *testing.T, before func(*world, *manager.FileSnapshotManager) error) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), stores: t.TempDir()}
	w.write("a", "one")
	m := w.open("s")
	defer m.Close()
	_, err := m.OnTurnStart(t.Context(), nil)
	w.write("a", "two")
	w.write("b", "new")
	if err == nil {
		_, err = m.OnTurnEnd(t.Context(), nil)
	}
	if err == nil && before != nil {
		err = before(w, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) open(session string) *manager.FileSnapshotManager {
	w.Helper()
	m, err := manager.Open(w.Context(), w.dir, &manager.Options{StoreRoot: w.stores, Session: session,
		OnDirty: rollback.Merge}) // as the other faces
	if err == nil {
		_, err = m.Initialize(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

// files are all, with what they hold.
func (w *world) files() string {
	w.Helper()
	list, err := os.ReadDir(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, e.Name()+"="+strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", " "))
	}
	return strings.Join(all, " ")
}

func (w *world) engine() *manager.Engine {
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: w.stores})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { e.Close() })
	return e
}

// model returns a client of mcp.
func (w *world) model() *sdk.ClientSession {
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	done := make(chan error)
	s := &mcp.Server{Engine: w.engine(), Root: w.dir, Session: "s"}
	go func() { done <- s.Serve(context.Background(), in, out) }()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(w.Context(),
		&sdk.IOTransport{Reader: ours, Writer: theirs}, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// ways ask a verb, each in its face, and return what was said and the code of what
// went wrong. Not ok: the face has no such verb.
var ways = map[string]func(w *world, r *conform) (said, code string, ok bool){
	"Go": func(w *world, r *conform) (string, string, bool) {
		m := w.open("s")
		defer m.Close()
		answer, err := facesOf[r.verb].ask(w.Context(), m, []byte(r.args))
		r.matches(w, err)
		return tell(w, answer, err)
	},
	"RPC": func(w *world, r *conform) (string, string, bool) {
		ours, theirs := net.Pipe()
		done := make(chan error)
		s := &rpc.Server{Engine: w.engine()}
		go func() { done <- s.Serve(context.Background(), theirs, theirs) }()
		c := client.New(ours)
		defer func() { c.Close(); <-done }()
		session, _, err := c.Open(w.Context(), &client.Initialize{CWD: w.dir, SessionID: "s", OwnLog: true})
		var answer json.RawMessage
		switch {
		case err != nil:
			w.Fatal(err)
		case r.verb != "initialize":
			err = session.Call(w.Context(), r.verb, json.RawMessage(r.args), &answer)
		}
		r.matches(w, err)
		if e, ok := errors.AsType[*client.Error](err); ok {
			return string(answer), e.Code, true
		}
		return tell(w, answer, err)
	},
	"HTTP": func(w *world, r *conform) (string, string, bool) {
		e := w.engine()
		server := httptest.NewServer(httpapi.New(nil, &httpapi.Options{Token: "0123456789abcdef",
			Verb: func(ctx context.Context, name string, request json.RawMessage) (any, error) {
				return verbs.Ask(ctx, e, name, request)
			}}))
		defer server.Close()
		body := fmt.Sprintf(`{"cwd":%q,"sessionId":"s","ownLog":true,%s`, w.dir, strings.TrimPrefix(r.args, "{"))
		body = strings.Replace(body, ",}", "}", 1)
		q, err := http.NewRequest("POST", server.URL+"/v1/verbs/"+r.verb, strings.NewReader(body))
		if err != nil {
			w.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer 0123456789abcdef")
		q.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			w.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		var failed struct{ Error struct{ Code string } }
		if err = errors.Join(err, json.Unmarshal(b, &failed)); err != nil {
			w.Fatalf("%s: %v", b, err)
		}
		if want := kindOf(failed.Error.Code).Status; answer.StatusCode != want {
			w.Errorf("status %d for %q, want %d", answer.StatusCode, failed.Error.Code, want)
		}
		return string(b), failed.Error.Code, true
	},
	"MCP": func(w *world, r *conform) (string, string, bool) {
		if facesOf[r.verb].tool == "" {
			return "", "", false
		}
		call := &sdk.CallToolParams{Name: facesOf[r.verb].tool, Arguments: json.RawMessage(cmp.Or(r.tool, r.args))}
		answer, err := w.model().CallTool(w.Context(), call)
		if err != nil { // what its schema refuses
			return err.Error(), explain.BadRequest.Code, true
		}
		text := answer.Content[0].(*sdk.TextContent).Text
		if !answer.IsError {
			return text, "", true
		}
		_, rest, told := strings.Cut(text, " failed [")
		code, _, _ := strings.Cut(rest, "]")
		if !told {
			code = explain.BadRequest.Code
		}
		return text, code, true
	},
	"CLI": func(w *world, r *conform) (string, string, bool) {
		if facesOf[r.verb].command == "" {
			return "", "", false
		}
		args := []string{"--root", w.dir, "--store", w.stores, "--session", "s"}
		args = append(args, strings.Fields(facesOf[r.verb].command)...)
		file := filepath.Join(w.TempDir(), "patch")
		if err := os.WriteFile(file, []byte("*** Begin"), 0o644); err != nil {
			w.Fatal(err)
		}
		args = append(args, strings.Fields(strings.Replace(r.cli, "$FILE", file, 1))...)
		var out, said bytes.Buffer
		a := &app{args: args, cwd: w.dir, stdout: &out, stderr: &said, getenv: func(name string) string {
			return map[string]string{"HOME": w.stores, "BOO_ENGINE": "off"}[name]
		}}
		a.out = bufio.NewWriter(&out)
		code := a.run(w.Context())
		if want := cmp.Or(r.exit, kindOf(r.code).Exit); code != want {
			w.Errorf("snapctl %q: exit code %d, says %q, want %d", args, code, &said, want)
		}
		return out.String() + said.String(), r.code, true
	},
}

// matches compares what an error is by errors.Is: over RPC what the manager returns.
func (r *conform) matches(w *world, err error) {
	w.Helper()
	for _, k := range explain.Kinds {
		for _, target := range k.Errs {
			want := err != nil && (k.Code == r.code || k.Code == r.model)
			if errors.Is(err, target) != want {
				w.Errorf("the error of code %s: errors.Is %v is not %v", r.code, target, want)
			}
		}
	}
}

// kindOf returns the kind of error that a code stands for, "" for none.
func kindOf(code string) *explain.Kind {
	for _, k := range explain.Kinds {
		if k.Code == code {
			return k
		}
	}
	return &explain.Kind{Exit: exitDone, Status: http.StatusOK}
}

func tell(w *world, answer any, err error) (said, code string, ok bool) {
	if err != nil {
		return err.Error(), explain.Code(err), true
	}
	b, err := json.Marshal(answer)
	if err != nil {
		w.Fatal(err)
	}
	return string(b), "", true
}

// TestConformance: a verb does the same in all its faces, and ends with the same
// error.
func TestConformance(t *testing.T) {
	for i, r := range conforms {
		f := facesOf[r.verb]
		for _, face := range slices.Sorted(maps.Keys(ways)) {
			t.Run(fmt.Sprintf("%d %s/%s", i, r.verb, face), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, r.before)
				before, r := w.files(), r
				for _, text := range []*string{&r.args, &r.tool, &r.cli} {
					*text = strings.Replace(*text, "$UNDO", w.undoID, 1)
				}
				said, code, ok := ways[face](w, &r)
				if !ok {
					t.Skip("no such face: " + f.none)
				}
				want := r.code
				if face == "MCP" {
					want = cmp.Or(r.model, want)
				}
				if code != want {
					t.Errorf("%s: code %q, want %q: %s", r.args, code, want, said)
				}
				if got, want := w.files(), cmp.Or(r.after, before); got != want {
					t.Errorf("%s: files are %q, want %q: %s", r.args, got, want, said)
				}
				for _, part := range r.has {
					if !strings.Contains(said, part) {
						t.Errorf("%s: it says no %q: %s", r.args, part, said)
					}
				}
			})
		}
	}
}

// TestOneTable: errors are in the table of package explain, and nowhere else. A verb
// ends with each, or it is said why none does.
func TestOneTable(t *testing.T) {
	for _, k := range explain.Kinds {
		made := slices.ContainsFunc(conforms, func(r conform) bool { return k.Code == r.code || k.Code == r.model })
		if made == (rare[k.Code] != "") {
			t.Errorf("code %s: want a row of conforms, or else a reason in rare why there is none", k.Code)
		}
	}
	for _, dir := range []string{".", "internal/*", "../../client", "../../checkpoint/httpapi"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, literal := range []string{"explain.Kind{", "explain.Error{"} {
				if !strings.HasSuffix(name, "_test.go") && bytes.Contains(b, []byte(literal)) {
					t.Errorf("%s makes an %s…}: add its kind to the table", name, literal)
				}
			}
		}
	}
}
