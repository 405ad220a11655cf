package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/boocode/filestore/manager"
)

// A turn that changed nothing is no line where another is of the same turn. "1" is turn 1,
// "1-" the same if it changed nothing, "o" what no turn did.
func TestWithoutIdle(t *testing.T) {
	for list, want := range map[string]string{
		"":                        "",
		"1- o 0- s":               "1- o 0- s",
		"1- 1 0- 0 s":             "1 0 s",
		"1 1- 0 0- s":             "1 0 s",
		"1- 1- 1- s":              "1- s",
		"1- o 1- o 1 0- s":        "o o 1 0- s",
		"1 o 1- o 1 s":            "1 o o 1 s",
		"2- o 1- 1 o 0 0- 0- s":   "2- o 1 o 0 s",
		"1- 1 error 0- 0 ignored": "1 error",
		"1- error":                "1- error",
	} {
		words := strings.Fields(list)
		lines := func(yield func(*logLine, error) bool) {
			for _, word := range words {
				mo := &manager.Moment{TurnIndex: -1, Kind: word}
				if word == "error" {
					yield(nil, errors.New(word))
					return
				}
				if n, err := fmt.Sscan(strings.TrimSuffix(word, "-"), &mo.TurnIndex); n == 1 && err == nil {
					mo.Kind = "step"
				}
				if strings.HasSuffix(word, "-") {
					mo.Kind = "empty"
				}
				mo.Title = word
				if !yield(&logLine{Moment: mo}, nil) {
					return
				}
			}
		}
		var got []string
		for l, err := range withoutIdle(lines) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, l.Title)
		}
		if have := strings.Join(got, " "); have != want {
			t.Errorf("%q: %q, want %q", list, have, want)
		}
		for range withoutIdle(lines) { // who has seen enough leaves
			break
		}
	}
}

func TestStandingText(t *testing.T) {
	for _, c := range []struct {
		mo   manager.Moment
		want string
	}{
		{manager.Moment{Kind: "restore", TookBack: []int{0, 1}}, "took back turns 0, 1"},
		{manager.Moment{Kind: "restore", TookBack: []int{0, 1}, PartOf: []int{0}},
			"took back turn 1 and a part of turn 0"},
		{manager.Moment{Kind: "undo", PutBack: []int{0}, PartOf: []int{0}}, "put back a part of turn 0"},
		{manager.Moment{Kind: "restore", Reverts: []int{2}}, "took back a part of turn 2"},
		{manager.Moment{Kind: "restore", Aborted: true}, "aborted: these files were changed back"},
		{manager.Moment{Kind: "step", Without: []string{"a", "b"}, InPart: []string{"b"}},
			"in part: without a and a part of b"},
	} {
		if got := standingText(&c.mo, nil); got != c.want {
			t.Errorf("%+v: %q, want %q", c.mo, got, c.want)
		}
	}
}
