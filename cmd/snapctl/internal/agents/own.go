package agents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"

	"github.com/boocode/filestore/integrations"
	"github.com/boocode/filestore/internal/words"
)

// An OwnFile is one that setup writes, and that is ours alone. It says so in a line that
// has a sum of the rest, so that it is known when a user has changed it.
type OwnFile struct {
	Path string // below the directory of the agent's settings
	Text []byte
}

// Own returns the files of an agent that runs an extension of ours; nil: it has hooks.
func (a *Agent) Own() []OwnFile {
	var list []OwnFile
	for _, f := range a.own {
		var text []byte
		for _, part := range f.parts {
			b, err := fs.ReadFile(integrations.Files, part)
			if err != nil {
				panic("agents: internal error: " + err.Error())
			}
			if len(f.parts) > 1 {
				b = inline(b, part == f.parts[len(f.parts)-1])
			}
			text = append(text, b...)
		}
		list = append(list, OwnFile{f.path, a.sign(f.path, text)})
	}
	return list
}

// ownFile is made of files of ours, all but the last of which that one imports.
type ownFile struct {
	path  string
	parts []string
}

var (
	importOurs = words.Pattern(`(?m)^import .* from "\.\.?/.*";\n`)
	exported   = words.Pattern(`(?m)^export `)
)

// inline returns a source without what joins it to others that are in the same file. Who
// loads a plugin calls all that it exports: that is the last one's business.
func inline(text []byte, last bool) []byte {
	text = importOurs().ReplaceAll(text, nil)
	if !last {
		text = exported().ReplaceAll(text, nil)
	}
	return text
}

// signature is the line that says that a file is ours.
var signature = words.Pattern(`(?m)^(//|#) Written by 'snapctl setup [a-z]+', sum ([0-9a-f]{16}): .*\n`)

// sign puts the signature into a file: into a source at its beginning, into a document
// into its head.
func (a *Agent) sign(name string, text []byte) []byte {
	mark, at := "//", 0
	if path.Ext(name) == ".md" {
		mark, at = "#", len("---\n")
	}
	line := fmt.Sprintf("%s Written by 'snapctl setup %s', sum %s: --remove takes it out, unless you change it.\n",
		mark, a.Name, sum(text))
	return append([]byte(string(text[:at])+line), text[at:]...)
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:8])
}

// IsOwn reports whether a text is that of a file that setup wrote, of this version or
// another, and nobody has changed.
func IsOwn(text []byte) bool {
	m := signature().FindSubmatchIndex(text)
	return m != nil && string(text[m[4]:m[5]]) == sum(bytes.Join([][]byte{text[:m[0]], text[m[1]:]}, nil))
}

// pi is pi, 0.73 and 1.5: an extension of ours.
var pi = &Agent{
	Name: "pi", Title: "pi",
	Settings: Places{Var: "PI_CODING_AGENT_DIR", Dir: ".pi/agent", Project: ".pi"},
	own: []ownFile{
		{"extensions/filestore/engine.ts", []string{"pi/engine.ts"}},
		{"extensions/filestore/index.ts", []string{"pi/index.ts"}},
		{"extensions/filestore/text.ts", []string{"pi/text.ts"}},
	},
	Notes: []string{"if 'pi list' has it, too, as a package, take one of both out: pi runs each"},
}

// opencode is opencode, 1.18: a plugin of ours, which has to be one file, and commands.
var opencode = &Agent{
	Name: "opencode", Title: "opencode",
	Settings: Places{Base: "XDG_CONFIG_HOME", Below: "opencode", Dir: ".config/opencode", Project: ".opencode"},
	own: []ownFile{
		{"command/changes.md", []string{"opencode/command/changes.md"}},
		{"command/rewind.md", []string{"opencode/command/rewind.md"}},
		{"command/undo-files.md", []string{"opencode/command/undo-files.md"}},
		{"plugin/filestore.ts", []string{"pi/engine.ts", "pi/text.ts", "opencode/index.ts"}},
	},
	Notes: []string{`opencode takes snapshots of its own at each step, too: "snapshot": false in opencode.json ` +
		"turns them off, and with them what its /undo does to files"},
}
