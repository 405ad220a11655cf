package words

import "unicode/utf8"

// BytesUnlessText returns the bytes of a text that JSON cannot hold, nil if it can: that
// is, if the text is UTF-8. They come beside it.
func BytesUnlessText(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// TextOrBytes returns the text that came in JSON as s, and, if that could not hold it,
// as b beside it.
func TextOrBytes(s string, b []byte) string {
	if b != nil {
		return string(b)
	}
	return s
}

// OrNull returns what JSON shows for a string, null if it is empty.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
