package wire

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/nearmiss"
)

// FuzzLines: what is read through a small buffer is what is split in memory.
func FuzzLines(f *testing.F) {
	for _, b := range nearmiss.Of([]byte("a\n\nabcdefghijklmnopqrstuvwxyz\r\n\r\nlast")) {
		f.Add(b, uint8(20))
	}
	for most := range uint8(30) {
		f.Add([]byte("abcdefghijklmnopqrstuvwxyz\nabcdefghijklmnop\r\nabc\n\nlast"), most)
	}
	f.Fuzz(func(t *testing.T, in []byte, most uint8) {
		l := &LineReader{R: bufio.NewReaderSize(bytes.NewReader(in), 16), Max: int(most)}
		for {
			whole, rest, ok := bytes.Cut(in, []byte("\n"))
			got, err := l.Next()
			switch {
			case !ok && len(in) == 0:
				if err != io.EOF {
					t.Errorf("at the end: %q, %v", got, err)
				}
				return
			case !ok:
				if err != io.ErrUnexpectedEOF {
					t.Errorf("half a line %q: %q, %v", in, got, err)
				}
				return
			case len(whole) > int(most):
				if err != ErrLong {
					t.Errorf("long line %q: %q, %v", whole, got, err)
				}
			case err != nil || !bytes.Equal(got, bytes.TrimSuffix(whole, []byte("\r"))):
				t.Errorf("line %q: %q, %v", whole, got, err)
			}
			in = rest
		}
	})
}

func TestLineReader(t *testing.T) {
	in := "short\n" + strings.Repeat("x", 100) + "\n" + strings.Repeat("y", 50) + "\nlast"
	l := &LineReader{R: bufio.NewReaderSize(strings.NewReader(in), 16), Max: 60}
	var got []string
	for {
		line, err := l.Next()
		if err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil && err != ErrLong {
			t.Fatal(err)
		}
		if err == ErrLong {
			line = []byte("(long)")
		}
		got = append(got, string(line))
	}
	if want := []string{"short", "(long)", strings.Repeat("y", 50)}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}
