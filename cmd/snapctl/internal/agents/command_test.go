package agents

import "testing"

func TestIsOurs(t *testing.T) {
	for text, want := range map[string]string{
		"snapctl hook claude":                              "new hook claude || true",
		"snapctl hook claude || true":                      "new hook claude || true",
		" snapctl  hook\tclaude||true ":                    "new  hook\tclaude||true",
		"/old/path/snapctl hook claude":                    "new hook claude || true",
		"snapctl-1.2 hook claude":                          "new hook claude || true",
		`'/my tools/snapctl' hook claude`:                  "new hook claude || true",
		`'/o'\''b/snapctl' hook claude || true`:            "new hook claude || true",
		`"C:/Program Files (x86)/snapctl.exe" hook claude`: "new hook claude || true",
		`C:\bin\snapctl.exe hook claude`:                   "new hook claude || true",
		`"$CLAUDE_PROJECT_DIR"/bin/snapctl hook claude`:    `"$CLAUDE_PROJECT_DIR"/bin/snapctl hook claude || true`,
		"~/bin/snapctl hook claude":                        "~/bin/snapctl hook claude || true",
		"snapctl --store /x hook claude":                   "new --store /x hook claude || true",
		"snapctl --store '/x y' hook -q claude --root=/":   "new --store '/x y' hook -q claude --root=/ || true",
		"snapctl -q hook claude":                           "new -q hook claude || true",
	} {
		c, ok := claude.parseCommand(text)
		if !ok {
			t.Errorf("%q is not ours", text)
		}
		if got := c.with(command{"new", "", " || true"}).String(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if claude.isMixed(text) {
			t.Errorf("%q is mixed", text)
		}
	}
	for text, mixed := range map[string]bool{
		"keep.sh && snapctl hook claude && keep2":   true,
		"echo no snapctl hook claude keep":          true,
		"snapctl hook claude;keep":                  true,
		"snapctl hook claude &":                     true,
		"snapctl hook claude # keep":                true,
		"snapctl hook claude || keep":               true,
		"snapctl hook claude >log":                  true,
		"X=1 snapctl hook claude":                   true,
		"A=/x/snapctl hook claude":                  true,
		"snapctl hook claude $(keep)":               true,
		"snapctl hook claude\nkeep":                 true,
		"snapctl --store \"$(keep)\" hook claude":   true,
		"snapctl --store `keep` hook claude":        true,
		"snapctl\nhook claude":                      true,
		"'/my tools/snapctl' hook claude 2>>/tmp/l": true,
		"mysnapctl hook claude":                     false,
		"echo snapctl hook claudette":               false,
		"snapctl hook":                              false,
		"SNAPCTL hook claude":                       false,
		"snapctl log":                               false,
		"":                                          false,
	} {
		if claude.IsOurs(text) || claude.isMixed(text) != mixed {
			t.Errorf("%q: ours %v, mixed %v, want false, %v", text, claude.IsOurs(text), claude.isMixed(text), mixed)
		}
	}
}
