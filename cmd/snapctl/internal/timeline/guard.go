package timeline

import (
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // of the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/wire"
)

// index is all that a browser loads: see web/README.md.
//
//go:embed assets/index.html
var index []byte

// asset answers with the page. There is no data in it, so it needs no token: the page has that in its
// fragment, which browsers do not send.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/" && r.URL.Path != "/index.html":
		s.fail(w, r, refuse(http.StatusNotFound, "not_found", "there is no %q", r.URL.Path))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, r, refuse(http.StatusMethodNotAllowed, "method", "%s: want GET", r.Method))
	default:
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none": // no other site has work done by asking for the page
			s.lookAhead()
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(index) // an error says that the client is gone
	}
}

// policy lets the page run the program and the style that are in it, ask its own server, and show images
// that it has fetched itself. Nothing is ever text that becomes markup or a script.
var policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") +
		"; connect-src 'self'; img-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types"
})

// hashOf returns the source expression of what the first element of a name holds in the page.
func hashOf(name string) string {
	_, rest, _ := strings.Cut(string(index), "<"+name+">")
	content, _, _ := strings.Cut(rest, "</"+name+">")
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy())
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// check says what is wrong with a request before anything is done about it.
func (s *Server) check(r *http.Request) *refusal {
	// A page whose name has been made to mean this machine sends that name. The port may be
	// another: it is with 'ssh -L'.
	switch strings.ToLower((&url.URL{Host: r.Host}).Hostname()) {
	case "127.0.0.1", "localhost", "::1":
	default:
		return refuse(http.StatusMisdirectedRequest, "host", "host %q is not this server", r.Host)
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return nil
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin != "http://"+r.Host {
			return refuse(http.StatusForbidden, "origin", "origin %q may not", origin)
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none": // a program, the page, and the user's own hand
	default:
		return refuse(http.StatusForbidden, "origin", "a page of another site may not: %q", site)
	}
	if !s.isAuthorized(r.Header.Values("Authorization")) {
		return refuse(http.StatusUnauthorized, "unauthorized", "want Authorization: Bearer TOKEN")
	}
	return nil
}

// isAuthorized reports whether a request carries the token. Hashes are compared, so that the time
// it takes says nothing about the token.
func (s *Server) isAuthorized(header []string) bool {
	if len(header) != 1 || s.opts.Token == "" {
		return false
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	sum := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

// readBody returns a body of JSON.
func readBody(r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "content_type", "want Content-Type: application/json")
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, wire.MaxLine+1))
	switch {
	case err != nil:
		return nil, explain.Errorf(explain.BadRequest, "body: %v", err)
	case len(b) > wire.MaxLine:
		return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "body: more than %d bytes", wire.MaxLine)
	}
	return b, nil
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // our own types: it is a mistake
		s.log.Error("answer not encoded", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) // an error says that the client is gone
}

// fail answers a request that was not done.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, e *refusal) {
	if e.status == http.StatusInternalServerError {
		s.log.Error("request not done", "method", r.Method, "path", r.URL.Path, "err", e)
	}
	s.answer(w, e.status, map[string]*refusal{"error": e})
}

// A refusal is an error as the page sees it.
type refusal struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Data    any    `json:"data,omitempty"` // how far a verb got
}

func (e *refusal) Error() string { return e.Message }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// withData returns an error as the page sees it, with what there is of an answer.
func withData(err error, data any) *refusal {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e
	}
	k := explain.Of(err)
	return &refusal{status: k.Status, Code: k.Code, Message: err.Error(), Hint: k.Hint, Data: data}
}
