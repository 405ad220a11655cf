package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A make is a release of an agent that scenes are played with.
type maker struct {
	name, version string
	install       func(dir string) error
	program       []string // that runs it; paths are below the directory of the installation
	// setUp writes its settings into the home directory, and has it record.
	setUp func(a *actor)
	env   func(a *actor) []string
	// once returns the arguments in front of a prompt that is all there is, with all tools
	// allowed: of a new session, of one that goes on, or of a fork of the newest.
	once func(a *actor, how string) []string
	// tty has the arguments with which it runs in a terminal, all tools allowed; asking
	// those with which the user is asked about the shell.
	tty, asking []string
	shows       shows
	// subagent is what follows the step "task" until it has ended.
	subagent string
	// cannot has the scenes that it cannot play, and why.
	cannot map[string]string
	// late is set if it says nothing when the user has stopped it: the turn ends at the
	// next prompt.
	late bool
	// tellsRefusal is set if it says that a tool was refused: what has changed meanwhile is
	// the user's.
	tellsRefusal bool
	// perTurn is set if each answer of the model is a turn, not each prompt.
	perTurn bool
	// child is set if the engine that records is its child, which ends with it, and which
	// its extension ends where it hangs; told returns what that has told the user.
	child bool
	told  func(a *actor) string
	// inherits is set if the log of a fork has its parent's turns.
	inherits bool
}

// What an agent shows in a terminal.
type shows struct {
	ready, asks, stopped string
	escapes              int      // how often Escape is pressed to stop it
	noes                 []string // keys that refuse what it asks
}

const (
	fresh  = "fresh"
	goesOn = "goes on"
	forked = "forked"
)

var makers = []*maker{
	{
		name: "claude", version: "2.1.197",
		install: npm("@anthropic-ai/claude-code@2.1.197"),
		program: []string{"node_modules/@anthropic-ai/claude-code-linux-x64/claude"},
		setUp: func(a *actor) {
			a.put(".claude.json", fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark",
				"customApiKeyResponses":{"approved":["%s"],"rejected":[]},
				"projects":{%q:{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}`,
				claudeKey[len(claudeKey)-20:], a.dir))
			a.snapctl("setup", "claude", "--yes")
		},
		env: func(a *actor) []string {
			return []string{"ANTHROPIC_BASE_URL=" + a.model.URL, "ANTHROPIC_API_KEY=" + claudeKey,
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
				"DISABLE_ERROR_REPORTING=1", "ENABLE_TOOL_SEARCH=false", "IS_SANDBOX=1"}
		},
		once: func(_ *actor, how string) []string {
			args := []string{"-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,mcp__snapctl"}
			switch how {
			case goesOn:
				args = append(args, "--continue")
			case forked:
				args = append(args, "--continue", "--fork-session")
			}
			return append(args, "--")
		},
		tty:  []string{"--allowedTools", "Bash,Write"},
		late: true,
		shows: shows{ready: "? for shortcuts", asks: "Do you want to", stopped: "Interrupted",
			escapes: 1, noes: []string{"Escape", "3"}},
	},
	{
		name: "codex", version: "0.169.0",
		install: npm("@openai/codex@0.169.0"),
		program: []string{
			"node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"},
		setUp: func(a *actor) {
			a.put(".codex/config.toml", fmt.Sprintf(`model = "gpt-6-luna"
				model_provider = "stub"
				check_for_update_on_startup = false
				approval_policy = "on-request"
				sandbox_mode = "danger-full-access"
				[features]
				apps = false
				plugins = false
				[analytics]
				enabled = false
				[feedback]
				enabled = false
				[model_providers.stub]
				name = "stub"
				base_url = "%s/v1"
				wire_api = "responses"
				env_key = "STUB_KEY"
				request_max_retries = 0
				stream_max_retries = 0
				[projects.%q]
				trust_level = "trusted"
				`, a.model.URL, a.dir))
			a.snapctl("setup", "codex", "--yes")
		},
		env: func(*actor) []string { return []string{"STUB_KEY=fake"} },
		once: func(a *actor, how string) []string {
			args := []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
				"--dangerously-bypass-approvals-and-sandbox"}
			switch how {
			case goesOn:
				args = append(args, "resume", "--last")
			case forked:
				args = append(args, "fork", a.session())
			}
			return args
		},
		tty:    []string{"--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"},
		asking: []string{"--dangerously-bypass-hook-trust", "--sandbox", "workspace-write"},
		shows: shows{ready: "Ask Codex to do", asks: "Would you like to", stopped: "interrupted", escapes: 1,
			noes: []string{"Escape"}},
		// A wait may end before the subagent has.
		subagent: "wait ;; bash until [ -s sub2.txt ]; do sleep 0.1; done ;;",
	},
	{
		name: "gemini", version: "0.61.0",
		install: npm("@google/gemini-cli@0.61.0"),
		program: []string{"node", "node_modules/@google/gemini-cli/bundle/gemini.js"},
		setUp: func(a *actor) {
			a.put(".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}},
				"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},
				"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false}}`)
			a.put(".gemini/trustedFolders.json", fmt.Sprintf(`{%q:"TRUST_FOLDER"}`, a.dir))
			a.snapctl("setup", "gemini", "--yes")
		},
		env: func(a *actor) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + a.model.URL, "GEMINI_API_KEY=fake",
				"GEMINI_TELEMETRY_ENABLED=false"}
		},
		once: func(_ *actor, how string) []string {
			args := []string{"-m", "gemini-2.5-flash", "--approval-mode", "yolo"}
			if how == goesOn {
				args = append(args, "--resume", "latest")
			}
			return append(args, "-p")
		},
		tty:    []string{"-m", "gemini-2.5-flash", "--approval-mode", "yolo"},
		asking: []string{"-m", "gemini-2.5-flash"},
		shows: shows{ready: "Type your message", asks: "1. Allow once", stopped: "Request cancelled", escapes: 1,
			noes: []string{"Escape"}},
		cannot: map[string]string{"fork": "it has no forks"},
	},
	{
		name: "opencode", version: "1.18.33",
		// Without its plugin's package at hand it would fetch it at each start.
		install: npm("opencode-ai@1.18.33", "@opencode-ai/plugin@1.18.33"),
		program: []string{"node_modules/opencode-linux-x64-baseline/bin/opencode"},
		setUp: func(a *actor) {
			a.put(".config/opencode/opencode.json", fmt.Sprintf(`{"autoupdate":false,"share":"disabled","snapshot":false,
				"model":"stub/stub-1","small_model":"stub/stub-1","provider":{"stub":{"npm":"@ai-sdk/openai-compatible",
				"name":"Stub","options":{"baseURL":"%s/v1","apiKey":"fake"},"models":{"stub-1":{"name":"Stub",
				"tool_call":true,"limit":{"context":32000,"output":2048}}}}},"permission":{"bash":"ask"}}`, a.model.URL))
			for _, name := range []string{"node_modules", "package.json", "package-lock.json"} {
				if err := os.Symlink(filepath.Join(a.place, name),
					filepath.Join(a.home, ".config/opencode", name)); err != nil {
					a.t.Fatal(err)
				}
			}
			a.snapctl("setup", "opencode", "--yes")
		},
		env: func(*actor) []string {
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
				"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_DISABLE_EXTERNAL_SKILLS=1"}
		},
		once: func(_ *actor, how string) []string {
			args := []string{"run", "--auto"}
			switch how {
			case goesOn:
				args = append(args, "--continue")
			case forked:
				args = append(args, "--continue", "--fork")
			}
			return args
		},
		tty:          []string{"--auto"},
		tellsRefusal: true,
		child:        true,
		told:         func(a *actor) string { return a.textOf(".local/share/opencode/log/*.log") },
		shows: shows{ready: "Ask anything", asks: "Permission required", stopped: "interrupted", escapes: 2,
			noes: []string{"Escape"}},
	},
	piMaker("pi", "1.5.2"),
	piMaker("pi-0", "0.73.1"),
}

const claudeKey = "sk-ant-api03-fake-fake-fake-fake"

// npm returns an installation of packages.
func npm(packages ...string) func(dir string) error {
	return func(dir string) error {
		return run(dir, "npm", slices.Concat([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts"},
			packages)...)
	}
}

// piMaker returns a release of pi, which runs as users have it, by its command.
func piMaker(name, version string) *maker {
	i := slices.IndexFunc(releases, func(r release) bool { return r.name == version })
	command := releases[i].command("")
	args := append(command[2:], "--provider", "stub", "--model", "stub-1", "--offline", "--no-context-files")
	return &maker{
		name: name, version: version, install: releases[i].install, program: command[:2],
		perTurn: true, child: true, inherits: true,
		told: func(a *actor) string { return a.printed.String() },
		setUp: func(a *actor) {
			a.put(".pi/agent/models.json", piModels(a.model))
			a.snapctl("setup", "pi", "--yes")
		},
		env: func(*actor) []string { return nil },
		once: func(a *actor, how string) []string {
			switch how {
			case goesOn:
				return slices.Concat(args, []string{"--continue", "-p"})
			case forked:
				return slices.Concat(args, []string{"--fork", a.session(), "-p"})
			}
			return slices.Concat(args, []string{"-p"})
		},
		tty:   args,
		shows: shows{ready: "stub-1", stopped: "aborted", escapes: 1},
		cannot: map[string]string{
			"permission": "it asks nobody whether a tool may run",
			"subagent":   "it has no subagents",
		},
	}
}

// An actor is an agent at home in a world of its own.
type actor struct {
	*world
	*maker
	place   string       // where it is installed
	printed bytes.Buffer // by all that ran with one prompt
}

// newActor installs an agent, and has it record.
func newActor(t testing.TB, m *maker) *actor {
	t.Helper()
	return newActorIn(&world{t: t, model: newModel(t), home: t.TempDir(), dir: t.TempDir()}, m)
}

// newActorIn is newActor for a world that is there.
func newActorIn(w *world, m *maker) *actor {
	t := w.t
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the agents that are run are those for Linux")
	}
	place := filepath.Dir(install(t, strings.TrimSuffix(m.name, "-0"), m.version, m.install, "ready"))
	a := &actor{world: w, maker: m, place: place}
	a.model.dir = a.dir
	t.Cleanup(a.endAll)
	m.setUp(a)
	return a
}

// processes returns those at home where the actor is, by their IDs: itself, what it has
// started, and the engine.
func (a *actor) processes() []int {
	var list []int
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, err := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid > 1 && slices.Contains(strings.Split(string(env), "\x00"), "HOME="+a.home) {
			list = append(list, pid)
		}
	}
	return list
}

// send sends a signal, by its name, to a process and reports whether that was there.
func send(pid int, signal string) bool {
	return exec.Command("kill", "-"+signal, strconv.Itoa(pid)).Run() == nil
}

// endAll ends all processes of the actor.
func (a *actor) endAll() {
	for range 100 {
		list := a.processes()
		if len(list) == 0 {
			return
		}
		for _, pid := range list {
			send(pid, "KILL")
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.t.Errorf("processes %v do not end", a.processes())
}

// put writes a file of the home directory.
func (a *actor) put(name, content string) {
	a.t.Helper()
	name = filepath.Join(a.home, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		a.t.Fatal(err)
	}
	a.world.put(name, content)
}

// textOf returns what is in some files of the home directory.
func (a *actor) textOf(pattern string) string {
	a.t.Helper()
	var text string
	names, err := filepath.Glob(filepath.Join(a.home, pattern))
	for _, name := range names {
		b, rerr := os.ReadFile(name)
		text, err = text+string(b), errors.Join(err, rerr)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// command returns a command of the agent that is to run in the project.
func (a *actor) command(args ...string) *exec.Cmd {
	words := slices.Clone(a.program)
	for i, word := range words {
		if strings.Contains(word, "/") {
			words[i] = filepath.Join(a.place, word)
		}
	}
	words = append(words, args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = a.dir
	// Whatever is no stub of a model is not to be reached.
	const nobody = "http://127.0.0.1:9"
	cmd.Env = slices.Concat(a.world.env(), []string{"PATH=" + filepath.Dir(snapctl) + ":" + os.Getenv("PATH"),
		"PWD=" + a.dir, "TERM=xterm-256color", "COLORTERM=truecolor", "HTTPS_PROXY=" + nobody, "HTTP_PROXY=" + nobody,
		"NO_PROXY=127.0.0.1,localhost"}, a.maker.env(a))
	return cmd
}

// say runs the agent with one prompt, to its end and that of the turn.
func (a *actor) say(how, steps string) {
	a.t.Helper()
	a.plays(how, steps)
	a.ended()
}

// plays runs the agent with one prompt, to its end.
func (a *actor) plays(how, steps string) {
	a.t.Helper()
	cmd := a.command(append(a.once(a, how), script+" "+steps)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	a.printed.Write(out.Bytes())
	if err != nil && !strings.Contains(steps, "fail") {
		a.t.Fatalf("%s %q: %v\n%s", a.maker.name, steps, err, out.String())
	}
	a.t.Cleanup(func() {
		if a.t.Failed() {
			a.t.Logf("%s %q: %s", a.maker.name, steps, out.String())
		}
	})
}

// ended waits until no turn is open.
func (a *actor) ended() {
	a.t.Helper()
	for begun := time.Now(); strings.Contains(a.snapctl("sessions"), "turn open"); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			a.t.Fatalf("%s: the turn does not end:\n%s", a.maker.name, a.snapctl("sessions"))
		}
	}
}

// open starts the agent in a terminal.
func (a *actor) open(args []string) *tty {
	a.t.Helper()
	s := openTTY(a.t, a.command(args...))
	s.sees(a.shows.ready)
	time.Sleep(2 * time.Second) // some take no keys at once
	return s
}

// session returns the ID of the newest session.
func (a *actor) session() string {
	a.t.Helper()
	return strings.Fields(a.snapctl("sessions"))[0]
}
