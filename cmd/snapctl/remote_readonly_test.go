package main

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boocode/filestore/internal/remote/remotetest"
)

// TestReadOnly clones from a bucket in which this machine may write nothing: a lazy clone warns that nobody keeps for
// it what it leaves there, and works; giving up what is here for what is there is refused, and changes nothing.
func TestReadOnly(t *testing.T) {
	server := remotetest.Versity(t)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = at.Scheme, at.Host, r.In.Host // which is signed
	}}
	var refused atomic.Int64
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte("<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"))
			return
		}
		to.ServeHTTP(w, r)
	}))
	defer door.Close()

	link := "s3://" + server.Bucket + "/x"
	alice := &remoteUser{t, t.TempDir(), server.Env()}
	dir := filepath.Join(alice.home, "p")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for _, what := range []string{"one", "two", "three"} {
		text := make([]byte, 3<<20)
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		for name, text := range map[string][]byte{"big": text, "more": text[:2<<20]} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		alice.must(dir, "snapshot", "--session", "s1", "-m", what)
	}
	alice.must(dir, "remote", "init", link, "--plain")
	alice.must(dir, "remote", "add", "team", link)
	alice.must(dir, "remote", "push")

	bob := &remoteUser{t, t.TempDir(), append(server.Env(), "AWS_ENDPOINT_URL="+door.URL)}
	const warning = "what stays at origin may be pruned there: this machine may not write there, and say so"
	whole := filepath.Join(bob.home, "whole")
	if said := bob.must(bob.home, "clone", link, whole); strings.Contains(said, "may not write") || refused.Load() > 0 {
		t.Errorf("a whole clone has asked to write %d times, and says %s", refused.Load(), said)
	}
	lazy := filepath.Join(bob.home, "lazy")
	if said := bob.must(bob.home, "clone", link, lazy, "--lazy"); !strings.Contains(said, warning) {
		t.Errorf("a lazy clone says %s, want %s", said, warning)
	}
	code, said := bob.run(whole, "remote", "evict")
	if code != exitEnvironment || !strings.Contains(said, "AccessDenied") {
		t.Errorf("evict: code %d, %s", code, said)
	}
	bob.must(whole, "cat", "@~2", "big") // nothing of it went
	bob.must(lazy, "cat", "@~2", "big")
}
