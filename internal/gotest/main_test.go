package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// events are those of a run in which one test of a kind each passes, fails, is skipped, and
// does not end.
const events = `{"ImportPath":"m/broken","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"Action":"run","Package":"m/a","Test":"TestPass"}
{"Action":"output","Package":"m/a","Test":"TestPass","Output":"=== RUN   TestPass\n"}
{"Action":"output","Package":"m/a","Test":"TestPass","Output":"    a_test.go:3: a log that nobody needs\n"}
{"Action":"pass","Package":"m/a","Test":"TestPass"}
{"Action":"output","Package":"m/a","Test":"TestSkip/git","Output":"=== RUN   TestSkip/git\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip/git","Output":"    a_test.go:5: a log\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip/git","Output":"    a_test.go:7: SKIPPED: no git:\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip/git","Output":"        it is not installed\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip/git","Output":"    --- SKIP: TestSkip/git (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip/git"}
{"Action":"output","Package":"m/a","Test":"TestSilent","Output":"--- SKIP: TestSilent (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSilent"}
{"Action":"output","Package":"m/a","Test":"TestScript","Output":"    testscript.go:1: WORK=$WORK\n"}
{"Action":"output","Package":"m/a","Test":"TestScript","Output":"        > exec skip-nothing\n"}
{"Action":"output","Package":"m/a","Test":"TestScript","Output":"        > [root] skip\n"}
{"Action":"skip","Package":"m/a","Test":"TestScript"}
{"Action":"output","Package":"m/a","Test":"TestFail","Output":"=== RUN   TestFail\n"}
{"Action":"output","Package":"m/a","Test":"TestFail","Output":"    a_test.go:9: one is not two\n"}
{"Action":"output","Package":"m/a","Test":"TestFail","Output":"--- FAIL: TestFail (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestFail"}
{"Action":"output","Package":"m/a","Test":"TestPanic","Output":"panic: at once\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}
{"Action":"output","Package":"m/b","Output":"PASS\n"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.2s\n"}
{"Action":"pass","Package":"m/b"}
{"Action":"skip","Package":"m/none"}
go: a line of go itself
`

const want = `x.go:1: undefined: y
    a_test.go:9: one is not two
--- FAIL: TestFail (0.00s)
FAIL	m/a	0.1s
panic: at once
ok  	m/b	0.2s
go: a line of go itself

Not tested, and why:
    1  SKIPPED: no git: it is not installed
       a.TestSkip/git
    1  [root] skip
       a.TestScript
    1  no reason
       a.TestSilent

1 passed, 1 failed, 3 skipped
`

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, said: make(map[test][]string)}
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if unexpected := r.end(nil, false); unexpected || out.String() != want {
		t.Errorf("it prints (unexpected: %v)\n%s\nwant\n%s", unexpected, &out, want)
	}
	for pattern, want := range map[string]bool{`SKIPPED: no git|no reason|\[root\] skip`: false, `no git|no reason|\[root\]`: true} {
		out.Reset()
		got := r.end([]*regexp.Regexp{regexp.MustCompile("^(?:" + pattern + ")")}, true)
		if got != want || strings.Contains(out.String(), "NOT ALLOWED HERE: SKIPPED: no git") != want {
			t.Errorf("where %q is allowed: unexpected %v, want %v:\n%s", pattern, got, want, &out)
		}
	}
}

func TestReadAllowed(t *testing.T) {
	for content, want := range map[string]int{"# a comment\n\nSKIPPED: a\tit is so\nb.*\tand so\n": 2,
		"SKIPPED: a\n": -1, "a(\twhy\n": -1} {
		file := filepath.Join(t.TempDir(), "skips")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := readAllowed(file); (err != nil) != (want < 0) || err == nil && len(list) != want {
			t.Errorf("readAllowed(%q) = %v, %v, want %d", content, list, err, want)
		}
	}
	if _, err := readAllowed("../../.ci/skips"); err != nil {
		t.Error(err)
	}
}
