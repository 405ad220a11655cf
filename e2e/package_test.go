package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPackage: what npm packs of the plugin for opencode records turns in a project whose
// settings name it, and nothing else of ours is there.
func TestPackage(t *testing.T) {
	needsNPM(t)
	i := slices.IndexFunc(makers, func(m *maker) bool { return m.name == "opencode" })
	a := newActor(t, makers[i])
	a.snapctl("setup", "opencode", "--remove", "--yes")
	dir := filepath.Join(t.TempDir(), "integrations")
	if err := os.CopyFS(dir, os.DirFS("../integrations")); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(dir, "opencode")
	if err := run(plugin, "npm", "install", "--no-audit", "--no-fund"); err != nil {
		t.Fatal(err)
	}
	if err := run(plugin, "npm", "pack"); err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob(filepath.Join(plugin, "opencode-filestore-*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("npm pack: %v, %v", packed, err)
	}
	a.write("opencode.json", `{"$schema":"https://opencode.ai/config.json","plugin":["opencode-filestore@file:`+packed[0]+`"]}`)
	s := &scene{actor: a}
	s.begin()
	s.turn(fresh, "write a.txt a ;; bash echo b > b.txt ;; fin")
	s.write("own.txt", "mine\n")
	s.turn(goesOn, "bash rm a.txt ;; fin")
	s.check(s.session())
	s.snapctl("restore", "-y", "@~2")
	s.has("a.txt", "-", "b.txt", "-", "own.txt", "mine\n")
}
