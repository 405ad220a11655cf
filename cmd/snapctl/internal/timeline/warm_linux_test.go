package timeline

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/boocode/filestore/manager"
)

// readBytes returns how many bytes the process has read of files so far.
func readBytes(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("SKIPPED: the system does not say what was read:", err)
	}
	var n int64
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "rchar: "); ok {
			for _, c := range strings.TrimSpace(value) {
				n = n*10 + int64(c-'0')
			}
		}
	}
	return n
}

// TestReadAhead: a server of one directory has read its history before a page asks for the sessions.
func TestReadAhead(t *testing.T) {
	w := newWorld(t, nil)
	for range 40 {
		w.turn(strings.Repeat("a long prompt ", 250), "a", "1\n")
		w.turn(strings.Repeat("a long prompt ", 250), "a", "2\n")
	}
	first := func(root string) (read int64) {
		t.Helper()
		e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: w.stores})
		if err != nil {
			t.Fatal(err)
		}
		s := New(&Options{Engine: e, StoreRoot: w.stores, Root: root, Token: token})
		s.open.Wait() // only what it does by itself is under way
		q := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/sessions?cwd="+url.QueryEscape(w.dir), nil)
		q.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		before := readBytes(t)
		s.ServeHTTP(answer, q)
		read = readBytes(t) - before
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"turns":80`) {
			t.Errorf("sessions: %d %s", answer.Code, answer.Body)
		}
		s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		return read
	}
	all, one := first(""), first(w.dir)
	if one > all/4 {
		t.Errorf("%d bytes were read for the first answer, and %d by a server that reads nothing ahead", one, all)
	}
	t.Logf("%d bytes were read for the first answer, %d of them before it was asked for", all, all-one)
}
