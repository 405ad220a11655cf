package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
)

// An engine is a 'snapctl serve' and a session with it, as a runtime has one.
type engine struct {
	cmd     *exec.Cmd
	client  *client.Client
	session *client.Session
}

// serve starts the engine and waits until it has looked at the whole tree.
func (t *tool) serve(ctx context.Context) error {
	args := t.arguments("serve --idle 0", nil, "")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = t.tree, t.environ(), &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	t.engine = &engine{cmd: cmd}
	err := errors.New("it has made no store")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		sockets, _ := filepath.Glob(filepath.Join(t.store, "repo", "*", "serve.sock"))
		if len(sockets) == 0 {
			continue
		}
		if t.engine.client, err = client.Dial(ctx, filepath.Dir(sockets[0])); err == nil {
			break
		}
	}
	if err == nil {
		of := &client.Initialize{CWD: t.tree, SessionID: "runtime"}
		of.Limits.FileSize, of.Limits.NewBytes = 1<<40, 1<<40 // as for the others: none
		t.engine.session, _, err = t.engine.client.Open(ctx, of)
	}
	if err != nil {
		t.stop()
		return fmt.Errorf("engine: %w: %q", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// told says that the log has the entries of a turn, as a runtime does that keeps
// one: later, when nobody waits.
func (e *engine) told(ctx context.Context, r *client.TurnEnded) error {
	return told(ctx, e.session, r)
}

func told(ctx context.Context, s *client.Session, r *client.TurnEnded) error {
	for _, entry := range r.Entries {
		step := new(manager.StepSnapshotData)
		err := json.Unmarshal(entry.Data, step)
		if err == nil {
			err = toldOf(ctx, s, step.SnapshotSeq)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func toldOf(ctx context.Context, s *client.Session, seq uint64) error {
	return s.Call(ctx, "told", map[string]any{"snapshotSeq": seq, "entryId": fmt.Sprint("entry", seq)}, nil)
}

// stop ends the engine, if there is one.
func (t *tool) stop() {
	if t.engine == nil {
		return
	}
	if t.engine.client != nil {
		t.engine.client.Close()
	}
	t.engine.cmd.Process.Signal(os.Interrupt)
	t.engine.cmd.Wait()
	t.engine, t.began = nil, false
}

// resetPeak has the system forget the engine's peak memory.
func (e *engine) resetPeak() {
	if e != nil {
		os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", e.cmd.Process.Pid), []byte("5"), 0)
	}
}

// peak returns the engine's peak memory since then.
func (e *engine) peak() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// timed returns what f took, with the engine's memory.
func (e *engine) timed(f func() error) (usage, error) {
	e.resetPeak()
	start := time.Now()
	err := f()
	return usage{Wall: time.Since(start), RSS: e.peak()}, err
}
