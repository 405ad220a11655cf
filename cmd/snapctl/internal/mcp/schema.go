package mcp

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// choices are the values that arguments of these names may have.
var choices = map[string][]any{
	"onDirty":    {"merge", "skip", "overwrite", "abort"},
	"onConflict": {"keep", "theirs", "markers", "abort"},
	"show":       {"diff", "old", "new"},
	"format":     {"search-replace", "v4a", "udiff", "edits"},
	"reindent":   {"auto", "off"},
}

// inputSchema returns the schema of a tool's arguments. It adds to what their
// type says which values some may have: a model then need not guess. texts, if there
// are any, describe the arguments, and others of the type are none of the tool's.
func inputSchema(args reflect.Type, texts ...map[string]string) *jsonschema.Schema {
	s := schemaOf(args)
	for name, p := range s.Properties {
		for _, of := range texts {
			if p.Description = of[name]; p.Description == "" {
				delete(s.Properties, name)
			}
		}
		p.Enum = choices[name]
		switch name {
		case "limit":
			p.Minimum = new(0.0)
		case "label":
			p.MaxLength = new(maxLabel)
		}
	}
	return s
}

func schemaOf(t reflect.Type) *jsonschema.Schema {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		panic("mcp: internal error: " + err.Error()) // the types are ours
	}
	return s
}
