package mcp

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/words"
)

// choices are the values that arguments of these names may have.
var choices = map[string][]string{
	"onDirty":    {"merge", "skip", "overwrite", "abort"},
	"onConflict": {"keep", "theirs", "markers", "abort"},
	"show":       {"diff", "old", "new"},
	"format":     {"search-replace", "v4a", "udiff", "edits"},
	"reindent":   {"auto", "off"},
}

// A schema is one of JSON Schema, as far as our types have need of it.
type schema struct {
	Type        schemaTypes `json:"type,omitempty"`
	Description string      `json:"description,omitempty"`
	Properties  properties  `json:"properties,omitempty"`
	Required    []string    `json:"required,omitempty"`
	Additional  any         `json:"additionalProperties,omitempty"` // of an object: false, or a *schema
	Items       *schema     `json:"items,omitempty"`
	MinItems    int         `json:"minItems,omitempty"`
	MaxItems    int         `json:"maxItems,omitempty"`
	Enum        []string    `json:"enum,omitempty"`
	Minimum     *int        `json:"minimum,omitempty"`
	MaxLength   int         `json:"maxLength,omitempty"`
}

// schemaTypes are what a value may be. One is not written as a list.
type schemaTypes []string

func (t schemaTypes) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// properties of an object are in the order of the type's fields.
type properties []property

type property struct {
	name string
	*schema
}

func (p properties) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, of := range p {
		text, err := json.Marshal(of.schema)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q:%s", of.name, text) // names are plain ASCII
	}
	return append(b, '}'), nil
}

// inputSchema returns the schema of a tool's arguments. It adds to what their
// type says which values some may have: a model then need not guess. texts, if there
// are any, describe the arguments, and others of the type are none of the tool's.
func inputSchema(args reflect.Type, texts ...map[string]string) *schema {
	s := schemaOf(args)
	s.Properties = slices.DeleteFunc(s.Properties, func(p property) bool {
		for _, of := range texts {
			p.Description = of[p.name]
		}
		p.Enum = choices[p.name]
		switch p.name {
		case "limit":
			p.Minimum = new(int)
		case "label":
			p.MaxLength = maxLabel
		}
		return p.Description == "" && len(texts) > 0
	})
	return s
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// schemaOf returns the schema of what package json makes of a type.
func schemaOf(t reflect.Type) *schema {
	if t.Kind() == reflect.Pointer {
		s := schemaOf(t.Elem())
		if !slices.Contains(s.Type, "null") {
			s.Type = append(schemaTypes{"null"}, s.Type...)
		}
		return s
	}
	switch {
	case t.Implements(textMarshaler):
		return &schema{Type: schemaTypes{"string"}}
	case t.Implements(jsonMarshaler): // anything
		return new(schema)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: schemaTypes{"boolean"}}
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint32:
		return &schema{Type: schemaTypes{"integer"}}
	case reflect.Float64:
		return &schema{Type: schemaTypes{"number"}}
	case reflect.String:
		return &schema{Type: schemaTypes{"string"}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			return &schema{Type: schemaTypes{"null", "string"}}
		}
		return &schema{Type: schemaTypes{"null", "array"}, Items: schemaOf(t.Elem())}
	case reflect.Array:
		return &schema{Type: schemaTypes{"array"}, Items: schemaOf(t.Elem()), MinItems: t.Len(), MaxItems: t.Len()}
	case reflect.Map:
		return &schema{Type: schemaTypes{"object"}, Additional: schemaOf(t.Elem())}
	case reflect.Struct:
		return structSchema(t)
	}
	panic(fmt.Sprintf("mcp: internal error: no schema of %v", t)) // the types are ours
}

// structSchema returns the schema of an object that has the fields of a type and no others.
func structSchema(t reflect.Type) *schema {
	s := &schema{Type: schemaTypes{"object"}, Additional: false}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		of := schemaOf(f.Type)
		of.Description = f.Tag.Get("jsonschema")
		s.Properties = append(s.Properties, property{name, of})
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

// readArguments reads the arguments of a call into p. The error says what of them the
// schema refuses.
func readArguments(s *schema, text json.RawMessage, p any) error {
	if len(text) == 0 || string(text) == "null" {
		text = json.RawMessage("{}")
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if err := words.CheckText("arguments", text); err != nil {
		return err
	}
	if err := s.check("arguments", v); err != nil {
		return err
	}
	text, err := json.Marshal(v) // 2.0 is 2
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// typeOf returns what a value is that was read from JSON.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v != math.Trunc(v) {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// check returns an error if a value is none of the schema's. where is the value's name.
func (s *schema) check(where string, v any) error {
	is := typeOf(v)
	fits := func(want string) bool { return want == is || want == "number" && is == "integer" }
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, fits) {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s: %s has type %q, want %q", where, bounded(string(text), maxShown), is,
			s.Type[len(s.Type)-1])
	}
	switch v := v.(type) {
	case string:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			return fmt.Errorf("%s: %s is none of %s", where, quoted(v), strings.Join(s.Enum, ", "))
		}
		if n := utf8.RuneCountInString(v); s.MaxLength > 0 && n > s.MaxLength {
			return fmt.Errorf("%s: %d characters, want at most %d", where, n, s.MaxLength)
		}
	case float64:
		if s.Minimum != nil && v < float64(*s.Minimum) {
			return fmt.Errorf("%s: want %d or more, have %v", where, *s.Minimum, v)
		}
	case []any:
		for i, item := range v {
			if err := s.Items.check(fmt.Sprintf("%s[%d]", where, i), item); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.checkObject(where, v)
	}
	return nil
}

func (s *schema) checkObject(where string, v map[string]any) error {
	var unknown, missing []string
	for name, value := range v {
		of, _ := s.Additional.(*schema)
		if i := slices.IndexFunc(s.Properties, func(p property) bool { return p.name == name }); i >= 0 {
			of = s.Properties[i].schema
		}
		if of == nil {
			unknown = append(unknown, quoted(name))
			continue
		}
		place := name
		if where != "arguments" {
			place = where + "." + bounded(name, maxShown)
		}
		if err := of.check(place, value); err != nil {
			return err
		}
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			missing = append(missing, quoted(name))
		}
	}
	slices.Sort(unknown)
	switch {
	case len(unknown) > 0:
		return fmt.Errorf("%s: unknown: [%s]", where, bounded(strings.Join(unknown, " "), maxError))
	case len(missing) > 0:
		return fmt.Errorf("%s: missing: [%s]", where, strings.Join(missing, " "))
	}
	return nil
}
