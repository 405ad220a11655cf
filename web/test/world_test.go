// Package test drives the page in a real browser: see README.md.
package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/boocode/filestore/manager"
)

// snapctl is the program, built once.
var snapctl = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "snapctl-web-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "snapctl")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-ldflags=-s -w", "-o", file, "./cmd/snapctl")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return file, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := snapctl(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// A world is a directory with a history, whose timeline is served.
type world struct {
	testing.TB
	dir, home string
	session   string
	m         *manager.FileSnapshotManager
	server    *exec.Cmd
	address   string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, home: home, dir: filepath.Join(home, "shop"), session: "s"}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, content string) {
	w.Helper()
	file := filepath.Join(w.dir, name)
	w.must(os.MkdirAll(filepath.Dir(file), 0o755))
	w.must(os.WriteFile(file, []byte(content), 0o644))
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return "(" + filepath.Base(name) + " is not there)"
	}
	return string(b)
}

// holds waits until a file holds a text.
func (w *world) holds(name, want string) {
	w.Helper()
	for late := time.Now().Add(10 * time.Second); w.read(name) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			got, want := strings.Split(w.read(name), "\n"), strings.Split(want, "\n")
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			w.Fatalf("%s, from line %d: %.200q, want %.200q", name, i+1, got[i:], want[i:])
		}
	}
}

// manager returns the session as a runtime of another process has it.
func (w *world) manager() *manager.FileSnapshotManager {
	w.Helper()
	if w.m == nil {
		m, err := manager.Open(context.Background(), w.dir, &manager.Options{StoreRoot: filepath.Join(w.home, "stores"),
			Session: w.session})
		w.must(err)
		w.m = m
		w.Cleanup(func() { m.Close() })
	}
	return w.m
}

func (w *world) begin(title string) {
	w.Helper()
	turn := &manager.Turn{Title: title, Agent: "claude", Model: "opus-5"}
	_, err := w.manager().OnTurnStart(context.Background(), turn)
	w.must(err)
}

func (w *world) end() {
	w.Helper()
	_, err := w.manager().OnTurnEnd(context.Background(), nil)
	w.must(err)
}

// turn has a turn write files.
func (w *world) turn(title string, files ...string) {
	w.Helper()
	w.begin(title)
	for i := 0; i < len(files); i += 2 {
		w.write(files[i], files[i+1])
	}
	w.end()
}

// command returns a command of snapctl's in the directory.
func (w *world) command(args ...string) *exec.Cmd {
	w.Helper()
	file, err := snapctl()
	w.must(err)
	cmd := exec.Command(file, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.home, "BOO_STORE="+filepath.Join(w.home, "stores"))
	return cmd
}

// serve starts the timeline, and waits until it has said where it is.
func (w *world) serve(args ...string) {
	w.Helper()
	cmd := w.command(append([]string{"timeline"}, args...)...)
	out, err := cmd.StdoutPipe()
	w.must(err)
	cmd.Stderr = io.Discard
	w.must(cmd.Start())
	w.server = cmd
	w.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	w.must(err)
	w.address = strings.TrimSpace(line)
}

func (w *world) stop(how os.Signal) {
	w.Helper()
	began := time.Now()
	w.must(w.server.Process.Signal(how))
	w.server.Wait()
	if took := time.Since(began); how == syscall.SIGTERM && took > time.Second {
		w.Errorf("it has ended after %v", took)
	}
}

// port of the address.
func (w *world) port() string {
	_, rest, _ := strings.Cut(w.address, "127.0.0.1:")
	port, _, _ := strings.Cut(rest, "/")
	return port
}

// A browser is a page in one.
type browser struct {
	testing.TB
	ctx    context.Context
	close  context.CancelFunc
	errors []string // what it has complained of
	mu     sync.Mutex
}

var allocator struct {
	sync.Once
	ctx context.Context
}

// browse opens a page. The test is skipped where there is no Chromium.
func browse(t testing.TB, address string, width, height int, actions ...chromedp.Action[chromedp.Void]) *browser {
	t.Helper()
	file := ""
	// The first has no windows to draw: all tests of the page take half the processor time with it.
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			file = path
			break
		}
	}
	if file == "" {
		t.Skip("NOT TESTED: there is no chromium")
	}
	allocator.Do(func() {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(file), chromedp.NoSandbox,
			chromedp.DisableGPU,
			chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true))
		ctx, _ := chromedp.NewExecAllocator(context.Background(), opts...)
		allocator.ctx, _ = chromedp.NewContext(ctx)
		if err := chromedp.Do(allocator.ctx); err != nil {
			t.Fatal(err)
		}
	})
	ctx, cancel := chromedp.NewContext(allocator.ctx)
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, 120*time.Second)
	t.Cleanup(cancelTime)
	b := &browser{TB: t, ctx: ctx, close: cancel}
	listen := func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			text := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				text += " " + x.Description
			}
			b.errors = append(b.errors, text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				for _, a := range e.Args {
					b.errors = append(b.errors, fmt.Sprint(a.Value)+a.Description)
				}
			}
		}
	}
	size := chromedp.EmulateViewport(int64(width), int64(height))
	b.run(append([]chromedp.Action[chromedp.Void]{size}, actions...)...)
	if err := chromedp.Listen(ctx, listen); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Navigate(address))
	return b
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval returns the value of an expression.
func eval[T any](b *browser, js string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits until an expression is true.
func (b *browser) until(js string) {
	b.Helper()
	for late := time.Now().Add(20 * time.Second); !eval[bool](b, "!!("+js+")"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			b.shot(filepath.Join(os.TempDir(), "timeline-failed.png"))
			b.Fatalf("it never holds: %s\n%s\n%q", js, eval[string](b, "document.body.innerText"), b.errors)
		}
	}
}

// sees waits until the page has a text.
func (b *browser) sees(text string) {
	b.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// keys presses keys, one after the other. Where the page takes one, a browser has it type nothing.
func (b *browser) keys(keys ...string) {
	b.Helper()
	for _, k := range keys {
		if len(k) != 1 || k < " " || k > "~" {
			b.run(chromedp.KeyEvent(k))
			continue
		}
		b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			for _, how := range []input.DispatchKeyEventType{"rawKeyDown", "keyUp"} {
				p := input.DispatchKeyEventParams{Type: how, Key: k}
				if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// types types a text into what has the focus.
func (b *browser) types(text string) {
	b.Helper()
	b.run(chromedp.KeyEvent(text))
}

// click clicks what a selector names and a text is in.
func (b *browser) click(selector, text string) {
	b.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find(e => e.textContent.includes(%q) && !e.disabled)",
		selector, text)
	b.until("(e => e && (e.click(), true))(" + find + ")") // it may be drawn anew between two questions
}

func (b *browser) shot(file string) {
	if png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot()); err == nil {
		os.WriteFile(file, png, 0o644)
	}
}

// quiet requires that the browser has complained of nothing.
func (b *browser) quiet() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.Errorf("the browser complains: %q", b.errors)
	}
}

// colours has the page be light or dark.
func colours(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}
