package health

import (
	"os"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// What is remembered can be changed on a full disk, too, if anything is remembered.
func TestHealthFull(t *testing.T) {
	disk := vfstest.NewMem()
	disk.SetSize(1 << 20)
	if err := disk.Mkdir("tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	long := []byte(`{"v": 1, "why": "` + strings.Repeat("x", 100) + `"}` + "\n")
	if err := writeHealth(disk, long); err != nil {
		t.Fatal(err)
	}
	f, err := disk.OpenFile("others", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	free, _, err := disk.Space()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(free); err != nil {
		t.Fatal(err)
	}
	if err := layout.WriteFile(disk, "another", long); !cas.IsNoSpace(err) {
		t.Fatalf("a file on a full disk: %v", err)
	}
	if err := writeHealth(disk, []byte(`{"v": 1, "failed": 7}`)); err != nil {
		t.Fatal(err)
	}
	if h := readFS(disk); h.Failed != 7 || h.Why != "" {
		t.Errorf("on a full disk: %+v", h)
	}
}
