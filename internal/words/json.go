package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// CheckText returns an error that names a text in a JSON value that is none, since a byte of it
// is not UTF-8, or a \u escape is half of a character. Package json reads U+FFFD there: a path
// would be that of another file. name is the value's own.
func CheckText(name string, value []byte) error {
	if isText(value) {
		return nil
	}
	var object map[string]json.RawMessage
	var array []json.RawMessage
	switch value = bytes.TrimSpace(value); {
	case json.Unmarshal(value, &object) == nil:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if err := CheckText(fmt.Sprintf("%s.%.100s", name, key), object[key]); err != nil {
				return err
			}
		}
	case json.Unmarshal(value, &array) == nil:
		for i, v := range array {
			if err := CheckText(fmt.Sprintf("%s[%d]", name, i), v); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%s: it has a byte that is not UTF-8, or an escape that is half of a character", name)
}

// isText reports whether all texts in a JSON value are such.
func isText(value []byte) bool {
	for rest := value; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 == len(rest) {
			return utf8.Valid(value)
		}
		rest = rest[at:]
		switch unit := escaped(rest); {
		case unit < 0xd800 || unit > 0xdfff: // a character, or no \u escape
			rest = rest[2:]
		case unit < 0xdc00 && escaped(rest[6:])&^0x3ff == 0xdc00:
			rest = rest[12:]
		default:
			return false
		}
	}
}

// escaped returns what the \u escape at the beginning of a text stands for, 0 if there is none.
func escaped(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil { // no JSON
		return 0
	}
	return unit
}
