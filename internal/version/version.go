// Package version says which release a program of this module is of.
package version

import (
	"runtime/debug"
	"strings"
)

// release is set by the linker when a release is made: see internal/release.
var release string

// String returns the release, as v1.2.0, or what Go knows of the sources.
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// Install returns the command that installs a program of the same release from its sources.
func Install(program string) string {
	at := "latest"
	if v := String(); strings.HasPrefix(v, "v") && !strings.ContainsAny(v, "-+") {
		at = v
	}
	return "go install github.com/boocode/filestore/cmd/" + program + "@" + at
}
