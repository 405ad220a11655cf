package blame

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// shown returns a version as text: the origin of each line before it.
func shown(v Version) string {
	var b strings.Builder
	lines, i := strings.SplitAfter(string(v.Text), "\n"), 0
	for o := range v.Lines.each() {
		fmt.Fprintf(&b, "%d:%s", o, lines[i])
		i++
	}
	return b.String()
}

// version reads what shown returns.
func version(text string) Version {
	var v Version
	for line := range strings.Lines(text) {
		var origin int
		number, rest, _ := strings.Cut(line, ":")
		fmt.Sscan(number, &origin)
		v.Text, v.Lines = append(v.Text, rest...), v.Lines.add(1, origin)
	}
	return v
}

func TestNext(t *testing.T) {
	for name, tt := range map[string]struct {
		was, text, want string
		opts            Options
	}{
		"the same":            {"1:a\n2:b\n", "a\nb\n", "1:a\n2:b\n", Options{}},
		"from nothing":        {"", "a\nb\n", "9:a\n9:b\n", Options{}},
		"to nothing":          {"1:a\n2:b\n", "", "", Options{}},
		"in front":            {"1:a\n2:b\n", "x\na\nb\n", "9:x\n1:a\n2:b\n", Options{}},
		"within a run":        {"1:a\n1:b\n1:c\n2:d\n", "a\nx\nc\nd\n", "1:a\n9:x\n1:c\n2:d\n", Options{}},
		"at the end":          {"1:a\n2:b\n", "a\nb\nx", "1:a\n2:b\n9:x", Options{}},
		"runs go":             {"1:a\n2:b\n3:c\n1:d\n", "a\nd\n", "1:a\n1:d\n", Options{}},
		"a line end comes":    {"1:a\n2:b", "a\nb\n", "1:a\n9:b\n", Options{}},
		"blanks count":        {"1:a b\n2:c\n", "a  b\nc\n", "9:a  b\n2:c\n", Options{}},
		"blanks do not count": {"1:a b\n2:c\n", "a  b\nx\n", "1:a  b\n9:x\n", Options{IgnoreSpace: true}},
	} {
		if got := shown(version(tt.was).Next([]byte(tt.text), 9, tt.opts)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestMerge(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string
		others []string
		asked  int // of the others, how many
		want   string
	}{
		"all is of the first":      {"a\nb\n", []string{"1:a\n2:b\n", "3:a\n4:b\n"}, 1, "1:a\n2:b\n"},
		"the rest of the second":   {"a\nb\n", []string{"1:a\n", "3:a\n4:b\n"}, 2, "1:a\n4:b\n"},
		"of nobody":                {"a\nx\n", []string{"1:a\n", "3:b\n"}, 2, "1:a\n9:x\n"},
		"a conflict has it twice":  {"a\nx\na\n", []string{"1:a\n", "3:x\n"}, 2, "1:a\n3:x\n1:a\n"},
		"it stands elsewhere":      {"c\nb\na\n", []string{"1:a\n2:b\n3:c\n"}, 1, "3:c\n2:b\n1:a\n"},
		"twice, and the first has": {"z\ny\n", []string{"1:y\n1:z\n", "2:y\n2:z\n"}, 2, "1:z\n1:y\n"},
		"no other":                 {"a\n", nil, 0, "9:a\n"},
	} {
		asked := 0
		var others iter.Seq2[Version, error] = func(yield func(Version, error) bool) {
			for _, o := range tt.others {
				asked++
				if !yield(version(o), nil) {
					return
				}
			}
		}
		got, err := Merge([]byte(tt.text), 9, Options{}, others)
		if err != nil || shown(got) != tt.want || asked != tt.asked {
			t.Errorf("%s: %q, %v, %d asked, want %q, %d", name, shown(got), err, asked, tt.want, tt.asked)
		}
	}
	broken := errors.New("broken")
	_, err := Merge([]byte("a\n"), 9, Options{}, func(yield func(Version, error) bool) { yield(Version{}, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("Merge of what cannot be read: %v", err)
	}
}

func TestWithout(t *testing.T) {
	v := version("1:a\n2:b\n1:c\n")
	got := shown(v.Without(1, 5, func(line string) bool { return line == "c\n" }))
	if want := "5:a\n2:b\n1:c\n"; got != want {
		t.Errorf("Without = %q, want %q", got, want)
	}
	if got := v.Lines.Count(); got != 3 {
		t.Errorf("Count = %d", got)
	}
	if got := First([]byte("a\nb"), 4); shown(got) != "4:a\n4:b" || len(got.Lines) != 1 {
		t.Errorf("First = %v", got.Lines)
	}
}
