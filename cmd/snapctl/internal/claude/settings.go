package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Settings are edited in a tree that has every byte of them: what is not ours
// stays as it is. What we add must be found again, and taken out so that the text
// is what it was. Where it went into an object or a list that was empty, a blank
// behind it says so: such a container stays when ours goes, others go with it.

// ErrSettings: the text is not settings that may be edited.
var ErrSettings = errors.New("not settings in JSON")

// Timeout is what settings say of how long a hook may take, in seconds.
const Timeout = 30

// AddHooks returns settings with our command in the hooks of all events. Where a
// hook of ours has another path it gets this one, where it is among others (see
// [Mixed]) none is added. nil settings are a file that does not exist. The result
// is equal to the settings if nothing is to do. Errors match [ErrSettings].
func AddHooks(text []byte, command string) ([]byte, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	isBlank := s.top == nil
	if isBlank {
		s.top = &hujson.Object{}
	}
	for _, event := range Events() {
		if err := s.add(event, command); err != nil {
			return nil, err
		}
	}
	if isBlank {
		s.top.AfterExtra = hujson.Extra(s.eol)
		if text == nil {
			s.after = s.top.AfterExtra
		} else { // it was there
			s.after = append(hujson.Extra(" "), s.after...)
		}
	}
	return s.text(), nil
}

// RemoveHooks returns settings without hooks that are ours and nothing else. The
// result is nil if the file is ours alone. Errors match [ErrSettings].
func RemoveHooks(text []byte) ([]byte, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	if s.top == nil {
		return bytes.Clone(text), nil
	}
	for s.top != nil {
		if changed, err := s.removeOne(); err != nil {
			return nil, err
		} else if !changed {
			return s.text(), nil
		}
	}
	if !bytes.HasPrefix(s.after, []byte(" ")) {
		return nil, nil
	}
	return append([]byte(s.mark), s.after[1:]...), nil // the file was empty
}

// Mixed returns the commands of hooks that seem to run ours among others, or with
// redirections, say. They are the user's: neither changed nor removed.
func Mixed(text []byte) []string {
	s, err := parse(text)
	if err != nil || s.top == nil {
		return nil
	}
	all, err := s.hooks()
	if err != nil || all == nil {
		return nil
	}
	var list []string
	for i := range all.Members {
		for _, h := range hooksIn(&all.Members[i].Value) {
			if c := h.text(); isMixed(c) && !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// Disabled reports whether settings say that no hook is to run.
func Disabled(text []byte) bool {
	s, err := parse(text)
	if err != nil || s.top == nil {
		return false
	}
	v := member(s.top, "disableAllHooks")
	return v != nil && v.Value.Kind() == 't'
}

// settings are an object in a text, and how that is laid out.
type settings struct {
	mark          string // of the byte order, before all
	before, after hujson.Extra
	top           *hujson.Object // nil: all is blank, and in after
	eol           string         // "": all is in one line
	indent        string
}

const bom = "\ufeff"

func parse(text []byte) (*settings, error) {
	s := &settings{eol: "\n", indent: "  "}
	body := text
	if bytes.HasPrefix(text, []byte(bom)) {
		s.mark, body = bom, text[len(bom):]
	}
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		s.after = body
		return s, nil
	}
	err := json.Unmarshal(body, new(json.RawMessage)) // hujson takes more than JSON is
	if err == nil && !utf8.Valid(body) {
		err = errors.New("not UTF-8")
	}
	var v hujson.Value
	if err == nil {
		v, err = hujson.Parse(body)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	top, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%w: want an object", ErrSettings)
	}
	s.before, s.top, s.after = v.BeforeExtra, top, v.AfterExtra
	if bytes.Contains(text, []byte("\r\n")) {
		s.eol = "\r\n"
	}
	if len(top.Members) > 0 {
		before := top.Members[0].Name.BeforeExtra
		if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
			s.indent = string(before[i+1:])
		} else {
			s.eol, s.indent = "", ""
		}
	}
	return s, nil
}

func (s *settings) text() []byte {
	v := hujson.Value{BeforeExtra: s.before, Value: s.top, AfterExtra: s.after}
	return append([]byte(s.mark), v.Pack()...)
}

// member returns the value of a key of an object, of several the last, as readers
// have it; nil: there is none.
func member(of hujson.ValueTrimmed, key string) *hujson.Value {
	o, ok := of.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := range slices.Backward(o.Members) {
		if o.Members[i].Name.Value.(hujson.Literal).String() == key {
			return &o.Members[i].Value
		}
	}
	return nil
}

// hooks returns the hooks of all events; nil: there are none.
func (s *settings) hooks() (*hujson.Object, error) {
	v := member(s.top, "hooks")
	if v == nil {
		return nil, nil
	}
	all, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%w: hooks: want an object", ErrSettings)
	}
	return all, nil
}

// A hook that has a command is list[i] of the group groups[g] of its event.
type hook struct {
	groups, list *hujson.Array
	g, i         int
	command      *hujson.Value
}

func (h hook) text() string { return h.command.Value.(hujson.Literal).String() }

// hooksIn returns those of an event.
func hooksIn(event *hujson.Value) (found []hook) {
	groups, ok := event.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	for g, group := range groups.Elements {
		hooks := member(group.Value, "hooks")
		if hooks == nil {
			continue
		}
		list, ok := hooks.Value.(*hujson.Array)
		if !ok {
			continue
		}
		for i, h := range list.Elements {
			if c := member(h.Value, "command"); c != nil && c.Value.Kind() == '"' {
				found = append(found, hook{groups, list, g, i, c})
			}
		}
	}
	return found
}

// add adds our command to an event, unless it is there.
func (s *settings) add(event, command string) error {
	all, err := s.hooks()
	if err != nil {
		return err
	}
	hasNone := all == nil
	if hasNone {
		all = &hujson.Object{}
	}
	v, groups := member(all, event), &hujson.Array{}
	if v != nil {
		var ok bool
		if groups, ok = v.Value.(*hujson.Array); !ok {
			return fmt.Errorf("%w: hooks.%s: want a list", ErrSettings, event)
		}
		for _, h := range hooksIn(v) {
			have, ok := parseCommand(h.text())
			if !ok && !isMixed(h.text()) {
				continue
			}
			if want, _ := parseCommand(command); ok && have.with(want) != have {
				h.command.Value = hujson.String(have.with(want).String())
			}
			return nil
		}
	}
	g := group(event, command)
	g.BeforeExtra = s.begin(3, len(groups.Elements), &groups.AfterExtra)
	groups.Elements = append(groups.Elements, g)
	if v == nil {
		groups.AfterExtra = s.line(2)
		s.addMember(2, all, event, groups)
	}
	if hasNone {
		all.AfterExtra = s.line(1)
		s.addMember(1, s.top, "hooks", all)
	}
	return nil
}

// group returns the entry of an event.
func group(event, command string) hujson.Value {
	matcher := ""
	switch event {
	case ToolStart, ToolEnd, ToolFailed, ToolRefused:
		matcher = `"matcher": "*", `
	}
	v, err := hujson.Parse(fmt.Appendf(nil, `{%s"hooks": [{"type": "command", "command": %s, "timeout": %d}]}`, matcher,
		[]byte(hujson.String(command)), Timeout))
	if err != nil {
		panic("claude: internal error: " + err.Error())
	}
	return v
}

func (s *settings) addMember(depth int, to *hujson.Object, key string, v hujson.ValueTrimmed) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: v}}
	m.Name.BeforeExtra = s.begin(depth, len(to.Members), &to.AfterExtra)
	to.Members = append(to.Members, m)
}

// line begins a line at a depth.
func (s *settings) line(depth int) hujson.Extra {
	return hujson.Extra(s.eol + strings.Repeat(s.indent, depth))
}

// begin returns what is before a member that comes behind n others. One that is
// alone gets the blank behind it: end is what is at the end of the container.
func (s *settings) begin(depth, n int, end *hujson.Extra) hujson.Extra {
	switch {
	case n == 0:
		*end = append(hujson.Extra(" "), *end...)
	case s.eol == "":
		return hujson.Extra(" ")
	}
	return s.line(depth)
}

// removeOne takes out one hook of ours, with the containers that it alone was in,
// which may be all.
func (s *settings) removeOne() (changed bool, err error) {
	all, err := s.hooks()
	if err != nil || all == nil {
		return false, err
	}
	for e := range all.Members {
		for _, h := range hooksIn(&all.Members[e].Value) {
			if !IsOurs(h.text()) {
				continue
			}
			i := slices.IndexFunc(s.top.Members, func(m hujson.ObjectMember) bool { return m.Value.Value == all })
			if !remove(&h.list.Elements, h.i, &h.list.AfterExtra, aroundValue) &&
				!remove(&h.groups.Elements, h.g, &h.groups.AfterExtra, aroundValue) &&
				!remove(&all.Members, e, &all.AfterExtra, aroundMember) &&
				!remove(&s.top.Members, i, &s.top.AfterExtra, aroundMember) {
				s.top = nil
			}
			return true, nil
		}
	}
	return false, nil
}

func aroundValue(v *hujson.Value) (before, after *hujson.Extra) {
	return &v.BeforeExtra, &v.AfterExtra
}

func aroundMember(m *hujson.ObjectMember) (before, after *hujson.Extra) {
	return &m.Name.BeforeExtra, &m.Value.AfterExtra
}

// remove takes one out of a list, unless it is alone and the container should go,
// too. End is what is at the end of the container.
func remove[E any](list *[]E, i int, end *hujson.Extra, around func(*E) (before, after *hujson.Extra)) bool {
	before, after := around(&(*list)[i])
	switch {
	case i > 0:
		_, last := around(&(*list)[i-1])
		*last = *after
	case len(*list) > 1:
		next, _ := around(&(*list)[1])
		*next = *before
	case bytes.HasPrefix(*end, []byte(" ")): // it was there, and empty
		*end = (*end)[1:]
	default:
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}
