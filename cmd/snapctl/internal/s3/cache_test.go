package s3

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

// A cachingProxy keeps packs as nginx does: it asks for the whole of what it has not, without a Range and by the
// name of the host that was asked, and answers parts by itself. All else goes through it.
type cachingProxy struct {
	*faultProxy

	mu    sync.Mutex // guards the rest
	kept  map[string][]byte
	asked map[string]int
}

func (p *cachingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	isPack := r.Method == "GET" && strings.Contains(r.URL.Path, "/data/")
	p.mu.Lock()
	defer p.mu.Unlock()
	content, ok := p.kept[r.URL.Path]
	if !ok {
		whole := r.Clone(r.Context())
		if isPack {
			whole.Header.Del("Range")
		}
		resp, err := p.forward(whole, body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		p.asked[r.URL.Path]++
		content, err = io.ReadAll(resp.Body)
		if !isPack || err != nil || resp.StatusCode != http.StatusOK {
			for k, v := range resp.Header {
				w.Header()[k] = v
			}
			w.WriteHeader(resp.StatusCode)
			w.Write(content)
			return
		}
		p.kept[r.URL.Path] = content
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// TestCacheable has a cache stand before a server: parts of packs are right, and asked for there once.
func TestCacheable(t *testing.T) {
	server := remotetest.Versity(t)
	p := &cachingProxy{faultProxy: &faultProxy{to: server.URL}, kept: make(map[string][]byte),
		asked: make(map[string]int)}
	proxy := httptest.NewServer(p)
	defer proxy.Close()
	b, err := New(Config{Endpoint: proxy.URL, Bucket: server.Bucket, Prefix: "cached",
		Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
	if err != nil {
		t.Fatal(err)
	}
	const pack, entry, text = "data/00000000/a/b", "log/a/b/00000000", "what is in the pack"
	for _, key := range []string{pack, entry} {
		if _, err := b.Get(t.Context(), key, 0, -1); err == nil || remote.IsUnsure(err) {
			t.Errorf("%s, before it is there: %v", key, err)
		}
		if err := b.Create(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	clear(p.asked)
	for range 2 {
		for _, at := range [][2]int64{{5, 2}, {0, 4}, {0, -1}, {12, 100}, {3, -1}} { // a part is asked for first
			want := text[at[0]:]
			if n := at[1]; n >= 0 {
				want = want[:min(n, int64(len(want)))]
			}
			for _, key := range []string{pack, entry} {
				got, err := b.Get(t.Context(), key, at[0], at[1])
				if err != nil || string(got) != want {
					t.Errorf("%d bytes of %s from %d on: %q, want %q: %v", at[1], key, at[0], got, want, err)
				}
			}
		}
	}
	if n := p.asked["/"+server.Bucket+"/cached/"+pack]; n != 1 {
		t.Errorf("the pack was asked for %d times there", n)
	}
}
