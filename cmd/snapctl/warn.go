package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// A warner shows what the libraries warn of as lines for people, on stderr.
type warner struct{ app *app }

func (h warner) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h warner) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "snapctl: warning: %s", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			fmt.Fprintf(&b, ": %v", a.Value)
		} else {
			fmt.Fprintf(&b, " (%s %v)", a.Key, a.Value)
		}
		return true
	})
	_, err := fmt.Fprintln(h.app.stderr, b.String())
	return err
}

func (h warner) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h warner) WithGroup(string) slog.Handler      { return h }
