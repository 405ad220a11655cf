package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/checkpoint/httpapi"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// httpFlags are those of serve --http.
type httpFlags struct {
	addr         string // "": checkpoints are not served
	db           string
	tokenFile    string
	hook         string
	schema       string
	createTables bool
}

func (f *httpFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.addr, "http", "",
		"serve checkpoints over HTTP at `ADDR`, as 127.0.0.1:8200; port 0 is any that is free")
	c.Flags().StringVar(&f.db, "db", "",
		"with --http: the runtime's database, `DSN` postgres://… or a file of SQLite (default checkpoints.db beside the stores)")
	c.Flags().StringVar(&f.tokenFile, "token-file", "",
		"with --http: take the token from `FILE`, which is made if it is not there (default $BOO_HTTP_TOKEN, or a new one in the store)")
	c.Flags().StringVar(&f.hook, "hook", "",
		"with --http: tell `URL` of each restore, so that the runtime resets its backend")
	c.Flags().StringVar(&f.schema, "schema", "", "with --http: the names of the runtime's tables are in `FILE`")
	c.Flags().BoolVar(&f.createTables, "create-tables", false,
		"with --http: make the runtime's tables that are missing, and a file of SQLite")
}

// check refuses what makes no sense, before anything is opened.
func (f *httpFlags) check(cmd *cobra.Command, serve *serveFlags) error {
	if f.addr == "" {
		for _, name := range []string{"db", "token-file", "hook", "schema", "create-tables", "json"} {
			if cmd.Flags().Changed(name) {
				return usageError(cmd, "serve: --%s without --http", name)
			}
		}
		if cmd.Flags().Changed("http") {
			return usageError(cmd, "serve: --http: want an address, as 127.0.0.1:8200")
		}
		return nil
	}
	switch {
	case serve.detach:
		return usageError(cmd, "serve: --http and --detach: it prints its address, and whoever starts it keeps it")
	case serve.stop:
		return usageError(cmd, "serve: --http and --stop")
	case cmd.Flags().Changed("idle") && serve.idle > 0:
		return usageError(cmd, "serve: --http and --idle: it does not end by itself")
	}
	if host, _, err := net.SplitHostPort(f.addr); err != nil {
		return usageError(cmd, "serve: --http %q: %w", f.addr, err)
	} else if !isLoopback(host) {
		return usageError(cmd, "serve: --http %q: others could connect: want 127.0.0.1:PORT, [::1]:PORT or "+
			"localhost:PORT", f.addr)
	}
	if f.hook != "" {
		if err := checkHookURL(f.hook); err != nil {
			return usageError(cmd, "serve: --hook %q: %w", f.hook, err)
		}
	}
	return nil
}

// wantsCheckpoints reports whether a flag asks for the database, which --http alone
// does not: verbs are of use without it.
func (f *httpFlags) wantsCheckpoints() bool {
	return f.db != "" || f.hook != "" || f.schema != "" || f.createTables
}

// isLoopback reports whether a host is this machine, and no other machine can connect to
// it. The address that localhost stands for is checked again when it is listened on.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

const (
	headerTime     = 10 * time.Second
	bodyTime       = 30 * time.Second
	connIdle       = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	// lastRequests is how long requests may go on when it ends, before they are
	// cancelled.
	lastRequests = 10 * time.Second
)

// An httpServer serves checkpoints until it is closed.
type httpServer struct {
	http.Server
	listener  net.Listener
	tokenFile string         // that clients read; "": they know the token
	close     []func() error // what is open, in the order of opening
	requests  sync.WaitGroup
	ended     chan struct{} // closed when Serve has returned err
	err       error
}

// serveHTTP begins to serve checkpoints. Managers are those of an engine.
func (a *app) serveHTTP(ctx context.Context, e *manager.Engine, storeDir string, f *httpFlags) (*httpServer, error) {
	s := &httpServer{ended: make(chan struct{})}
	if err := s.open(ctx, a, e, storeDir, f); err != nil {
		return nil, errors.Join(err, s.release())
	}
	go func() {
		defer close(s.ended)
		s.err = s.Serve(s.listener)
	}()
	if err := a.sayHTTP("http://"+s.listener.Addr().String(), filepath.Join(storeDir, wire.SocketName),
		s.tokenFile); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

func (s *httpServer) open(ctx context.Context, a *app, e *manager.Engine, storeDir string, f *httpFlags) error {
	token, file, err := a.httpToken(storeDir, f.tokenFile)
	if err != nil {
		return err
	}
	if s.tokenFile = file; f.tokenFile == "" && file != "" { // it is worth nothing afterwards
		s.close = append(s.close, func() error { return os.Remove(file) })
	}
	db, err := a.openCheckpoints(ctx, e, f, token, &s.close)
	if errors.Is(err, errNoDrivers) && !f.wantsCheckpoints() {
		a.log.Warn("checkpoints are not served, verbs are", "err", err)
		err = nil
	}
	if err != nil {
		return err
	}
	if s.listener, err = listenTCP(f.addr); err != nil {
		return err
	}
	s.close = append(s.close, func() error {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	addr, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return &failure{code: exitUsage, err: fmt.Errorf("serve: --http %q: it is %v here, where others could connect",
			f.addr, s.listener.Addr())}
	}
	name, _, _ := net.SplitHostPort(addr.String())
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	handler := httpapi.New(db, &httpapi.Options{Token: token, Hosts: []string{"localhost", "127.0.0.1", "[::1]", name},
		Logger: a.log, Verb: func(ctx context.Context, name string, request json.RawMessage) (any, error) {
			return verbs.Ask(ctx, e, name, request)
		}})
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Done()
		handler.ServeHTTP(w, r)
	})
	s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout, s.MaxHeaderBytes = headerTime, bodyTime, connIdle, maxHeaderBytes
	s.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)
	return nil
}

// sayHTTP prints where checkpoints are served, for whoever has started it.
func (a *app) sayHTTP(url, socket, tokenFile string) error {
	if tokenFile != "" {
		a.note("the token is in %s", words.Quote(tokenFile))
	}
	var err error
	if a.flags.json {
		err = a.printJSON(struct {
			URL       string `json:"url"`
			TokenFile string `json:"tokenFile,omitempty"`
			Socket    string `json:"socket"`
		}{url, tokenFile, socket})
	} else {
		_, err = fmt.Fprintln(a.out, url)
	}
	if err == nil {
		err = a.out.Flush() // it stays, and somebody waits for this
	}
	return err
}

// end lets requests under way come to an end, for some time, and closes all.
func (s *httpServer) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastRequests)
	defer cancel()
	err := s.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close() // which cancels them
	}
	s.requests.Wait() // a restore is taken back first
	<-s.ended
	if !errors.Is(s.err, http.ErrServerClosed) {
		err = errors.Join(err, s.err)
	}
	return errors.Join(err, s.release())
}

func (s *httpServer) release() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	return errors.Join(errs...)
}

// isToken reports whether a text can be a token that is sent in a header.
func isToken(s string) bool {
	return len(s) >= 16 && len(s) <= 256 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// httpToken returns the token that requests carry, and the file that it is in, if
// it is in one.
func (a *app) httpToken(storeDir, file string) (token, inFile string, err error) {
	from := ""
	switch {
	case file != "":
		file = a.path(file)
		from = fmt.Sprintf("token file %q", file)
		token, err = readToken(file)
	case a.getenv("BOO_HTTP_TOKEN") != "":
		from, token = "BOO_HTTP_TOKEN", a.getenv("BOO_HTTP_TOKEN")
	default:
		file, err = filepath.Join(storeDir, "http.token"), fs.ErrNotExist // one that is there is of a server that died
	}
	if errors.Is(err, fs.ErrNotExist) {
		token = rand.Text()
		err = writeToken(file, token)
		return token, file, err
	}
	if err != nil {
		return "", "", err
	}
	if !isToken(token) {
		err = fmt.Errorf("%s: no token: want 16 to 256 characters of ASCII without blanks", from)
		return "", "", &failure{code: exitUsage, err: err}
	}
	return token, file, nil
}

// readToken reads a token that nobody else can read.
func readToken(file string) (string, error) {
	st, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0 {
		return "", refuse(fmt.Sprintf("chmod 600 %s", words.Quote(file)), "token file %q: others may read it", file)
	}
	b, err := os.ReadFile(file)
	return strings.TrimRight(string(b), "\r\n"), err
}

// writeToken writes a token to a file that nobody else can read, at no time.
func writeToken(file, token string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".http.token-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
