package configfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entriesOf returns entries as a test writes them: LINE:KEY=VALUE.
func entriesOf(f *File) (list []string) {
	for _, e := range f.Entries {
		list = append(list, fmt.Sprintf("%d:%s=%s", e.Line, e.Key(), e.Value))
	}
	return list
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"# nothing\n\n", nil},
		{"pager = \"less -R\" # mine\r\nengine = false\n", []string{"1:pager=less -R", "2:engine=false"}},
		{"max = 1_000\nhex = 0x10\n", []string{"1:max=1000", "2:hex=16"}},
		{"a = 'x'\n[theme]\n# c\n  added = \"green\"\n\n[limits]\n\"*.psd\" = \"500MB\"",
			[]string{"1:a=x", "4:theme.added=green", "7:limits.*.psd=500MB"}},
		{"theme = { added = \"green\", removed = \"red\" }\n", []string{"1:theme.added=green", "1:theme.removed=red"}},
		{"\ufeffpager = 1\r\n", []string{"1:pager=1"}},
		{"theme . added = \"green\"\n", []string{"1:theme.added=green"}},
		{"a = \"\"\"\none\ntwo\"\"\"\nb = 1\n", []string{"1:a=one\ntwo", "4:b=1"}},
	} {
		f, err := Parse([]byte(tt.text))
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.text, err)
			continue
		}
		if d := cmp.Diff(tt.want, entriesOf(f)); d != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, d)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		text, want string
	}{
		{"a = 1\nb = \n", "line 2: "},
		{"a = 1\nb\n", "line 2: "},
		{"\n\na = \"x", "line 3: "},
		{"a = 1\na = 2\n", "line 2: a is there twice"},
		{"[t]\na = 1\n[u]\n[t]\nb = 1\n", "line 4: [t] is there twice"},
		{"t = {a = 1}\n[t]\nb = 1\n", "line 2: [t] is there twice"},
		{"[t]\nt.a = 1\n", "line 2: t.t.a: a table in a table"},
		{"[t.u]\na = 1\n", "line 1: [t.u]: a table in a table"},
		{"[t]\na = {b = 1}\n", "line 2: t.a: want a text in quotes, a whole number, true or false"},
		{"[[t]]\na = 1\n", "line 1: [[t]]: want one table, [t]"},
		{"a = [1]\n", "line 1: a: want a text in quotes, a whole number, true or false"},
		{"a = 1.5\n", "line 1: a: want a text in quotes, a whole number, true or false"},
		{"a = 99999999999999999999\n", "line 1: a: "},
	} {
		_, err := Parse([]byte(tt.text))
		if at, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(at.Error(), tt.want) {
			t.Errorf("Parse(%q): %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestSet(t *testing.T) {
	for _, tt := range []struct{ text, table, name, value, want string }{
		{"", "", "pager", "off", "pager = \"off\"\n"},
		{"", "theme", "added", "bold \"x\"\\\t", "[theme]\nadded = \"bold \\\"x\\\"\\\\\\u0009\"\n"},
		{"# mine\npager = 'less' # really\nengine=true", "", "pager", "off",
			"# mine\npager = \"off\" # really\nengine=true"},
		{"pager = 'less'\nengine  =  true", "", "engine", "false", "pager = 'less'\nengine  =  false"},
		{"pager = 'less'", "", "engine", "false", "pager = 'less'\nengine = false\n"},
		{"pager = 'less' # c\n\n[theme]\nadded = 'x'\n", "", "max", "12",
			"pager = 'less' # c\nmax = 12\n\n[theme]\nadded = 'x'\n"},
		{"# c\n[theme]\n", "", "max", "012", "# c\nmax = \"012\"\n\n[theme]\n"},
		{"[theme] # t\n[limits]\n", "theme", "id", "blue", "[theme] # t\nid = \"blue\"\n[limits]\n"},
		{"[theme]\n  added = 'x'\n\n[limits]\n", "theme", "id", "blue",
			"[theme]\n  added = 'x'\n  id = \"blue\"\n\n[limits]\n"},
		{"theme.added = 'x'\n[limits]\n", "theme", "id", "blue", "theme.added = 'x'\ntheme.id = \"blue\"\n[limits]\n"},
		{"a = 1\n", "limits", "*.psd", "500MB", "a = 1\n\n[limits]\n\"*.psd\" = \"500MB\"\n"},
		{"theme = {added = 'x', id = 'y'}\n", "theme", "added", "z", "theme = {added = \"z\", id = 'y'}\n"},
		{"a = '''\nx\n'''\n", "", "a", "y", "a = \"y\"\n"},
		{"\ufeffa = 1\r\n", "", "b", "2", "\ufeffa = 1\r\nb = 2\n"},
		{"\ufeff[t]\n", "", "b", "2", "\ufeffb = 2\n\n[t]\n"},
	} {
		f, err := Parse([]byte(tt.text))
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.text, err)
			continue
		}
		got, err := f.Set(tt.table, tt.name, tt.value)
		if err != nil || string(got) != tt.want {
			t.Errorf("Set(%q, %q, %q) in %q = %q, %v; want %q", tt.table, tt.name, tt.value, tt.text, got, err, tt.want)
		}
	}
	f, err := Parse([]byte("theme = {added = 'x'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Set("theme", "id", "z"); err == nil {
		t.Errorf("Set in a table in one line = %q", got)
	}
}

// What was set is read, and nothing else has changed.
func FuzzSet(f *testing.F) {
	for _, text := range []string{"", "a = 1", "# c\r\na = 'x' # y\r\n[t]\r\n b.c = 1", "[t]\n\"\\\"\" = true\n\n[u]\n",
		"t.a = 1\n[u]\nb = 2", "t = {a = 1, \"b\" = \"}\"}", "a = \"\"\"x\n[t]\n\"\"\"\n", "[t] # [u]\n'a=b' = 'c=d'"} {
		f.Add([]byte(text), "t", "a", "x")
		f.Add([]byte(text), "", "a b", "\"\\\n")
	}
	f.Fuzz(func(t *testing.T, text []byte, table, name, value string) {
		file, err := Parse(text)
		if err != nil {
			if at, ok := errors.AsType[*Error](err); !ok || at.Line < 1 ||
				at.Line > strings.Count(string(text), "\n")+1 {
				t.Errorf("Parse(%q): %v", text, err)
			}
			return
		}
		table, name, value = strings.ToValidUTF8(table, "?"), strings.ToValidUTF8(name, "?"),
			strings.ToValidUTF8(value, "?")
		changed, err := file.Set(table, name, value)
		if err != nil {
			return
		}
		again, err := Parse(changed)
		if err != nil {
			t.Fatalf("Set(%q, %q, %q) in %q = %q, which is not read: %v", table, name, value, text, changed, err)
		}
		isIt := func(e Entry) bool { return e.Table == table && e.Name == name }
		i := slices.IndexFunc(again.Entries, isIt)
		if i < 0 || again.Entries[i].Value != value {
			t.Fatalf("Set(%q, %q, %q) in %q = %q, which has no such value", table, name, value, text, changed)
		}
		values := func(f *File) map[string]string {
			all := make(map[string]string)
			for _, e := range f.Entries {
				if !isIt(e) {
					all[e.Table+"\x00"+e.Name] = e.Value
				}
			}
			return all
		}
		if d := cmp.Diff(values(file), values(again)); d != "" {
			t.Errorf("Set(%q, %q, %q) in %q = %q: also changed (-was +is):\n%s", table, name, value, text, changed, d)
		}
	})
}
