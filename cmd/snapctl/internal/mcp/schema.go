package mcp

import (
	"github.com/google/jsonschema-go/jsonschema"
)

// choices are the values that arguments of these names may have.
var choices = map[string][]any{
	"onDirty":  {"skip", "overwrite", "abort"},
	"show":     {"diff", "old", "new"},
	"format":   {"search-replace", "v4a", "udiff", "edits"},
	"reindent": {"auto", "off"},
}

// inputSchema returns the schema of a tool's arguments. It adds to what their
// type says which values some may have: a model then need not guess.
func inputSchema[P any]() *jsonschema.Schema {
	s, err := jsonschema.For[P](nil)
	if err != nil {
		panic("mcp: internal error: " + err.Error()) // the types are ours
	}
	for name, p := range s.Properties {
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
