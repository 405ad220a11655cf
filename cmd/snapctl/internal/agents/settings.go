package agents

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
// [Agent.Mixed]) none is added. nil settings are a file that does not exist. The result
// is equal to the settings if nothing is to do. Errors match [ErrSettings].
func (a *Agent) AddHooks(text []byte, command string) ([]byte, error) {
	s, err := a.parse(text)
	if err != nil {
		return nil, err
	}
	isBlank := s.top == nil
	if isBlank {
		s.top = &hujson.Object{}
	}
	for i := range a.events {
		if err := s.add(&a.events[i], command); err != nil {
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
func (a *Agent) RemoveHooks(text []byte) ([]byte, error) {
	s, err := a.parse(text)
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

// Programs returns what hooks that are ours alone run, each once, without quotes: a path, or a
// name that PATH finds. Those with variables are left out.
func (a *Agent) Programs(text []byte) []string {
	var list []string
	a.eachCommand(text, func(text string) {
		c, ok := a.parseCommand(text)
		if program := plainWord(c.program); ok && !strings.ContainsAny(program, "$~") &&
			!slices.Contains(list, program) {
			list = append(list, program)
		}
	})
	return list
}

// Mixed returns the commands of hooks that seem to run ours among others, or with
// redirections, say. They are the user's: neither changed nor removed.
func (a *Agent) Mixed(text []byte) []string {
	var list []string
	a.eachCommand(text, func(c string) {
		if a.isMixed(c) && !slices.Contains(list, c) {
			list = append(list, c)
		}
	})
	return list
}

// eachCommand calls fn with the command of each hook. Of what are no settings there are none.
func (a *Agent) eachCommand(text []byte, fn func(command string)) {
	s, err := a.parse(text)
	if err != nil || s.top == nil {
		return
	}
	all, err := s.hooks()
	if err != nil || all == nil {
		return
	}
	for i := range all.Members {
		for _, h := range hooksIn(&all.Members[i].Value) {
			fn(h.text())
		}
	}
}

// Disabled reports whether settings say that no hook is to run.
func (a *Agent) Disabled(text []byte) bool {
	s, err := a.parse(text)
	if err != nil || s.top == nil {
		return false
	}
	var of hujson.ValueTrimmed = s.top
	for _, key := range a.off {
		v := member(of, key)
		if v == nil {
			return false
		}
		of = v.Value
	}
	return len(a.off) > 0 && of.Kind() == hujson.Bool(a.offIs).Kind()
}

// settings are an object in a text, and how that is laid out.
type settings struct {
	agent         *Agent
	mark          string // of the byte order, before all
	before, after hujson.Extra
	top           *hujson.Object // nil: all is blank, and in after
	eol           string         // "": all is in one line
	indent        string
}

const bom = "\ufeff"

func (a *Agent) parse(text []byte) (*settings, error) {
	s := &settings{agent: a, eol: "\n", indent: "  "}
	body := text
	if bytes.HasPrefix(text, []byte(bom)) {
		s.mark, body = bom, text[len(bom):]
	}
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		s.after = body
		return s, nil
	}
	v, err := hujson.Parse(slices.Concat(body, []byte("\n"))) // at which a comment may end
	v.AfterExtra = bytes.TrimSuffix(v.AfterExtra, []byte("\n"))
	if err == nil && !utf8.Valid(body) {
		err = errors.New("not UTF-8")
	}
	if err == nil && !a.comments { // hujson takes more than JSON is
		err = json.Unmarshal(body, new(json.RawMessage))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrSettings, strings.TrimPrefix(err.Error(), "hujson: "))
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
func (s *settings) add(e *event, command string) error {
	all, err := s.hooks()
	if err != nil {
		return err
	}
	hasNone := all == nil
	if hasNone {
		all = &hujson.Object{}
	}
	v, groups := member(all, e.theirs), &hujson.Array{}
	if v != nil {
		var ok bool
		if groups, ok = v.Value.(*hujson.Array); !ok {
			return fmt.Errorf("%w: hooks.%s: want a list", ErrSettings, e.theirs)
		}
		for _, h := range hooksIn(v) {
			have, ok := s.agent.parseCommand(h.text())
			if !ok && !s.agent.isMixed(h.text()) {
				continue
			}
			if want, _ := s.agent.parseCommand(command); ok && have.with(want) != have {
				h.command.Value = hujson.String(have.with(want).String())
			}
			return nil
		}
	}
	g := s.agent.group(e, command)
	var before *hujson.Value
	if n := len(groups.Elements); n > 0 {
		before = &groups.Elements[n-1]
	}
	s.begin(3, before, &g.BeforeExtra, &g.AfterExtra, &groups.AfterExtra)
	groups.Elements = append(groups.Elements, g)
	if v == nil {
		groups.AfterExtra = s.line(2)
		s.addMember(2, all, e.theirs, groups)
	}
	if hasNone {
		all.AfterExtra = s.line(1)
		s.addMember(1, s.top, "hooks", all)
	}
	return nil
}

// group returns the entry of an event.
func (a *Agent) group(e *event, command string) hujson.Value {
	matcher, timeout := "", Timeout
	if a.ending != 0 && (e.ours == Interrupted || e.ours == SessionEnd) {
		timeout = a.ending
	}
	if e.tool {
		matcher = `"matcher": "*", `
	}
	v, err := hujson.Parse(fmt.Appendf(nil, `{%s"hooks": [{"type": "command", "command": %s, "timeout": %d}]}`, matcher,
		[]byte(hujson.String(command)), timeout*a.second))
	if err != nil {
		panic("agents: internal error: " + err.Error())
	}
	return v
}

func (s *settings) addMember(depth int, to *hujson.Object, key string, v hujson.ValueTrimmed) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: v}}
	var before *hujson.Value
	if n := len(to.Members); n > 0 {
		before = &to.Members[n-1].Value
	}
	s.begin(depth, before, &m.Name.BeforeExtra, &m.Value.AfterExtra, &to.AfterExtra)
	to.Members = append(to.Members, m)
}

// line begins a line at a depth.
func (s *settings) line(depth int) hujson.Extra {
	return hujson.Extra(s.eol + strings.Repeat(s.indent, depth))
}

// begin lays out what is put behind the last one of a container, or into an empty one:
// what is before it, behind it, and at the end of the container. A comment behind the
// one before stays there, and a comma at the end stays at the end.
func (s *settings) begin(depth int, last *hujson.Value, before, behind, end *hujson.Extra) {
	*before = s.line(depth)
	switch {
	case last == nil: // the blank says that the container was there
		*end = append(hujson.Extra(" "), *end...)
		return
	case s.eol == "":
		*before = hujson.Extra(" ")
	default:
		line := max(bytes.LastIndexByte(*end, '\n'), 0)
		if said, rest := (*end)[:line], (*end)[line:]; hasComment(said) && !hasComment(rest) {
			*before, *end = concat(said, *before), rest
		}
	}
	if last.AfterExtra != nil {
		*behind = hujson.Extra{}
	}
}

// hasComment reports whether there is more than blanks.
func hasComment(e hujson.Extra) bool { return len(bytes.TrimSpace(e)) > 0 }

// concat returns some extras behind each other, nil if none is there.
func concat(list ...hujson.Extra) (all hujson.Extra) {
	for _, e := range list {
		if e != nil {
			all = append(append(hujson.Extra{}, all...), e...)
		}
	}
	return all
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
			if !s.agent.IsOurs(h.text()) {
				continue
			}
			i := slices.IndexFunc(s.top.Members, func(m hujson.ObjectMember) bool { return m.Value.Value == all })
			if remove(&h.list.Elements, h.i, &h.list.AfterExtra, s.line(5), aroundValue) ||
				remove(&h.groups.Elements, h.g, &h.groups.AfterExtra, s.line(3), aroundValue) ||
				remove(&all.Members, e, &all.AfterExtra, s.line(2), aroundMember) ||
				remove(&s.top.Members, i, &s.top.AfterExtra, s.line(1), aroundMember) {
				return true, nil
			}
			if hasComment(s.before) || hasComment(s.after) {
				s.top.Members = nil
			} else {
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

// remove takes one out of a list, unless it is alone and the container should go, too.
// end is what is at the end of the container, line what we put before one. Comments stay.
func remove[E any](list *[]E, i int, end *hujson.Extra, line hujson.Extra,
	around func(*E) (before, after *hujson.Extra)) bool {
	before, after := around(&(*list)[i])
	var said hujson.Extra // in comments
	if hasComment(*before) {
		said = bytes.TrimSuffix(*before, line)
	}
	if i == len(*list)-1 {
		switch {
		case i > 0 && *after != nil: // there is a comma at the end
			_, last := around(&(*list)[i-1])
			*last = concat(*last, *after)
		case i > 0:
			_, last := around(&(*list)[i-1])
			said, *last = concat(*last, said), nil
		case bytes.HasPrefix(*end, []byte(" ")): // the container was there, and empty
			*end = (*end)[1:]
			said = concat(said, commentIn(*after))
		case said != nil || hasComment(*after) || hasComment(*end):
			said = concat(said, commentIn(*after))
		default:
			return false
		}
		*end = concat(said, *end)
	} else {
		next, _ := around(&(*list)[i+1])
		switch {
		case i > 0:
			_, last := around(&(*list)[i-1])
			*last = concat(*last, commentIn(*after))
		case !hasComment(*next):
			said, *next = *before, commentIn(*after)
		}
		*next = concat(said, *next)
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}

// commentIn returns what is more than blanks, nil if nothing is.
func commentIn(e hujson.Extra) hujson.Extra {
	if !hasComment(e) {
		return nil
	}
	return e
}
