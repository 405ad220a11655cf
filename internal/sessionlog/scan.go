package sessionlog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/session"
)

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10000

// A scanner walks once over a line. It accepts exactly what [json.Valid]
// accepts, and remembers where the few values lie that an Entry is made of.
// As in JSON.parse, the last of several equal keys counts.
//
// Of a message, which may be megabytes, only the role is wanted: this takes an
// eighth of the time of json.Unmarshal on source code, a third on numbers
// (BenchmarkScan).
type scanner struct {
	b []byte
	i int // next byte

	// Values as they stand in the line; nil if absent.
	id, parentID, typ, customType, timestamp, data []byte
	role                                           []byte // of the message
	fromID, summary, skipFiles, details            []byte
}

// scan walks over the line and reports whether it is a JSON object.
func (s *scanner) scan() bool {
	s.space()
	ok := s.object(1, s.field)
	s.space()
	return ok && s.i == len(s.b)
}

// field takes the value of a key of the entry.
func (s *scanner) field(key []byte) bool {
	var to *[]byte
	switch string(key) {
	case "id":
		to = &s.id
	case "parentId":
		to = &s.parentID
	case "type":
		to = &s.typ
	case "customType":
		to = &s.customType
	case "timestamp":
		to = &s.timestamp
	case "data":
		to = &s.data
	case "fromId":
		to = &s.fromID
	case "summary":
		to = &s.summary
	case "skipFiles":
		to = &s.skipFiles
	case "details":
		to = &s.details
	case "message":
		s.role = nil
		if s.i < len(s.b) && s.b[s.i] == '{' {
			return s.object(2, s.messageField)
		}
	}
	return s.take(1, to)
}

// messageField takes the value of a key of the message.
func (s *scanner) messageField(key []byte) bool {
	var to *[]byte
	if string(key) == "role" {
		to = &s.role
	}
	return s.take(2, to)
}

// take walks over a value and notes where it lies, unless to is nil.
func (s *scanner) take(depth int, to *[]byte) bool {
	start := s.i
	ok := s.value(depth)
	if to != nil {
		*to = s.b[start:s.i]
	}
	return ok
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// next takes c, if that is the next byte after white space.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// value walks over a value that lies in depth arrays and objects.
func (s *scanner) value(depth int) bool {
	if s.i == len(s.b) {
		return false
	}
	switch s.b[s.i] {
	case '"':
		return s.str()
	case '{':
		return s.object(depth+1, nil)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// object walks over an object. At each value it calls field with the key; nil
// walks over the value too. The key is valid during the call only.
func (s *scanner) object(depth int, field func(key []byte) bool) bool {
	if !s.next('{') || depth > maxDepth {
		return false
	}
	if s.next('}') {
		return true
	}
	for {
		s.space()
		start := s.i
		if !s.str() {
			return false
		}
		key := s.b[start:s.i]
		if !s.next(':') {
			return false
		}
		s.space()
		if field == nil {
			if !s.value(depth) {
				return false
			}
		} else if !field(unquoteKey(key)) {
			return false
		}
		if s.next('}') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

func (s *scanner) array(depth int) bool {
	if !s.next('[') || depth > maxDepth {
		return false
	}
	if s.next(']') {
		return true
	}
	for {
		s.space()
		if !s.value(depth) {
			return false
		}
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// str walks over a string, eight bytes at a time where nothing in them needs
// a look: no quote, backslash or control character.
func (s *scanner) str() bool {
	if s.i == len(s.b) || s.b[s.i] != '"' {
		return false
	}
	b, i := s.b, s.i+1
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			if m := special(x); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i == len(b) {
			return false
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return false
			}
			i += n
		case c < 0x20:
			return false
		default:
			i++ // one of the last seven bytes
		}
	}
}

// special returns a word whose lowest set bit is in the lowest byte of x that
// is a quote, a backslash or below 0x20; zero if there is none. Higher bits
// mean nothing: the subtractions borrow.
func special(x uint64) uint64 {
	const each = 0x0101010101010101
	quote := x ^ each*'"'
	slash := x ^ each*'\\'
	return ((x-each*0x20)&^x | (quote-each)&^quote | (slash-each)&^slash) & (each * 0x80)
}

// escapeLen returns the length of the escape sequence that b begins with, 0 if
// it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return false
	}
	s.i += len(word)
	return true
}

// number walks over a number: -? (0 | 1-9 digits) (. digits)? (e sign? digits)?
func (s *scanner) number() bool {
	s.one("-")
	if !s.one("0") && !s.digits() {
		return false
	}
	if s.one(".") && !s.digits() {
		return false
	}
	if s.one("eE") {
		s.one("+-")
		return s.digits()
	}
	return true
}

// one takes the next byte, if it is one of set.
func (s *scanner) one(set string) bool {
	if s.i < len(s.b) && strings.IndexByte(set, s.b[s.i]) >= 0 {
		s.i++
		return true
	}
	return false
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// unquoteKey returns the text of a key; raw is a valid JSON string.
func unquoteKey(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	key, _ := text(raw)
	return []byte(key)
}

// text returns the string that raw is, a valid JSON value or nil, as
// encoding/json reads it: what is not Unicode becomes U+FFFD. It reports
// whether raw is a string at all.
func text(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		if word, ok := words[string(inner)]; ok {
			return word, true
		}
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// words are the strings that most entries have some of. They are shared, to
// keep a large session small in memory.
var words = makeWords("message", "custom", "custom_message", "branch_summary", "compaction",
	"model_change", "thinking_level_change", "label", "session_info", "usage", "context_edit",
	"user", "assistant", "toolResult", "bashExecution", "system", StepSnapshot, UnrevertPoint)

func makeWords(list ...string) map[string]string {
	words := make(map[string]string)
	for _, w := range list {
		words[w] = w
	}
	return words
}

// parseEntry reads a line. If it is no entry, reason says why. The entry holds
// no reference to the line.
func parseEntry(b []byte) (e session.Entry, reason string) {
	s := scanner{b: b}
	if !s.scan() {
		return session.Entry{}, "not a JSON object"
	}
	var ok bool
	if e.Type, ok = text(s.typ); !ok || e.Type == "" {
		return session.Entry{}, "no type"
	}
	if e.Type == "session" {
		return session.Entry{}, "a session header after line 1"
	}
	if e.ID, ok = text(s.id); !ok || e.ID == "" {
		return session.Entry{}, "no id"
	}
	if e.ParentID, ok = text(s.parentID); !ok && s.parentID != nil && string(s.parentID) != "null" {
		return session.Entry{}, "parentId is neither a string nor null"
	}
	timestamp, _ := text(s.timestamp)
	e.Timestamp = parseTime(timestamp)
	switch e.Type {
	case "message":
		e.Role, _ = text(s.role)
	case "custom", "custom_message":
		e.CustomType, _ = text(s.customType)
		if e.Type == "custom" && (e.CustomType == StepSnapshot || e.CustomType == UnrevertPoint) {
			e.Data = bytes.Clone(s.data)
		}
	case "branch_summary":
		e.FromID, _ = text(s.fromID)
		e.Summary, _ = text(s.summary)
		e.SkipFiles = string(s.skipFiles) == "true"
		e.Details = bytes.Clone(s.details)
	}
	return e, ""
}
