package words

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled when it is asked for first: a command
// that starts for a moment, as a hook does, needs few of those that there are. It panics then
// if it is none.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
