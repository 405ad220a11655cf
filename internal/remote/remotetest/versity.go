package remotetest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A Server is a process that serves S3 on this machine.
type Server struct {
	URL    string // for AWS_ENDPOINT_URL
	Bucket string // that is there
	Dir    string // where its files are

	binary, addr string
	cmd          *exec.Cmd
}

// Who may ask a Server.
const (
	AccessKey = "test-key"
	SecretKey = "test-secret"
)

// Versity starts versitygw, which is built as internal/tools/s3/go.mod has it. The test is
// skipped where that cannot be had.
func Versity(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: it takes 10 s")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Bucket: "bucket", Dir: t.TempDir()}
	s.binary, err = program(t, "versitygw-1.8.0", filepath.Join(root, "internal", "tools", "s3"),
		"github.com/versity/versitygw/cmd/versitygw", "GOFLAGS=-mod=mod")
	if err != nil {
		t.Skipf("SKIPPED: versitygw cannot be built here: %v", err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, s.Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.addr = freeAddr(t)
	s.URL = "http://" + s.addr
	s.Start(t)
	t.Cleanup(s.Kill)
	return s
}

// Start starts the process, again if it was killed, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.cmd = exec.CommandContext(context.Background(), s.binary, "--port", s.addr, "--quiet", "posix", s.Dir)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+AccessKey, "ROOT_SECRET_ACCESS_KEY="+SecretKey)
	s.cmd.Dir = s.Dir
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("versitygw does not answer: %v", err)
		}
	}
}

// PID is that of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill kills the process.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// Env are the environment variables by which a program finds the server.
func (s *Server) Env() []string { return env(s.URL) }

func env(url string) []string {
	return []string{"AWS_ENDPOINT_URL=" + url, "AWS_ACCESS_KEY_ID=" + AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_REGION=us-east-1"}
}

func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// moduleRoot finds the directory of this module, in which tests run.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, serr := os.Stat(filepath.Join(dir, "internal", "tools", "s3", "go.mod")); serr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("internal/tools/s3/go.mod: not found above the test")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
