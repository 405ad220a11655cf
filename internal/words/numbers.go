package words

import (
	"fmt"
	"strconv"
	"strings"
)

// Comma writes a number with commas between thousands.
func Comma[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number of things: 1 file, 2 files.
func Count[T int | int64](n T, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y"):
		thing = thing[:len(thing)-1] + "ies"
	default:
		thing += "s"
	}
	return Comma(n) + " " + thing
}

// Size writes a number of bytes in two or three digits: 41 KB, 1.3 GB.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"KB", "MB", "GB", "TB", "PB", "EB"} {
		f /= 1000
		switch {
		case f < 9.95:
			return fmt.Sprintf("%.1f %s", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
