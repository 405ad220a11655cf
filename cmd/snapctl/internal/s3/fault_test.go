package s3

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

var (
	turns = flag.Int("turns", 30, "turns of each of four writers through a proxy that loses and repeats requests")
	late  = flag.Duration("late", 300*time.Millisecond, "how late a copy of a request comes")
)

// A faultProxy stands before a server and does wrong, by chance: it waits, drops requests and answers, cuts answers,
// sends requests twice and long after they were answered, and gives answers of its own.
type faultProxy struct {
	to string // URL of the server

	mu     sync.Mutex // guards random, seen
	random *rand.Rand
	seen   map[string]int

	copies sync.WaitGroup // of requests, that are still to come
}

// fault returns what is to go wrong with a request.
func (p *faultProxy) fault() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := []string{"wait", "drop", "lose", "twice", "late", "cut", "409", "503"}
	n := p.random.IntN(100)
	kind := ""
	if n < 5*len(kinds) {
		kind = kinds[n/5]
	}
	p.seen[kind]++
	return kind
}

func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	kind := p.fault()
	switch kind {
	case "wait":
		time.Sleep(20 * time.Millisecond)
	case "lose": // it never comes to the server
		panic(http.ErrAbortHandler)
	case "409", "503":
		status, _ := strconv.Atoi(kind)
		w.WriteHeader(status)
		return
	case "twice":
		if resp, err := p.forward(r, body); err == nil {
			resp.Body.Close()
		}
	case "late":
		p.copies.Go(func() {
			time.Sleep(*late)
			if resp, err := p.forward(r, body); err == nil {
				resp.Body.Close()
			}
		})
	}
	resp, err := p.forward(r, body)
	if err != nil || kind == "drop" { // the server was killed, or the answer is lost
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	answer, _ := io.ReadAll(resp.Body)
	if kind == "cut" && len(answer) > 1 {
		w.Write(answer[:len(answer)/2])
		panic(http.ErrAbortHandler)
	}
	w.Write(answer)
}

// forward sends a request to the server, as it was signed for the proxy.
func (p *faultProxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), r.Method, p.to+r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = r.Header.Clone(), r.Host
	return http.DefaultTransport.RoundTrip(req)
}

// TestFaults has four writers put turns into two lines, two into each as two copies of a machine do, through a proxy
// that loses, repeats and delays requests, with the server killed once in the middle: each turn is there once, and
// its writer knows which it is.
func TestFaults(t *testing.T) {
	server := remotetest.Versity(t)
	p := &faultProxy{to: server.URL, random: rand.New(rand.NewPCG(31, 4)), seen: make(map[string]int)}
	proxy := httptest.NewServer(p)
	defer proxy.Close()
	open := func(url string) *Bucket {
		b, err := New(Config{Endpoint: url, Bucket: server.Bucket,
			Credentials: Static(Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const writers = 4
	mine := make([]map[string]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		mine[w] = make(map[string]string)
		wg.Go(func() {
			b := remote.NewSure(open(proxy.URL), time.Minute)
			next := 0
			for turn := range *turns {
				for {
					key, text := fmt.Sprintf("log/%d/%08d", w/2, next), fmt.Sprintf("turn %d of writer %d", turn, w)
					next++
					err := b.Create(t.Context(), key, []byte(text))
					if err == nil {
						mine[w][key] = text
						break
					}
					if !errors.Is(err, remote.ErrExists) {
						t.Errorf("%s: %v", key, err)
						return
					}
				}
				if w == 0 && turn == *turns/2 {
					server.Kill()
					time.Sleep(100 * time.Millisecond)
					server.Start(t)
				}
			}
		})
	}
	wg.Wait()
	p.copies.Wait()
	b, n := open(server.URL), 0
	for item, err := range b.List(t.Context(), "log/", "") {
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Get(t.Context(), item.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		n++
		var of []int
		for w := range writers {
			if mine[w][item.Key] == string(got) {
				of = append(of, w)
			}
		}
		if len(of) != 1 {
			t.Errorf("%s has %q, which is what writers %v have put there", item.Key, got, of)
		}
	}
	if n != writers**turns {
		t.Errorf("%d turns are there, of %d", n, writers**turns)
	}
	for _, kind := range []string{"wait", "drop", "lose", "twice", "late", "cut", "409", "503"} {
		if p.seen[kind] == 0 && *turns >= 30 {
			t.Errorf("nothing was done of %q", kind)
		}
	}
	t.Logf("%v", p.seen)
}
