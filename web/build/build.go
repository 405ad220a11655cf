// Command build makes the page, which snapctl embeds, out of src. The same sources make
// the same bytes on every machine: esbuild is a Go module of a fixed version, and what it bundles is
// fixed by package-lock.json.
//
//	go run ./build           writes ../cmd/snapctl/internal/timeline/assets/index.html
//	go run ./build -check    compares, and fails where they differ
//	go run ./build -serve http://127.0.0.1:8300
//	                         serves the page, made anew at each load, in front of 'snapctl timeline --port 8300'
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	check := flag.Bool("check", false, "compare with what is there, and write nothing")
	serve := flag.String("serve", "", "serve the page in front of the server at `URL`")
	flag.Parse()
	err := run(*check, *serve)
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(check bool, serve string) error {
	_, self, _, _ := runtime.Caller(0)
	web := filepath.Dir(filepath.Dir(self))
	if serve != "" {
		return serveFor(web, serve)
	}
	page, err := Build(web)
	if err != nil {
		return err
	}
	file := filepath.Join(web, "..", "cmd", "snapctl", "internal", "timeline", "assets", "index.html")
	if !check {
		return os.WriteFile(file, page, 0o644)
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, page) {
		return fmt.Errorf("%s is not what src makes: 'make web' writes it (%v)", file, err)
	}
	return nil
}

// Build returns the page, with its style and its program in it: a browser would ask for each some ten
// milliseconds after the page.
func Build(web string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(web, "node_modules", "preact")); err != nil {
		return nil, fmt.Errorf("%w: run 'npm ci' in web first", err)
	}
	r := api.Build(api.BuildOptions{
		AbsWorkingDir:     web,
		EntryPoints:       []string{"src/main.tsx", "src/app.css"},
		EntryNames:        "[name]",
		Outdir:            "out",
		Bundle:            true,
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		Format:            api.FormatIIFE,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsNone,
		LogLevel:          api.LogLevelSilent,
	})
	if len(r.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(r.Errors, api.FormatMessagesOptions{}), ""))
	}
	page, err := os.ReadFile(filepath.Join(web, "src", "index.html"))
	for _, f := range r.OutputFiles {
		tag := map[string]string{"app.css": "style", "main.js": "script"}[filepath.Base(f.Path)]
		begin, end := fmt.Appendf(nil, "<%s>", tag), fmt.Appendf(nil, "</%s>", tag)
		if bytes.Contains(f.Contents, end[:len(end)-1]) || bytes.Contains(f.Contents, []byte("<!--")) {
			return nil, fmt.Errorf("%s: a browser would see the end of <%s> in it", f.Path, tag)
		}
		page = bytes.Replace(page, slices.Concat(begin, end), slices.Concat(begin, f.Contents, end), 1)
	}
	return page, err
}

// serveFor serves the page as src makes it, and has the rest answered by a server.
func serveFor(web, server string) error {
	to, err := url.Parse(server)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%v/ with the # and the token of the server at %s\n", l.Addr(), server)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the origin is that of the page
	}}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			proxy.ServeHTTP(w, r)
			return
		}
		page, err := Build(web)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case r.URL.Path != "/":
			http.NotFound(w, r)
		default:
			http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(page))
		}
	}))
}
