package verbs

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
)

// Decode reads a request from JSON: an object with the fields of into, a pointer to a
// structure, and of the structures beside it, which others read. Whatever is wrong is
// bad_request, and names the field: one that nobody knows, too, and one that has to be there.
func Decode(what string, request []byte, into any, beside ...reflect.Type) error {
	return decode(what, request, into, append(beside, reflect.TypeOf(into).Elem()))
}

// DecodePart is Decode where others know fields of their own.
func DecodePart(what string, request []byte, into any) error { return decode(what, request, into, nil) }

func decode(what string, request []byte, into any, known []reflect.Type) error {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(request, &fields)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("want an object, have %s", wrong.Value)
	}
	if err == nil {
		err = checkFields(fields, reflect.TypeOf(into).Elem(), known, "")
	}
	if err == nil {
		err = checkTexts(fields, reflect.TypeOf(into).Elem())
	}
	if err == nil && known != nil {
		err = checkThere(fields, reflect.TypeOf(into).Elem())
	}
	if err == nil {
		err = fill(into, request, fields)
	}
	if err != nil {
		return explain.Errorf(explain.BadRequest, "%s: %v", what, err)
	}
	return nil
}

// fill sets the fields of a structure that a request has, by their exact names: Go's own
// decoder takes others that differ in case alone.
func fill(into any, request []byte, fields map[string]json.RawMessage) error {
	own := jsonFields(reflect.TypeOf(into).Elem())
	isLike := false
	for name := range fields {
		if own[name] != nil {
			continue
		}
		delete(fields, name)
		for is := range own {
			isLike = isLike || strings.EqualFold(is, name)
		}
	}
	if isLike {
		b, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		request = b
	}
	return json.Unmarshal(request, into)
}

// checkFields checks the fields of an object that a structure has, and that one of known
// has the others; nil: others may be there. prefix names the object.
func checkFields(fields map[string]json.RawMessage, of reflect.Type, known []reflect.Type, prefix string) error {
	own := jsonFields(of)
	for name, value := range fields {
		t, ok := own[name]
		if ok {
			if err := checkValue(value, t, prefix+name); err != nil {
				return err
			}
			continue
		}
		for _, k := range known {
			_, is := jsonFields(k)[name]
			ok = ok || is
		}
		if !ok && known != nil {
			return fmt.Errorf("unknown field %.100q", prefix+name)
		}
	}
	return nil
}

// checkTexts checks that texts of an object are what package json reads of them.
func checkTexts(fields map[string]json.RawMessage, of reflect.Type) error {
	for name := range jsonFields(of) {
		if value, ok := fields[name]; ok && !wire.IsForPeople(name) {
			if err := words.CheckText(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkThere checks that an object has the fields of a structure that are not left out where
// they are empty: those that docs/reference/rpc.schema.json requires.
func checkThere(fields map[string]json.RawMessage, of reflect.Type) error {
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch value := string(fields[name]); {
		case f.Anonymous && name == "":
			if err := checkThere(fields, f.Type); err != nil {
				return err
			}
		case name != "-" && options == "" && (value == "" || value == "null"):
			return fmt.Errorf("want %s", name)
		}
	}
	return nil
}

// checkValue checks that a value is what a type takes.
func checkValue(value json.RawMessage, t reflect.Type, name string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, isJSON := reflect.New(t).Interface().(json.Unmarshaler)
	_, isText := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	var err error
	switch kind := t.Kind(); {
	case isJSON || isText || string(value) == "null":
		err = json.Unmarshal(value, reflect.New(t).Interface())
	case kind == reflect.Struct:
		var fields map[string]json.RawMessage
		if err = json.Unmarshal(value, &fields); err == nil {
			return checkFields(fields, t, []reflect.Type{t}, name+".")
		}
	case kind == reflect.Map:
		var values map[string]json.RawMessage
		if err = json.Unmarshal(value, &values); err == nil {
			for key, v := range values {
				if err := checkValue(v, t.Elem(), fmt.Sprintf("%s.%.100s", name, key)); err != nil {
					return err
				}
			}
			return nil
		}
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var values []json.RawMessage
		if err = json.Unmarshal(value, &values); err == nil {
			for i, v := range values {
				if err := checkValue(v, t.Elem(), fmt.Sprintf("%s[%d]", name, i)); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		err = json.Unmarshal(value, reflect.New(t).Interface())
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("want %s, have %s", wanted(t.Kind()), wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// wanted says in the words of JSON what a kind of Go's is.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a number without a sign or a fraction"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a number without a fraction"
}

// jsonFields returns the fields that JSON has of a structure, by their names.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			for inner, of := range jsonFields(f.Type) {
				if fields[inner] == nil {
					fields[inner] = of
				}
			}
		case f.IsExported():
			fields[cmp.Or(name, f.Name)] = f.Type
		}
	}
	return fields
}
