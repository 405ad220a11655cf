package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/boocode/filestore/checkpoint"
)

// hookTime is how long a runtime may take to reset its backend.
const hookTime = 30 * time.Second

// A runtimeHook tells a runtime in another process of restores.
type runtimeHook struct {
	url, token string
	client     *http.Client
	log        *slog.Logger
}

// checkHookURL refuses a URL to which the token must not go.
func checkHookURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("no URL")
	case u.Scheme != "http" || u.User != nil || !isLoopback(u.Hostname()):
		return errors.New("want http://127.0.0.1:PORT/…, which is this machine")
	}
	return nil
}

func newRuntimeHook(url, token string, log *slog.Logger) *runtimeHook {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err == nil && !isLoopback(host) { // what localhost is, is not ours to say
			err = fmt.Errorf("%s is another machine", host)
		}
		return err
	}}
	return &runtimeHook{url: url, token: token, log: log, client: &http.Client{
		Timeout:       hookTime,
		Transport:     &http.Transport{DialContext: dialer.DialContext, IdleConnTimeout: connIdle}, // without a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A hookEvent is what a runtime is told.
type hookEvent struct {
	Event     string             `json:"event"` // reset, restored
	SessionID string             `json:"session_id,omitempty"`
	ChatID    string             `json:"chat_id"`
	Result    *checkpoint.Result `json:"result,omitempty"`
}

// reset has the runtime drop what the agents of a chat remember.
func (h *runtimeHook) reset(ctx context.Context, chatID string) (bool, error) {
	b, err := h.post(ctx, &hookEvent{Event: "reset", ChatID: chatID})
	if err != nil {
		return false, err
	}
	var answer struct {
		Reset *bool `json:"reset"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Reset == nil {
		return false, fmt.Errorf(`hook %s: want {"reset": true} or {"reset": false}, have %.100q`, h.url, b)
	}
	return *answer.Reset, nil
}

// restored tells the runtime that a restore, or an undo, was done.
func (h *runtimeHook) restored(ctx context.Context, session, chat string, r *checkpoint.Result) {
	// It is done, also if nobody waits for the answer any more.
	if _, err := h.post(context.WithoutCancel(ctx), &hookEvent{"restored", session, chat, r}); err != nil {
		h.log.Warn("the runtime was not told of a restore", "restore", r.RestoreID, "err", err)
	}
}

// post sends an event and returns the body of the answer.
func (h *runtimeHook) post(ctx context.Context, e *hookEvent) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := h.client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("hook: %w", err) // it names the URL
	}
	defer resp.Body.Close()
	const maxAnswer = 64 << 10
	b, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", h.url, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("hook %s: %s: %.200q", h.url, resp.Status, b)
	}
	return b, nil
}
