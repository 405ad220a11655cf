package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
	"github.com/boocode/filestore/internal/wire"
)

// mcpSession is what snapshots belong to that models take, unless a session is
// named.
const mcpSession = "mcp"

func (a *app) mcpCommand() *cobra.Command {
	var allowBroad bool
	var limits limitFlags
	c := &cobra.Command{Use: "mcp", Short: "Serve the directory to a model, by MCP on stdin", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context(), allowBroad, &limits) }}
	c.Flags().BoolVar(&allowBroad, "allow-broad", false, "allow a home directory, a whole disk and the like")
	limits.addFileSize(c.Flags())
	limits.addTotals(c.Flags())
	return c
}

func (a *app) serveMCP(ctx context.Context, allowBroad bool, limits *limitFlags) error {
	switch {
	case a.flags.sessionFile != "":
		return &failure{code: exitUsage,
			err: errors.New("--session-file is only read: it goes with commands that look")}
	case a.stdin == nil:
		return errors.New("no stdin")
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
	s := &mcp.Server{Engine: e, Root: root, Session: cmp.Or(a.flags.session, mcpSession), Version: version(),
		AllowBroad: allowBroad, Limits: limits.limits(), Logger: a.log}
	err = s.Serve(ctx, &sdk.IOTransport{Reader: a.stdin, Writer: keepOpen{a.stdout}, MaxLineLength: wire.MaxLine})
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return errors.Join(err, e.Close())
}

// keepOpen is a writer that stays open.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
