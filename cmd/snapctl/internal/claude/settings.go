package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Settings are edited as text: what is not ours keeps every byte. What we add
// must be found again, and taken out so that the text is what it was. Where it
// went into an object or a list that was empty, a blank behind it says so: such a
// container stays when ours goes, others go with it.

// ErrSettings: the text is not settings that may be edited.
var ErrSettings = errors.New("not settings in JSON")

// Timeout is what settings say of how long a hook may take, in seconds.
const Timeout = 30

// AddHooks returns settings with our command in the hooks of all events. Where a
// hook of ours has another path it gets this one, where it is among others (see
// [Mixed]) none is added. nil settings are a file that does not exist. The result
// is equal to the settings if nothing is to do. Errors match [ErrSettings].
func AddHooks(settings []byte, command string) ([]byte, error) {
	s, err := parse(settings)
	if err != nil {
		return nil, err
	}
	if s.isBlank() {
		return s.create(command), nil
	}
	for _, event := range Events() {
		if err := s.add(event, command); err != nil {
			return nil, err
		}
	}
	return s.text, nil
}

// RemoveHooks returns settings without hooks that are ours and nothing else. The
// result is nil if the file is ours alone. Errors match [ErrSettings].
func RemoveHooks(settings []byte) ([]byte, error) {
	s, err := parse(settings)
	if err != nil {
		return nil, err
	}
	if s.isBlank() {
		return s.text, nil
	}
	for {
		changed, gone, err := s.removeOne()
		if err != nil {
			return nil, err
		}
		if gone {
			return nil, nil
		}
		if !changed {
			return s.text, nil
		}
	}
}

// Mixed returns the commands of hooks that seem to run ours among others, or with
// redirections, say. They are the user's: neither changed nor removed.
func Mixed(settings []byte) []string {
	s, err := parse(settings)
	if err != nil || s.isBlank() {
		return nil
	}
	all, err := s.at('{', "hooks")
	if err != nil || all == nil {
		return nil
	}
	var list []string
	for _, event := range s.members(*all) {
		for _, c := range s.commandsIn(*event.value) {
			if isMixed(c.key) && !slices.Contains(list, c.key) {
				list = append(list, c.key)
			}
		}
	}
	return list
}

// Disabled reports whether settings say that no hook is to run.
func Disabled(settings []byte) bool {
	s, err := parse(settings)
	if err != nil || s.isBlank() {
		return false
	}
	v := s.member(s.value(s.start), "disableAllHooks")
	return v != nil && string(s.text[v.from:v.to]) == "true"
}

// settings are a text, and how it is laid out.
type settings struct {
	text   []byte
	start  int    // behind a byte order mark
	eol    string // "": all is in one line
	indent string
}

const bom = "\ufeff"

func parse(text []byte) (*settings, error) {
	s := &settings{text: bytes.Clone(text), eol: "\n", indent: "  "}
	if bytes.HasPrefix(text, []byte(bom)) {
		s.start = len(bom)
	}
	if s.isBlank() {
		return s, nil
	}
	body := text[s.start:]
	if !json.Valid(body) || !utf8.Valid(body) {
		var v any
		err := json.Unmarshal(body, &v)
		if err == nil {
			err = errors.New("not UTF-8")
		}
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		s.eol = "\r\n"
	}
	top := s.value(s.start)
	if s.text[top.from] != '{' {
		return nil, fmt.Errorf("%w: want an object", ErrSettings)
	}
	if list := s.members(top); len(list) > 0 {
		before := s.text[top.from+1 : list[0].from]
		if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
			s.indent = string(before[i+1:])
		} else {
			s.eol, s.indent = "", ""
		}
	}
	return s, nil
}

func (s *settings) isBlank() bool { return s.blank(s.start) == len(s.text) }

// A span is a value, or a member of an object with its key.
type span struct {
	from, to int
	key      string
	value    *span // of a member
}

// blank returns the first place from i on that is not blank.
func (s *settings) blank(i int) int {
	for i < len(s.text) && strings.IndexByte(" \t\r\n", s.text[i]) >= 0 {
		i++
	}
	return i
}

// value returns the value at i or behind blanks there. The text is valid.
func (s *settings) value(i int) span {
	from := s.blank(i)
	i = from
	for depth := 0; ; {
		switch s.text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			for i++; s.text[i] != '"'; i++ {
				if s.text[i] == '\\' {
					i++
				}
			}
		default:
			if depth == 0 { // a number or a name
				for i < len(s.text) && strings.IndexByte(" \t\r\n,:]}", s.text[i]) < 0 {
					i++
				}
				return span{from: from, to: i}
			}
		}
		if i++; depth == 0 {
			return span{from: from, to: i}
		}
	}
}

// members returns what an object or a list holds.
func (s *settings) members(of span) (list []span) {
	object := s.text[of.from] == '{'
	for i := s.blank(of.from + 1); i < of.to-1; {
		m := s.value(i)
		if object {
			v := s.value(s.blank(m.to) + 1)
			json.Unmarshal(s.text[m.from:m.to], &m.key)
			m.to, m.value = v.to, &v
		}
		list = append(list, m)
		if i = s.blank(m.to); s.text[i] == ',' {
			i = s.blank(i + 1)
		}
	}
	return list
}

// member returns the value of a key, of several the last, as readers have it;
// nil: there is none.
func (s *settings) member(of span, key string) *span {
	var found *span
	for _, m := range s.members(of) {
		if m.key == key {
			found = m.value
		}
	}
	return found
}

// at returns the value at a path of keys, which must begin with that byte.
func (s *settings) at(begins byte, keys ...string) (*span, error) {
	v := s.value(s.start)
	for i, key := range keys {
		want := byte('{')
		if i == len(keys)-1 {
			want = begins
		}
		m := s.member(v, key)
		if m == nil {
			return nil, nil
		}
		if s.text[m.from] != want {
			return nil, fmt.Errorf("%w: %s: want %q", ErrSettings, strings.Join(keys[:i+1], "."), want)
		}
		v = *m
	}
	return &v, nil
}

// replace puts text in the place of what is there.
func (s *settings) replace(from, to int, text string) {
	s.text = append(append(bytes.Clone(s.text[:from]), text...), s.text[to:]...)
}

// quote returns a text as JSON.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text) // a text always has one
	return strings.TrimSuffix(b.String(), "\n")
}

// group returns the entry of an event.
func group(event, command string) string {
	matcher := ""
	switch event {
	case ToolStart, ToolEnd, ToolFailed, ToolRefused:
		matcher = `"matcher": "*", `
	}
	return fmt.Sprintf(`{%s"hooks": [{"type": "command", "command": %s, "timeout": %d}]}`, matcher, quote(command), Timeout)
}

// line begins a line at a depth.
func (s *settings) line(depth int) string {
	return s.eol + strings.Repeat(s.indent, depth)
}

// event returns the member of an event.
func (s *settings) event(event, command string) string {
	return quote(event) + ": [" + s.line(3) + group(event, command) + s.line(2) + "]"
}

// create returns the settings of a file that is empty, or does not exist.
func (s *settings) create(command string) []byte {
	var b strings.Builder
	b.Write(s.text[:s.start])
	b.WriteString("{" + s.line(1) + `"hooks": {`)
	for i, event := range Events() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.line(2) + s.event(event, command))
	}
	b.WriteString(s.line(1) + "}" + s.eol + "}")
	if s.text == nil {
		b.WriteString(s.eol)
	} else { // it was there
		b.WriteByte(' ')
		b.Write(s.text[s.start:])
	}
	return []byte(b.String())
}

// add adds our command to an event, unless it is there.
func (s *settings) add(event, command string) error {
	for _, c := range s.commands(event) {
		have, ok := parseCommand(c.key)
		if !ok && !isMixed(c.key) {
			continue
		}
		if want, _ := parseCommand(command); ok && have.with(want) != have {
			s.replace(c.value.from, c.value.to, quote(have.with(want).String()))
		}
		return nil
	}
	all, err := s.at('{', "hooks")
	if err != nil {
		return err
	}
	if all == nil {
		s.insert(s.value(s.start), 1, `"hooks": {`+s.line(2)+s.event(event, command)+s.line(1)+"}")
		return nil
	}
	groups, err := s.at('[', "hooks", event)
	if err != nil {
		return err
	}
	if groups == nil {
		s.insert(*all, 2, s.event(event, command))
		return nil
	}
	s.insert(*groups, 3, group(event, command))
	return nil
}

// insert adds a member at the end of an object or a list.
func (s *settings) insert(into span, depth int, member string) {
	if list := s.members(into); len(list) > 0 {
		sep := ","
		if s.eol == "" {
			sep = ", "
		}
		at := list[len(list)-1].to
		s.replace(at, at, sep+s.line(depth)+member)
		return
	}
	s.replace(into.from+1, into.from+1, s.line(depth)+member+" ")
}

// commands returns the commands of an event: the value as the span, its text as
// the key.
func (s *settings) commands(event string) (list []span) {
	groups, err := s.at('[', "hooks", event)
	if err != nil || groups == nil {
		return nil
	}
	return s.commandsIn(*groups)
}

// commandsIn returns those of a list of groups.
func (s *settings) commandsIn(groups span) (list []span) {
	if s.text[groups.from] != '[' {
		return nil
	}
	for _, g := range s.members(groups) {
		list = append(list, s.commandsOf(g)...)
	}
	return list
}

// commandsOf returns those of a group; from and to are of the hook.
func (s *settings) commandsOf(group span) (list []span) {
	if s.text[group.from] != '{' {
		return nil
	}
	hooks := s.member(group, "hooks")
	if hooks == nil || s.text[hooks.from] != '[' {
		return nil
	}
	for _, h := range s.members(*hooks) {
		if s.text[h.from] != '{' {
			continue
		}
		if c := s.member(h, "command"); c != nil {
			var text string
			if json.Unmarshal(s.text[c.from:c.to], &text) == nil {
				list = append(list, span{from: h.from, to: h.to, key: text, value: c})
			}
		}
	}
	return list
}

// removeOne takes out one hook of ours, with the containers that it alone was in.
// Gone: that was the whole text.
func (s *settings) removeOne() (changed, gone bool, err error) {
	top := s.value(s.start)
	all, err := s.at('{', "hooks")
	if err != nil || all == nil {
		return false, false, err
	}
	for _, event := range s.members(*all) {
		if s.text[event.value.from] != '[' {
			continue
		}
		for _, g := range s.members(*event.value) {
			for _, c := range s.commandsOf(g) {
				if !IsOurs(c.key) {
					continue
				}
				hooks := s.member(g, "hooks")
				for _, container := range []struct{ of, member span }{
					{*hooks, c}, {*event.value, g}, {*all, event}, {top, s.memberOf(top, *all)}} {
					if s.remove(container.of, container.member) {
						return true, false, nil
					}
				}
				// Nothing else is in the text.
				if top.to < len(s.text) && s.text[top.to] == ' ' { // an empty file
					s.replace(s.start, top.to+1, "")
					return false, false, nil
				}
				return true, true, nil
			}
		}
	}
	return false, false, nil
}

// memberOf returns the member that has a value.
func (s *settings) memberOf(of, value span) span {
	for _, m := range s.members(of) {
		if m.value.from == value.from {
			return m
		}
	}
	panic("claude: internal error: no such member")
}

// remove takes a member out, unless it is alone and the container should go, too.
func (s *settings) remove(of, member span) bool {
	list := s.members(of)
	for i, m := range list {
		if m.from != member.from {
			continue
		}
		switch {
		case i > 0:
			s.replace(list[i-1].to, m.to, "")
		case len(list) > 1:
			s.replace(m.from, list[1].from, "")
		case s.text[m.to] == ' ' && m.to+1 <= of.to: // it was there, and empty
			s.replace(of.from+1, m.to+1, "")
		default:
			return false
		}
		return true
	}
	return false
}
