// Command snapctl-checkpoints has the drivers of SQLite and PostgreSQL for
// 'snapctl serve --http --db', which starts it: see package dbpipe. It is a program of its own
// because the drivers are larger than all of snapctl.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/boocode/filestore/internal/dbpipe"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/version"
)

const usage = `snapctl-checkpoints has the drivers of SQLite and PostgreSQL for 'snapctl serve --http --db',
which starts it. There is nothing to do with it by hand.

Usage:
  snapctl-checkpoints pipe       answer requests of snapctl on stdin
  snapctl-checkpoints version    print the version
`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, errs io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "pipe":
		// What ends snapctl is often sent to both. It has requests come to an end first, and
		// then ends the input.
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
		if err := dbpipe.Serve(in, out); err != nil {
			fmt.Fprintf(errs, "snapctl-checkpoints: %v\n", err)
			return explain.Environment
		}
	case len(args) == 1 && (args[0] == "version" || args[0] == "--version"):
		fmt.Fprintln(out, "snapctl-checkpoints", version.String())
	case len(args) == 1 && (args[0] == "help" || args[0] == "--help" || args[0] == "-h"):
		io.WriteString(out, usage)
	default:
		io.WriteString(errs, usage)
		return explain.Usage
	}
	return explain.Done
}
