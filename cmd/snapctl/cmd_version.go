package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of snapctl and of the store's format",
		Args:  args(0, 0),
		RunE:  func(*cobra.Command, []string) error { return a.version() },
	}
}

// A versionAnswer is what version prints as JSON.
type versionAnswer struct {
	Version     string `json:"version"`
	GoVersion   string `json:"goVersion"`
	StoreFormat int    `json:"storeFormat"`
}

func (a *app) version() error {
	j := &versionAnswer{Version: version.String(), GoVersion: runtime.Version(), StoreFormat: cas.FormatVersion}
	if a.flags.json {
		return a.printJSON(j)
	}
	fmt.Fprintf(a.out, "snapctl %s, %s, store format %d\n", j.Version, j.GoVersion, j.StoreFormat)
	return nil
}
