// Package integrations holds what agents run themselves: 'snapctl setup' writes it where
// they look for it.
package integrations

import "embed"

// Files are the extension of pi, and the plugin and the commands of opencode, each in a
// directory of its own.
//
//go:embed pi/*.ts opencode/*.ts opencode/command/*.md
var Files embed.FS
