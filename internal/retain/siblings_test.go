package retain

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
)

// A look at a thousand stores is bounded, and the next one goes on behind it.
func TestSiblingsInTurn(t *testing.T) {
	stores, base := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range maxSiblings + 10 {
		dir := filepath.Join(stores, fmt.Sprintf("%032x", i))
		b, err := json.Marshal(map[string]any{"format": cas.FormatVersion, "id": fmt.Sprintf("%032x", i),
			"hash": "blake3",
			"root": []byte(filepath.Join(base, "none"))})
		if err == nil {
			err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "FORMAT"), b, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	marks := func() (s siblings) {
		t.Helper()
		keep, log := &Retention{KeepDeleted: time.Hour}, slog.New(slog.DiscardHandler)
		if err := lookAtSiblings(t.Context(), stores, keep, time.Now(), log); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(stores, siblingsName))
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	begun := time.Now()
	first := marks()
	t.Logf("%d stores in %v", maxSiblings, time.Since(begun))
	if len(first.Gone) != maxSiblings || first.Next != fmt.Sprintf("%032x", maxSiblings) {
		t.Errorf("first look: %d marks, next %q", len(first.Gone), first.Next)
	}
	if second := marks(); len(second.Gone) != maxSiblings+10 {
		t.Errorf("second look: %d marks", len(second.Gone))
	}
}

// TestSiblingsLink has others have put a link where what is remembered is written, or will be: no file to which it
// leads is changed.
func TestSiblingsLink(t *testing.T) {
	stores, precious := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{siblingsName, siblingsName + ".new"} {
		if err := os.Symlink(precious, filepath.Join(stores, name)); err != nil {
			t.Skip("SKIPPED: no links here:", err)
		}
	}
	marks := siblings{Next: "a", Gone: map[string]time.Time{}}
	if err := marks.write(stores); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "precious" {
		t.Errorf("the file that a link leads to has %q, %v", b, err)
	}
	if got := readSiblings(stores); got.Next != "a" {
		t.Errorf("what was written is not read: %v", got)
	}
}
