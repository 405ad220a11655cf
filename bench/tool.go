package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A tool takes snapshots of one tree into its own store.
type tool struct {
	name    string
	program string   // with the flags that all its commands have
	env     []string // beside PATH, HOME and LC_ALL
	version string   // the arguments that make it print its version

	// does has the commands for each kind of work, run one after the other.
	// {store}, {tree} and {out} are directories, {prev} and {last} the newest
	// two snapshots, {n} counts the snapshots. An argument with {file} stands
	// once for each file, a command with {each} is run for each.
	does map[string][]string

	// finds a snapshot's name in what "name", or else "snapshot", printed; nil: it is s{n}
	id      func(out []byte) (string, error)
	content bool // the name follows from the content: nothing changed, same name

	store, tree string // directories; store has all that the tool keeps, its home included
	missing     bool   // it takes no part
	began       bool   // its store has a snapshot
	n           int    // snapshots since reset
	slow        bool   // the newest took long, though it was not the first
	prev, last  string
	engine      *engine // serves the store; nil: none
	resident    bool    // there is to be an engine
}

// newTools returns all contenders. All compress as they do by default, or
// faster: kopia does not without the policy. restic and kopia encrypt always,
// borg would by default.
func newTools(snapctl string) []*tool {
	git := tool{
		name:    "git",
		program: "git -c gc.auto=0 -c user.name=bench -c user.email=bench@localhost",
		version: "version",
		env:     []string{"GIT_DIR={store}/repo", "GIT_WORK_TREE={tree}", "GIT_CONFIG_NOSYSTEM=1"},
		does: map[string][]string{
			"setup":    {"init -q --template= -b main"},
			"snapshot": {"add -A", "write-tree"},
			"diff":     {"diff-tree -r --name-status {prev} {last}"},
			"cat":      {"cat-file blob {last}:{file}"},
			"restore":  {"checkout -q {last} -- {file}"},
			"export":   {"checkout-index -a --prefix={out}/"},
			"prune":    {"gc -q --prune=now"},
			"start":    {"version"},
		},
		id:      func(out []byte) (string, error) { return string(bytes.TrimSpace(out)), nil },
		content: true,
	}
	shadow := git
	shadow.name = shadowGit
	shadow.does = map[string][]string{
		"setup":    git.does["setup"],
		"snapshot": {"add -A", "commit --allow-empty -q -m turn"},
		"name":     {"rev-parse HEAD:"},
		"diff":     git.does["diff"],
		"log":      {"log --oneline -n 20"},
		"cat":      git.does["cat"],
		"restore":  git.does["restore"],
		"revert":   {"revert --no-commit HEAD~1"},
		"compact":  {"gc -q"},
		"prune": {"checkout -q --orphan kept", "commit -q -m kept", "branch -q -D main",
			"reflog expire --expire=now --all", "gc -q --prune=now"},
	}
	ours := tool{
		name:    "snapctl",
		program: snapctl + " --store {store}/repo --root {tree} --session bench",
		version: "version",
		env:     []string{"BOO_ENGINE=off"},
		does: map[string][]string{
			"snapshot": {"snapshot --json --max-file-size none --max-bytes none"},
			"diff":     {"diff --name-status {prev} {last}"},
			"log":      {"log -n 20"},
			"cat":      {"cat {last} {file}"},
			"restore":  {"restore -q {last} --on-dirty overwrite {file}"},
			"export":   {"export {last} {out}"},
			"revert":   {"revert -q -y @~1"},
			"compact":  {"compact -q"},
			"prune":    {"prune --keep-last 1"},
			"start":    {"version"},
		},
		id:      field("snapshotTreeHash"),
		content: true,
	}
	resident := ours
	resident.name = residentName
	resident.resident = true
	resident.env = nil
	resident.does = map[string][]string{"snapshot": ours.does["snapshot"], "diff": ours.does["diff"]}
	return []*tool{&ours, &resident, &git, &shadow,
		{
			name:    "restic",
			program: "restic -r {store}/repo",
			version: "version",
			env:     []string{"RESTIC_PASSWORD=x"},
			does: map[string][]string{
				"setup":    {"init"},
				"snapshot": {"backup --json ."},
				"diff":     {"diff {prev} {last}"},
				"log":      {"snapshots --latest 20"},
				"cat":      {"dump {last} /{file}"},
				"restore":  {"restore {last} --target {tree} --include=/{file}"},
				"export":   {"restore {last} --target {out}"},
				"compact":  {"prune -q --max-unused 0 --repack-small"},
				"prune":    {"forget --keep-last 1 --prune"},
				"start":    {"version"},
			},
			id: field("snapshot_id"),
		},
		{
			name:    "borg",
			program: "borg",
			version: "--version",
			env:     []string{"BORG_REPO={store}/repo"},
			does: map[string][]string{
				"setup":    {"init -e none"},
				"snapshot": {"create ::s{n} ."},
				"diff":     {"diff ::{prev} {last}"},
				"log":      {"list --last 20"},
				"cat":      {"extract --stdout ::{last} {file}"},
				"restore":  {"extract ::{last} {file}"},
				"export":   {"extract ::{last}"},
				"compact":  {"compact"},
				"prune":    {"prune --keep-last 1", "compact"},
				"start":    {"--version"},
			},
		},
		{
			name:    "kopia",
			program: "kopia --config-file={store}/config.json",
			version: "--version",
			env:     []string{"KOPIA_PASSWORD=x", "KOPIA_CHECK_FOR_UPDATES=false"},
			does: map[string][]string{
				"setup": {
					"repository create filesystem --path={store}/repo --cache-directory={store}/cache",
					"policy set --global --compression=zstd-fastest",
					"maintenance set --enable-quick=false --enable-full=false",
				},
				"snapshot": {"snapshot create . --no-progress --json"},
				"diff":     {"diff {prev} {last}"},
				"log":      {"snapshot list . -n 20"},
				"cat":      {"show {last}/{file}"},
				"restore":  {"restore {last}/{each} {tree}/{each}"},
				"export":   {"restore --no-progress {last} {out}"},
				"compact":  {"maintenance run --full --safety=none"},
				"start":    {"--version"},
				"prune": {
					"policy set --global --keep-latest=1 --keep-hourly=0 --keep-daily=0 --keep-weekly=0 --keep-monthly=0 --keep-annual=0",
					"snapshot expire --all --delete",
					"maintenance run --full --safety=none",
				},
			},
			id:      field("rootEntry", "obj"),
			content: true,
		},
	}
}

const (
	shadowGit    = "git shadow"
	residentName = "snapctl resident"
	clientName   = "snapctl client"
	laterName    = clientName + ", a second later"
)

// field returns a function that finds a string in JSON, by the keys that lead
// to it.
func field(keys ...string) func([]byte) (string, error) {
	return func(out []byte) (string, error) {
		// The last value counts: before it, some tell how far they are.
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				break // what came before, if anything
			}
			out = value
		}
		for _, key := range keys {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(out, &object); err != nil {
				return "", fmt.Errorf("no %s in its answer: %w", key, err)
			}
			out = object[key]
		}
		var value string
		err := json.Unmarshal(out, &value)
		if err == nil && value == "" {
			err = fmt.Errorf("%s is empty in its answer", keys)
		}
		return value, err
	}
}

// find leaves a tool out that is not installed, and else returns its version.
func (t *tool) find(ctx context.Context) (string, error) {
	args := strings.Fields(t.program)
	if _, err := exec.LookPath(args[0]); err != nil {
		t.missing = true
		return "", err
	}
	return lastLine(ctx, append(args[:1:1], t.version)...), nil
}

// reset leaves the tool with an empty store.
func (t *tool) reset(ctx context.Context) error {
	t.stop()
	if err := emptyDir(t.store); err != nil {
		return err
	}
	if err := os.Mkdir(t.home(), 0o777); err != nil {
		return err
	}
	t.n, t.prev, t.last, t.began = 0, "", "", false
	_, _, err := t.do(ctx, "setup", nil, "")
	return err
}

// ready sees to it that the store has a snapshot, and that an engine serves it
// if there is to be one.
func (t *tool) ready(ctx context.Context) error {
	if t.began {
		return nil
	}
	if err := t.reset(ctx); err != nil {
		return err
	}
	if t.resident {
		if err := t.serve(ctx); err != nil {
			return err
		}
	}
	_, err := t.take(ctx)
	return err
}

func (t *tool) home() string { return filepath.Join(t.store, "home") }

// environ returns an environment in which only the tool's own settings count.
func (t *tool) environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + t.home()}
	for _, e := range t.env {
		env = append(env, t.fill(e, ""))
	}
	return env
}

func (t *tool) fill(s, out string) string {
	return strings.NewReplacer("{store}", t.store, "{tree}", t.tree, "{out}", out,
		"{prev}", t.prev, "{last}", t.last, "{n}", fmt.Sprint(t.n)).Replace(s)
}

// arguments returns the command line of one of the tool's commands.
func (t *tool) arguments(command string, files []string, out string) []string {
	var args []string
	for _, arg := range strings.Fields(t.program + " " + command) {
		arg = t.fill(arg, out)
		if !strings.Contains(arg, "{file}") {
			args = append(args, arg)
			continue
		}
		for _, f := range files {
			args = append(args, strings.ReplaceAll(arg, "{file}", f))
		}
	}
	return args
}

// do does one kind of work: on the tree, or with out on that directory. It
// returns what the last command printed.
func (t *tool) do(ctx context.Context, work string, files []string, out string) (usage, []byte, error) {
	dir := t.tree
	if out != "" {
		dir = out
	}
	var total usage
	var printed []byte
	for _, command := range t.does[work] {
		commands := []string{command}
		if strings.Contains(command, "{each}") {
			commands = nil
			for _, f := range files {
				commands = append(commands, strings.ReplaceAll(command, "{each}", f))
			}
		}
		for _, c := range commands {
			t.engine.resetPeak()
			u, o, err := execute(ctx, dir, t.environ(), t.arguments(c, files, out)...)
			if err != nil {
				return usage{}, nil, err
			}
			if t.engine != nil {
				u.RSS = max(u.RSS, t.engine.peak())
			}
			total, printed = total.add(u), o
		}
	}
	return total, printed, nil
}

// take takes a snapshot and returns what that took.
func (t *tool) take(ctx context.Context) (usage, error) {
	t.n++
	u, out, err := t.do(ctx, "snapshot", nil, "")
	if err == nil && t.does["name"] != nil {
		_, out, err = t.do(ctx, "name", nil, "")
	}
	id := fmt.Sprint("s", t.n)
	if err == nil && t.id != nil {
		id, err = t.id(out)
	}
	if err != nil {
		return usage{}, err
	}
	t.slow = t.began && u.Wall > tooSlow
	t.prev, t.last, t.began = t.last, id, true
	return u, nil
}

// again takes one more snapshot, of a tree that has or has not changed since
// the last. It fails if the tool thinks otherwise.
func (t *tool) again(ctx context.Context, changed bool) (usage, error) {
	before := t.last
	u, err := t.take(ctx)
	if err == nil && t.content && (t.last != before) != changed {
		err = fmt.Errorf("changed files: %t, yet snapshot %s follows %s", changed, t.last, before)
	}
	return u, err
}
