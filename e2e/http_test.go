package e2e

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/boocode/filestore/checkpoint"
	"github.com/boocode/filestore/manager"
)

// useHTTP runs two turns with the runtime of the page, a restore over a file of the
// user's, and its undo.
const useHTTP = `
import * as runtime from "./runtime.mjs"
import { readFileSync, writeFileSync } from "node:fs"

const project = process.argv[2]
const file = project + "/file"
const serve = await runtime.start(project, [])
const files = await runtime.open(serve, project, "chat")
for (const n of ["1", "2"])
	await runtime.turn(serve, files, { session: "s", chat: "chat", worktree: "w", message: "m" + n, label: "turn " + n }, () => writeFileSync(file, n))
const { checkpoints } = await runtime.http(serve, "GET", "/api/sessions/s/checkpoints")
console.log(checkpoints.map((c) => c.label).join(), readFileSync(file, "utf8"))
writeFileSync(file, "the user's")
const refused = await runtime.restore(serve, "s", checkpoints[1].id, () => false).catch((e) => e)
console.log(refused.code, readFileSync(file, "utf8"))
const result = await runtime.restore(serve, "s", checkpoints[1].id, (list) => list.join() === "file")
console.log(result.messages_deleted, readFileSync(file, "utf8"))
const undone = await runtime.undo(serve, "s", result.restore_id)
console.log(undone.messages_restored, readFileSync(file, "utf8"))
files.close()
serve.engine.kill()
`

// TestHTTP runs the runtime that docs/reference/http.md shows.
func TestHTTP(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("SKIPPED: node is not installed")
	}
	dir, project, home := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"snapctl", "snapctl-checkpoints"} {
		if _, err := build(name); err != nil {
			t.Fatal(err)
		}
	}
	// The runtime's own rows come from here: node may have no driver.
	stores := filepath.Join(home, ".boo", "file-store")
	if err := os.MkdirAll(stores, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(stores, "checkpoints.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	none := func(context.Context, string, string) (*manager.FileSnapshotManager, func() error, error) {
		panic("nothing is restored here")
	}
	if _, err := checkpoint.Open(t.Context(), db, checkpoint.SQLite,
		&checkpoint.Options{Manager: none, Runtime: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO chats (id) VALUES ('chat'); INSERT INTO worktrees (id, path) VALUES ('w', ?);
		INSERT INTO messages (id, chat_id, role) VALUES ('m1', 'chat', 'assistant'), ('m2', 'chat', 'assistant')`, project); err != nil {
		t.Fatal(err)
	}
	runtime := block(t, "../docs/reference/http.md", "typescript")
	for name, content := range map[string]string{"runtime.mjs": runtime, "use.mjs": useHTTP} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("node", filepath.Join(dir, "use.mjs"), project)
	cmd.Env = append(os.Environ(), "HOME="+home, "BOO_STORE=",
		"PATH="+programs.dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if want := "turn 1,turn 2 2\ndirty the user's\n1 1\n1 the user's\n"; err != nil || string(out) != want {
		t.Errorf("it prints %q, %v; want %q", out, err, want)
	}
}
