package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"

	"github.com/boocode/filestore/internal/nearmiss"
)

const hookCommand = "snapctl hook claude || true"

// odd are settings as people have them.
var odd = map[string]string{
	"empty file":       "",
	"blank file":       " \n\n",
	"empty object":     "{}",
	"with a line end":  "{}\n",
	"blanks inside":    "{ \n }\n",
	"no hooks":         "{\n  \"model\": \"x\"\n}\n",
	"no last line end": "{\n  \"model\": \"x\"\n}",
	"tabs":             "{\n\t\"model\": \"x\",\n\t\"n\": 1.50e3\n}\n",
	"four blanks":      "{\n    \"b\": {\"z\":1,\"a\":2},\n    \"a\": [ ]\n}\n",
	"CRLF":             "{\r\n  \"model\": \"x\"\r\n}\r\n",
	"byte order mark":  bom + "{\n  \"model\": \"x\"\n}\n",
	"mark and no more": bom,
	"one line":         `{"model":"x","permissions":{"allow":["Bash(ls:*)"]}}`,
	"empty hooks":      "{\n  \"hooks\": {}\n}\n",
	"empty event":      "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"PreToolUse\": [\n    ]\n  }\n}\n",
	"hooks of others": "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n" +
		"        \"hooks\": [ { \"type\": \"command\", \"command\": \"lint\" } ]\n      }\n    ],\n" +
		"    \"Notification\": [{\"hooks\":[]}]\n  },\n  \"model\": \"x\"\n}\n",
	"others in one line": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}, "a": null}`,
	"escapes":            "{\n  \"\\u0068ello\": \"}],{[\\\" <&>\\u2028\"\n}\n",
	"key twice":          "{\n  \"hooks\": {\"Stop\": []},\n  \"hooks\": {\"Stop\": [1]}\n}\n",
}

// commented are settings of an agent that takes comments in them.
var commented = map[string]string{
	"comments":          "// a\n{ // b\n  \"x\": 1, // c\n  /* d */ \"y\": [2] // e\n  // f\n} // g\n",
	"comment at an end": "{\n  \"x\": 1 /* c\n d */ }",
	"empty but for one": "{\n  // c\n}\n",
	"in one line":       "{\"x\": 1 /* c */}",
	"line in one line":  "{\"x\": 1 // c\n}",
	"comma at the end":  "{\n  \"x\": 1, // c\n}\n",
	"comma, no blank":   "{\n  \"x\": 1,}",
	"comment and comma": "{\n  \"x\": 1 /* c */, // d\n}\n",
	"empty hooks":       "{\n  \"hooks\": { /* none */ }, // c\n}\n",
	"hooks of others": "{\n  \"hooks\": {\n    // d\n    \"BeforeTool\": [\n      // lint\n" +
		"      {\"hooks\": []}, // e\n      // f\n    ],\n  },\n}\n",
}

// TestSettings: hooks are added once, and what is left when they are taken out
// is what was there, byte by byte.
func TestSettings(t *testing.T) {
	for _, a := range []*Agent{claude, codex, gemini} {
		for name, text := range odd {
			t.Run(a.Name+"/"+name, func(t *testing.T) { testSettings(t, a, text) })
		}
	}
	for name, text := range commented {
		t.Run("commented/"+name, func(t *testing.T) { testSettings(t, gemini, text) })
		if got, err := claude.AddHooks([]byte(text), hookCommand); !errors.Is(err, ErrSettings) {
			t.Errorf("settings of Claude Code with comments: %q, %v, want ErrSettings", got, err)
		}
	}
}

func testSettings(t *testing.T, a *Agent, text string) {
	hookCommand := "snapctl hook " + a.Name + " || true"
	added, err := a.AddHooks([]byte(text), hookCommand)
	if err != nil {
		t.Fatal(err)
	}
	checkHooks(t, a, added)
	if again, err := a.AddHooks(added, hookCommand); err != nil || !bytes.Equal(again, added) {
		t.Errorf("AddHooks again = %v, changed:\n%s", err, cmp.Diff(string(added), string(again)))
	}
	removed, err := a.RemoveHooks(added)
	if err != nil || removed == nil || string(removed) != text {
		t.Errorf("RemoveHooks = %q, %v, want %q", removed, err, text)
	}
	if strings.Contains(text, "\r\n") && strings.Count(string(added), "\n") != strings.Count(string(added), "\r\n") {
		t.Errorf("mixed line ends in %q", added)
	}
}

// TestSettingsComments: what the user has said of our hooks, and beside them, stays.
func TestSettingsComments(t *testing.T) {
	added, err := gemini.AddHooks([]byte("{\n  \"x\": 1 // c\n}\n"), "snapctl hook gemini")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(added), "\"hooks\": {\n", "/* 1 */ \"hooks\": { // 2\n    // 3\n", 1)
	text = strings.Replace(text, "    \"BeforeTool\"", "    // 4\n    \"BeforeTool\"", 1)
	text = strings.TrimSuffix(text, "}\n") + "  // 5\n}\n"
	removed, err := gemini.RemoveHooks([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"// c", "/* 1 */", "// 2", "// 3", "// 4", "// 5"} {
		if strings.Count(string(removed), c) != 1 {
			t.Errorf("comment %q is not there:\n%s", c, removed)
		}
	}
	if _, err := gemini.AddHooks(removed, "snapctl hook gemini"); err != nil ||
		strings.Contains(string(removed), "snapctl") {
		t.Errorf("%v, left:\n%s", err, removed)
	}
}

// checkHooks requires that settings name each event once.
func checkHooks(t *testing.T, a *Agent, text []byte) {
	t.Helper()
	var s struct {
		Hooks map[string][]json.RawMessage `json:"hooks"`
	}
	body, err := hujson.Standardize(bytes.Clone(bytes.TrimPrefix(text, []byte(bom))))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &s); err != nil {
		var syntax *json.UnmarshalTypeError
		if !errors.As(err, &syntax) {
			t.Fatalf("settings %s: %v", text, err)
		}
	}
	for _, event := range a.events {
		n := 0
		for _, g := range s.Hooks[event.theirs] {
			n += strings.Count(string(g), "snapctl hook "+a.Name)
		}
		if n != 1 {
			t.Errorf("event %s has %d hooks of ours, want 1:\n%s", event.theirs, n, text)
		}
	}
}

// TestSettingsNew: a file that is ours alone is not left behind.
func TestSettingsNew(t *testing.T) {
	added, err := claude.AddHooks(nil, hookCommand)
	if err != nil {
		t.Fatal(err)
	}
	checkHooks(t, claude, added)
	if removed, err := claude.RemoveHooks(added); removed != nil || err != nil {
		t.Errorf("RemoveHooks = %q, %v, want none", removed, err)
	}
	with := bytes.Replace(added, []byte("{\n"), []byte("{\n  \"model\": \"x\",\n"), 1)
	removed, err := claude.RemoveHooks(with)
	if want := "{\n  \"model\": \"x\"\n}\n"; err != nil || string(removed) != want {
		t.Errorf("RemoveHooks = %q, %v, want %q", removed, err, want)
	}
}

// TestSettingsMixed: where a user has moved ours among others, only ours goes.
func TestSettingsMixed(t *testing.T) {
	text := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "'/opt/my tools/snapctl' hook claude"}, {"type": "command", "command": "b"}]}]}}`
	want := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "b"}]}]}}`
	if got, err := claude.RemoveHooks([]byte(text)); err != nil || string(got) != want {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, want)
	}
	first := `{"hooks": {"Stop": [{"hooks": [{"command": "X=1 snapctl hook claude 2>>/tmp/log"}, {"command": "b"}]}]}}`
	if got, err := claude.RemoveHooks([]byte(first)); err != nil || string(got) != first {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, first)
	}
	if got := claude.Mixed([]byte(first)); !slices.Equal(got, []string{"X=1 snapctl hook claude 2>>/tmp/log"}) {
		t.Errorf("Mixed = %q", got)
	}
	if got, err := claude.AddHooks([]byte(first), hookCommand); err != nil ||
		bytes.Count(got, []byte("hook claude")) != len(claude.events) {
		t.Errorf("AddHooks = %s, %v, want no other hook of Stop", got, err)
	}
	foreign := `{"hooks": {"Stop": [{"hooks": [{"command": "mysnapctl hook claude"}, {"command": "echo snapctl hook claudette"}]}]}}`
	if got, err := claude.RemoveHooks([]byte(foreign)); err != nil || string(got) != foreign {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, foreign)
	}
}

// TestSettingsMoved: another path of this program is put in the place of the old
// one, a command that the user has changed stays.
func TestSettingsMoved(t *testing.T) {
	want, err := claude.AddHooks([]byte("{}"), hookCommand)
	if err != nil {
		t.Fatal(err)
	}
	for _, was := range []string{"/old/snapctl hook claude", `'/o'\''b/snapctl' hook claude`, "snapctl hook claude", "snapctl hook claude || true"} {
		old, err := claude.AddHooks([]byte("{}"), was)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := claude.AddHooks(old, hookCommand); err != nil || !bytes.Equal(got, want) {
			t.Errorf("AddHooks = %v:\n%s", err, cmp.Diff(string(want), string(got)))
		}
	}
	mine := bytes.Replace(want, []byte(hookCommand), []byte("SNAPCTL_DEBUG=1 snapctl hook claude 2>>/tmp/log"), 1)
	if got, err := claude.AddHooks(mine, hookCommand); err != nil || !bytes.Equal(got, mine) {
		t.Errorf("AddHooks = %v:\n%s", err, cmp.Diff(string(mine), string(got)))
	}
}

// TestSettingsRefused: what is not understood is not changed.
func TestSettingsRefused(t *testing.T) {
	for _, text := range []string{"{", "[]", "null", "// a\n{}", "{\"a\":1,}", "{} {}", "\"\xff\"", "{\"a\": \"\xff\"}",
		`{"hooks": []}`, `{"hooks": null}`, `{"hooks": {"Stop": {}}}`} {
		if got, err := claude.AddHooks([]byte(text), hookCommand); !errors.Is(err, ErrSettings) || got != nil {
			t.Errorf("AddHooks(%q) = %q, %v, want ErrSettings", text, got, err)
		}
	}
}

func FuzzSettings(f *testing.F) {
	for _, text := range odd {
		f.Add([]byte(text))
	}
	for _, was := range []string{hookCommand, "/old/snapctl --store /x hook claude",
		"snapctl hook claude 2>/dev/null", "lint"} {
		for _, text := range []string{`{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": %s}]}]}}`,
			`{"hooks": {"Stop": [ ], "PreToolUse": [{"matcher": "*", "hooks": [{"command": %s} ]} ] }, "h\u006foks": {"\u0053top": [{"hooks": [{"command": "\u0073napctl hook claude"}]}]} }`} {
			f.Add(fmt.Appendf(nil, text, []byte(hujson.String(was))))
		}
	}
	for _, b := range nearmiss.Of([]byte(`{"hooks":{"Stop":[{"hooks":[{"command":"snapctl hook claude"},{}]}]}, "a":[1]}`)) {
		f.Add(b)
	}
	for _, text := range commented {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, a := range []*Agent{claude, gemini} {
			fuzzSettings(t, a, append([]byte{}, text...))
		}
	})
}

func fuzzSettings(t *testing.T, a *Agent, text []byte) {
	hookCommand := "snapctl hook " + a.Name + " || true"
	before, err := a.RemoveHooks(text)
	if err != nil {
		return
	}
	added, err := a.AddHooks(text, hookCommand)
	if err != nil {
		return
	}
	if again, err := a.AddHooks(added, hookCommand); err != nil || !bytes.Equal(again, added) {
		t.Errorf("AddHooks again = %q, %v, want %q", again, err, added)
	}
	removed, err := a.RemoveHooks(added)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, text) && before != nil { // no hook of ours was there
		if !bytes.Equal(removed, text) {
			t.Errorf("RemoveHooks = %q, want %q", removed, text)
		}
		return
	}
	if again, err := a.RemoveHooks(removed); removed != nil && (err != nil || !bytes.Equal(again, removed)) {
		t.Errorf("RemoveHooks again = %q, %v, want %q", again, err, removed)
	}
}

func TestDisabled(t *testing.T) {
	for text, want := range map[string]bool{`{"disableAllHooks": true}`: true, `{"disableAllHooks": false}`: false, `{"a": {"disableAllHooks": true}}`: false, "": false, "{": false} {
		if got := claude.Disabled([]byte(text)); got != want {
			t.Errorf("Disabled(%s) = %v", text, got)
		}
	}
	for text, want := range map[string]bool{`{"hooksConfig": {"enabled": false}} // so`: true, `{"hooksConfig": {"enabled": true}}`: false,
		`{"hooksConfig": false}`: false, `{"enabled": false}`: false, `{}`: false} {
		if got := gemini.Disabled([]byte(text)); got != want || codex.Disabled([]byte(text)) {
			t.Errorf("Disabled(%s) = %v", text, got)
		}
	}
}
