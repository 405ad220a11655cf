package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/version"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

// mcpSession is what snapshots belong to that models take, unless a session is
// named.
const mcpSession = "mcp"

func (a *app) mcpCommand() *cobra.Command {
	var allowBroad bool
	var limits limitFlags
	var tools []string
	c := &cobra.Command{Use: "mcp", Short: "Serve the directory to a model, by MCP on stdin", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serveMCP(cmd.Context(), allowBroad, &limits, tools)
		}}
	c.Flags().BoolVar(&allowBroad, "allow-broad", false, "allow a home directory, a whole disk and the like")
	c.Flags().StringSliceVar(&tools, "tools", nil,
		"serve only these `tools`, or groups: snapshots, look, restore, edit")
	limits.addFileSize(c.Flags())
	limits.addTotals(c.Flags())
	return c
}

func (a *app) serveMCP(ctx context.Context, allowBroad bool, limits *limitFlags, tools []string) error {
	switch {
	case a.flags.sessionFile != "":
		return &failure{code: exitUsage,
			err: errors.New("--session-file is only read: it goes with commands that look")}
	case a.stdin == nil:
		return errors.New("no stdin")
	}
	if dir := a.projectOf(agents.Named("claude")); a.flags.root == "" && dir != "" { // as hooks do
		a.flags.root = dir
	}
	if tools != nil {
		var err error
		if tools, err = mcp.ToolNames(tools); err != nil {
			return &failure{code: exitUsage, err: err}
		}
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	e, err := a.newEngine()
	if err != nil {
		return err
	}
	// a client that does not read is an error of writing: a restore under way is ended
	// properly
	signal.Ignore(syscall.SIGPIPE)
	s := &mcp.Server{Engine: e, Root: root, Session: cmp.Or(a.flags.session, mcpSession), Version: version.String(),
		TurnOf: turnOf, Tools: tools, AllowBroad: allowBroad, Limits: limits.limits(a), Logger: a.log}
	err = s.Serve(ctx, a.stdin, a.stdout)
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return errors.Join(err, e.Close())
}

// turnOf returns the session whose open turn has called a tool of the server, as hooks
// have told; "" if no turn is known to. call is the agent's name for the call, "" if it
// gives none. Of several sessions that run such a tool nobody knows whose the call is.
func turnOf(ctx context.Context, e *manager.Engine, m *manager.FileSnapshotManager, tool, call string) (string, error) {
	open, err := m.OpenTurns()
	if err != nil || len(open) == 0 {
		return "", err
	}
	lock, err := vfs.OS(m.StoreDir()).OpenFile(layout.Worktree(m.Project().Worktree).HookLock(), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Close()
	// That the tool begins may still be being recorded.
	if err := vfs.Lock(ctx, lock, vfs.Shared); err != nil {
		return "", fmt.Errorf("wait for events: %w", err)
	}
	var sessions []string
	for _, h := range readHookCalls(lock).Calls {
		isIt := h.Tool == call || call == "" && isCalled(h.Name, tool)
		if !isIt || !slices.Contains(open, h.Session) || slices.Contains(sessions, h.Session) {
			continue
		}
		runs, err := isRunning(ctx, e, m.Project().Root, h)
		if err != nil {
			return "", err
		}
		if runs {
			sessions = append(sessions, h.Session)
		}
	}
	switch len(sessions) {
	case 0:
		return "", nil
	case 1:
		return sessions[0], nil
	}
	slices.Sort(sessions)
	return "", explain.Errorf(explain.SeveralTurns, "sessions %s run %s at once, and nothing says whose this call is",
		strings.Join(sessions, ", "), tool)
}

// isCalled reports whether an agent calls a tool of the server so: Claude Code and Codex
// have mcp__SERVER__TOOL, Gemini CLI has mcp_SERVER_TOOL.
func isCalled(name, tool string) bool {
	return strings.HasSuffix(name, "__"+tool) || strings.HasPrefix(name, "mcp_") &&
		!strings.HasPrefix(name, "mcp__") && strings.HasSuffix(name, "_"+tool)
}

// isRunning reports whether a tool runs in its session's turn. That it has ended is not
// in the file of calls.
func isRunning(ctx context.Context, e *manager.Engine, root string, call hookCall) (bool, error) {
	m, err := manager.Open(ctx, root, &manager.Options{Engine: e, Session: call.Session})
	if err != nil {
		return false, err
	}
	defer m.Close()
	turn, err := inside.Of(m).OpenTurn()
	return turn != nil && slices.Contains(turn.Tools, call.Tool), err
}
