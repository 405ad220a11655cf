package client

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/wire"
)

// checkText returns an error if JSON has a string of an argument with U+FFFD in place of bytes
// that are not UTF-8: a path would be that of another file.
func checkText(name string, v reflect.Value) error {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		return checkText(name, v.Elem())
	}
	if !v.IsValid() {
		return nil
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler: // they say themselves what JSON has of them
		return nil
	}
	var err error
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%s %q: JSON has no bytes that are not UTF-8", name, v)
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8 && err == nil; i++ {
			err = checkText(name, v.Index(i))
		}
	case reflect.Map:
		for of := v.MapRange(); of.Next() && err == nil; {
			if err = checkText(name, of.Key()); err == nil {
				err = checkText(fmt.Sprint(of.Key()), of.Value())
			}
		}
	case reflect.Struct:
		for f, value := range v.Fields() {
			of, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && of != "-" && !wire.IsForPeople(of) && err == nil {
				err = checkText(of, value)
			}
		}
	}
	return err
}
