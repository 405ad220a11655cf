package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// A counter stands before a bucket, and counts what goes through.
type counter struct {
	*http.Server
	url string

	mu       sync.Mutex // guards the rest
	requests map[string]int
	up, down int64
}

// count begins to count what goes to a server.
func count(endpoint string) (*counter, error) {
	to, err := url.Parse(endpoint)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL %q: want the URL of a server, as in http://localhost:7070", endpoint)
	}
	c := &counter{requests: make(map[string]int)}
	proxy := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
		r.Out.Host = r.In.Host // by which the request was signed
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.url = "http://" + l.Addr().String()
	c.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &countingBody{r.Body, c}
		proxy.ServeHTTP(&countingWriter{w, c}, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.URL.Query().Has("list-type") { // which costs as much as a PUT
			c.requests["LIST"]++
		} else {
			c.requests[r.Method]++
		}
	})}
	go c.Serve(l)
	return c, nil
}

func (c *counter) add(up, down int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.down = c.up+int64(up), c.down+int64(down)
}

// say prints what was counted since it was called last. Of a directory nothing is.
func (c *counter) say(what string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf("%s: %d PUT, %d LIST, %d GET, %d HEAD, %d DELETE; %d KB up, %d KB down\n", what, c.requests["PUT"],
		c.requests["LIST"], c.requests["GET"], c.requests["HEAD"], c.requests["DELETE"], c.up/1000, c.down/1000)
	c.requests, c.up, c.down = make(map[string]int), 0, 0
}

type countingBody struct {
	io.ReadCloser
	c *counter
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.add(n, 0)
	return n, err
}

type countingWriter struct {
	http.ResponseWriter
	c *counter
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.c.add(0, n)
	return n, err
}
