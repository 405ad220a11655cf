package manager

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

var update = flag.Bool("update", false, "rewrite testdata/json from what this version writes")

// The JSON of every shape is what runtimes know, byte for byte.
func TestGoldenJSON(t *testing.T) {
	hash := func(s string) store.ID { return object.Hash(object.Blob, []byte(s)) }
	diff := newDiff()
	diff.Add("src/new-file.ts", tree.Added)
	diff.Add("src/existing.ts", tree.Modified)
	diff.Add("link", tree.Retyped)
	diff.Add("src/old-file.ts", tree.Deleted)
	full := newDiff()
	full.Add("<a>&b\n", tree.Added)
	full.Add("na\xffme", tree.Added)
	full.Add("ignored no more", tree.Captured)
	full.Add("ignored now", tree.Uncaptured)
	text, other := "original content\n", "modified content\n"
	regular, program := "100644", "100755"
	for name, value := range map[string]any{
		"step-snapshot": &StepSnapshotData{BaselineTreeHash: new(hash("a")), SnapshotTreeHash: hash("b"),
			Diff: diff, TurnIndex: 3},
		"step-snapshot-first": &StepSnapshotData{SnapshotTreeHash: hash("a")},
		"step-snapshot-full": &StepSnapshotData{BaselineTreeHash: new(hash("a")), SnapshotTreeHash: hash("b"),
			Diff: full, TurnIndex: 4,
			RuntimeTurnIndex: new(0), SnapshotSeq: 17, Contested: diff, Interrupted: true, Partial: true},
		"modified-files": &ModifiedFiles{Files: []ModifiedFileInfo{
			{Path: "src/foo.ts", Status: "modified", TurnIndex: 2, EntryID: "snap123", NetStatus: "modified",
				LastTurnIndex: 5, LastEntryID: "snap789", Owner: OwnTurn},
			{Path: "na\ufffdme", Status: "added", TurnIndex: 3, EntryID: "snap456", NetStatus: "none", LastTurnIndex: 3,
				LastEntryID: "snap456", Owner: Contested, RenamedFrom: "src/bar.ts", PathBytes: []byte("na\xffme")},
		}, NextCursor: "bmH/bWU="},
		"modified-files-none": &ModifiedFiles{Files: []ModifiedFileInfo{}},
		"file-diff": &FileDiffInfo{Path: "src/foo.ts", OldContent: &text, NewContent: &other, OldHash: new(hash(text)),
			NewHash:     new(hash(other)),
			UnifiedDiff: "--- src/foo.ts\n+++ src/foo.ts\n@@ -1 +1 @@\n-original content\n+modified content\n",
			OldMode:     &regular, NewMode: &regular},
		"file-diff-added-binary": &FileDiffInfo{Path: "na\ufffdme", PathBytes: []byte("na\xffme"),
			NewHash: new(hash("\x00")), NewMode: &program,
			Binary: true, NewBytes: []byte{0, 0xff}, UnifiedDiff: "Binary files\n",
			UnifiedDiffBytes: []byte("Binary files\xff\n")},
		"unrevert-point": &unrevertPointData{PreRollbackTreeHash: hash("a"), RolledBackToLeaf: &text,
			RestoredFiles: []string{"src/foo.ts", "src/bar.ts"},
			DeletedFiles:  []string{}, TreeHash: hash("b"), SnapshotSeq: 18},
		"unrevert-point-full": &unrevertPointData{PreRollbackTreeHash: hash("a"), RestoredFiles: []string{},
			DeletedFiles: []string{"na\ufffdme"}, TreeHash: hash("b"),
			SnapshotSeq: 19, Undoes: 18, PathBytes: map[string]map[int][]byte{"deletedFiles": {0: []byte("na\xffme")}}},
		"restore-result": &RestoreResult{Restored: []string{"a"}, Deleted: []string{}, Skipped: []string{"b"},
			Dirty: []string{"b"},
			Items: []rollback.Item{{Path: "a", Do: rollback.Restore},
				{Path: "b", Do: rollback.Skipped, Why: "it was changed since"}}, PreRollbackTreeHash: hash("a"),
			EntryID: "urv1"},
		"restore-result-full": &RestoreResult{Restored: []string{}, Deleted: []string{"na\xffme"}, Skipped: []string{},
			Dirty: []string{}, Kept: []string{"k"}, Failed: []string{"f"},
			NotCaptured: []string{"n"}, Items: []rollback.Item{{Path: "na\xffme", Do: rollback.Delete,
				Note: "it had 2 names"}}, Moves: []rollback.Move{{From: "x", To: "y"}},
			Preview: true, Aborted: true, Differing: 3, HeadChanged: true,
			Undoes: &TakenBack{Session: "s", EntryID: "urv2", SnapshotSeq: 20, Time: time.Unix(0, 0).UTC()},
			Passed: []TakenBack{{Session: "s", SnapshotSeq: 21, Time: time.Unix(60, 0).UTC(), Left: []string{"f"}}}},
		"navigate-result": &NavigateResult{NewLeafID: &text, SummaryID: "sum1"},
	} {
		got := append(encode(value), '\n')
		file := filepath.Join("testdata/json", name+".json")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
