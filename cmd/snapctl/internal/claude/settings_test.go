package claude

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
	"empty file":         "",
	"blank file":         " \n\n",
	"empty object":       "{}",
	"with a line end":    "{}\n",
	"blanks inside":      "{ \n }\n",
	"no hooks":           "{\n  \"model\": \"x\"\n}\n",
	"no last line end":   "{\n  \"model\": \"x\"\n}",
	"tabs":               "{\n\t\"model\": \"x\",\n\t\"n\": 1.50e3\n}\n",
	"four blanks":        "{\n    \"b\": {\"z\":1,\"a\":2},\n    \"a\": [ ]\n}\n",
	"CRLF":               "{\r\n  \"model\": \"x\"\r\n}\r\n",
	"byte order mark":    bom + "{\n  \"model\": \"x\"\n}\n",
	"mark and no more":   bom,
	"one line":           `{"model":"x","permissions":{"allow":["Bash(ls:*)"]}}`,
	"empty hooks":        "{\n  \"hooks\": {}\n}\n",
	"empty event":        "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"PreToolUse\": [\n    ]\n  }\n}\n",
	"hooks of others":    "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [ { \"type\": \"command\", \"command\": \"lint\" } ]\n      }\n    ],\n    \"Notification\": [{\"hooks\":[]}]\n  },\n  \"model\": \"x\"\n}\n",
	"others in one line": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}, "a": null}`,
	"escapes":            "{\n  \"\\u0068ello\": \"}],{[\\\" <&>\\u2028\"\n}\n",
	"key twice":          "{\n  \"hooks\": {\"Stop\": []},\n  \"hooks\": {\"Stop\": [1]}\n}\n",
}

// TestSettings: hooks are added once, and what is left when they are taken out
// is what was there, byte by byte.
func TestSettings(t *testing.T) {
	for name, text := range odd {
		t.Run(name, func(t *testing.T) {
			added, err := AddHooks([]byte(text), hookCommand)
			if err != nil {
				t.Fatal(err)
			}
			checkHooks(t, added)
			if again, err := AddHooks(added, hookCommand); err != nil || !bytes.Equal(again, added) {
				t.Errorf("AddHooks again = %v, changed:\n%s", err, cmp.Diff(string(added), string(again)))
			}
			removed, err := RemoveHooks(added)
			if err != nil || removed == nil || string(removed) != text {
				t.Errorf("RemoveHooks = %q, %v, want %q", removed, err, text)
			}
			if strings.Contains(text, "\r\n") && strings.Count(string(added), "\n") != strings.Count(string(added), "\r\n") {
				t.Errorf("mixed line ends in %q", added)
			}
		})
	}
}

// checkHooks requires that settings name each event once.
func checkHooks(t *testing.T, text []byte) {
	t.Helper()
	var s struct {
		Hooks map[string][]json.RawMessage `json:"hooks"`
	}
	body := bytes.TrimPrefix(text, []byte(bom))
	if err := json.Unmarshal(body, &s); err != nil {
		var syntax *json.UnmarshalTypeError
		if !errors.As(err, &syntax) {
			t.Fatalf("settings %s: %v", text, err)
		}
	}
	for _, event := range Events() {
		n := 0
		for _, g := range s.Hooks[event] {
			n += strings.Count(string(g), hookCommand)
		}
		if n != 1 {
			t.Errorf("event %s has %d hooks of ours, want 1:\n%s", event, n, text)
		}
	}
}

// TestSettingsNew: a file that is ours alone is not left behind.
func TestSettingsNew(t *testing.T) {
	added, err := AddHooks(nil, hookCommand)
	if err != nil {
		t.Fatal(err)
	}
	checkHooks(t, added)
	if removed, err := RemoveHooks(added); removed != nil || err != nil {
		t.Errorf("RemoveHooks = %q, %v, want none", removed, err)
	}
	with := bytes.Replace(added, []byte("{\n"), []byte("{\n  \"model\": \"x\",\n"), 1)
	removed, err := RemoveHooks(with)
	if want := "{\n  \"model\": \"x\"\n}\n"; err != nil || string(removed) != want {
		t.Errorf("RemoveHooks = %q, %v, want %q", removed, err, want)
	}
}

// TestSettingsMixed: where a user has moved ours among others, only ours goes.
func TestSettingsMixed(t *testing.T) {
	text := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "'/opt/my tools/snapctl' hook claude"}, {"type": "command", "command": "b"}]}]}}`
	want := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "b"}]}]}}`
	if got, err := RemoveHooks([]byte(text)); err != nil || string(got) != want {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, want)
	}
	first := `{"hooks": {"Stop": [{"hooks": [{"command": "X=1 snapctl hook claude 2>>/tmp/log"}, {"command": "b"}]}]}}`
	if got, err := RemoveHooks([]byte(first)); err != nil || string(got) != first {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, first)
	}
	if got := Mixed([]byte(first)); !slices.Equal(got, []string{"X=1 snapctl hook claude 2>>/tmp/log"}) {
		t.Errorf("Mixed = %q", got)
	}
	if got, err := AddHooks([]byte(first), hookCommand); err != nil || bytes.Count(got, []byte("hook claude")) != len(Events()) {
		t.Errorf("AddHooks = %s, %v, want no other hook of Stop", got, err)
	}
	foreign := `{"hooks": {"Stop": [{"hooks": [{"command": "mysnapctl hook claude"}, {"command": "echo snapctl hook claudette"}]}]}}`
	if got, err := RemoveHooks([]byte(foreign)); err != nil || string(got) != foreign {
		t.Errorf("RemoveHooks = %s, %v, want %s", got, err, foreign)
	}
}

// TestSettingsMoved: another path of this program is put in the place of the old
// one, a command that the user has changed stays.
func TestSettingsMoved(t *testing.T) {
	want, err := AddHooks([]byte("{}"), hookCommand)
	if err != nil {
		t.Fatal(err)
	}
	for _, was := range []string{"/old/snapctl hook claude", `'/o'\''b/snapctl' hook claude`, "snapctl hook claude", "snapctl hook claude || true"} {
		old, err := AddHooks([]byte("{}"), was)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AddHooks(old, hookCommand); err != nil || !bytes.Equal(got, want) {
			t.Errorf("AddHooks = %v:\n%s", err, cmp.Diff(string(want), string(got)))
		}
	}
	mine := bytes.Replace(want, []byte(hookCommand), []byte("SNAPCTL_DEBUG=1 snapctl hook claude 2>>/tmp/log"), 1)
	if got, err := AddHooks(mine, hookCommand); err != nil || !bytes.Equal(got, mine) {
		t.Errorf("AddHooks = %v:\n%s", err, cmp.Diff(string(mine), string(got)))
	}
}

// TestSettingsRefused: what is not understood is not changed.
func TestSettingsRefused(t *testing.T) {
	for _, text := range []string{"{", "[]", "null", "// a\n{}", "{\"a\":1,}", "{} {}", "\"\xff\"", "{\"a\": \"\xff\"}",
		`{"hooks": []}`, `{"hooks": null}`, `{"hooks": {"Stop": {}}}`} {
		if got, err := AddHooks([]byte(text), hookCommand); !errors.Is(err, ErrSettings) || got != nil {
			t.Errorf("AddHooks(%q) = %q, %v, want ErrSettings", text, got, err)
		}
	}
}

func FuzzSettings(f *testing.F) {
	for _, text := range odd {
		f.Add([]byte(text))
	}
	for _, was := range []string{hookCommand, "/old/snapctl --store /x hook claude", "snapctl hook claude 2>/dev/null", "lint"} {
		for _, text := range []string{`{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": %s}]}]}}`,
			`{"hooks": {"Stop": [ ], "PreToolUse": [{"matcher": "*", "hooks": [{"command": %s} ]} ] }, "h\u006foks": {"\u0053top": [{"hooks": [{"command": "\u0073napctl hook claude"}]}]} }`} {
			f.Add(fmt.Appendf(nil, text, []byte(hujson.String(was))))
		}
	}
	for _, b := range nearmiss.Of([]byte(`{"hooks":{"Stop":[{"hooks":[{"command":"snapctl hook claude"},{}]}]}, "a":[1]}`)) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = append([]byte{}, text...)
		before, err := RemoveHooks(text)
		if err != nil {
			return
		}
		added, err := AddHooks(text, hookCommand)
		if err != nil {
			return
		}
		if again, err := AddHooks(added, hookCommand); err != nil || !bytes.Equal(again, added) {
			t.Errorf("AddHooks again = %q, %v, want %q", again, err, added)
		}
		removed, err := RemoveHooks(added)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(before, text) && before != nil { // no hook of ours was there
			if !bytes.Equal(removed, text) {
				t.Errorf("RemoveHooks = %q, want %q", removed, text)
			}
			return
		}
		if again, err := RemoveHooks(removed); removed != nil && (err != nil || !bytes.Equal(again, removed)) {
			t.Errorf("RemoveHooks again = %q, %v, want %q", again, err, removed)
		}
	})
}

func TestDisabled(t *testing.T) {
	for text, want := range map[string]bool{`{"disableAllHooks": true}`: true, `{"disableAllHooks": false}`: false, `{"a": {"disableAllHooks": true}}`: false, "": false, "{": false} {
		if got := Disabled([]byte(text)); got != want {
			t.Errorf("Disabled(%s) = %v", text, got)
		}
	}
}
