package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/rollback"
)

// TestControlsInErrors has an error have a name as the system has it, or what a server has said: no terminal obeys it,
// whatever line of the output it is in.
func TestControlsInErrors(t *testing.T) {
	nasty := errors.New("open \x1b[2J \u009b31m \u202e: permission denied")
	user, program := terminal(t)
	done := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
		done <- b
	}()
	a := newApp(nil, nil, program, program, func(string) string { return "" })
	a.report(nasty)
	a.tell("warning: %v", nasty)
	a.warnNear(nasty)
	a.printItem(&rollback.Item{Path: "f", Do: rollback.Failed, Why: nasty.Error()}, false, "", "", "")
	a.out.Flush()
	var answer bytes.Buffer
	if err := tellUser(&answer, nasty.Error()); err != nil {
		t.Error(err)
	}
	fmt.Fprint(program, answer.String())
	program.Close()
	seen := strings.ReplaceAll(string(<-done), "\r\n", "\n")
	if n := strings.Count(seen, "permission denied"); n != 5 {
		t.Errorf("%d errors are said in %q", n, seen)
	}
	for line := range strings.Lines(seen) {
		if words.Plain(line) != line || strings.Contains(line, `\u001b`) {
			t.Errorf("a terminal gets %q", line)
		}
	}
}
