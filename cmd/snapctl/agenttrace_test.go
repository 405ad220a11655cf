//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/boocode/filestore/manager"
)

// traceRecord is what a record of Agent Trace 0.1 may hold, by its published schema
// (https://agent-trace.dev/schemas/v1/trace-record.json, read on 2026-11-26): fields by name,
// those that have to be there, and no others.
func traceRecord() *jsonschema.Schema {
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	object := func(required string, fields map[string]*jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "object", Required: strings.Fields(required), Properties: fields,
			AdditionalProperties: &jsonschema.Schema{Not: new(jsonschema.Schema)}}
	}
	list := func(of *jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{Type: "array", Items: of} }
	line := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "integer", Minimum: new(1.0)} }
	contributor := func() *jsonschema.Schema {
		return object("type", map[string]*jsonschema.Schema{
			"type":     {Enum: []any{"human", "ai", "mixed", "unknown"}},
			"model_id": {Type: "string", MaxLength: new(250)},
		})
	}
	conversation := object("ranges", map[string]*jsonschema.Schema{
		"url": text(), "contributor": contributor(), "related": list(object("type url",
			map[string]*jsonschema.Schema{"type": text(), "url": text()})),
		"ranges": list(object("start_line end_line", map[string]*jsonschema.Schema{
			"start_line": line(), "end_line": line(), "content_hash": text(), "contributor": contributor(),
		})),
	})
	const hex = "[0-9a-fA-F]"
	return object("version id timestamp files", map[string]*jsonschema.Schema{
		"version": {Type: "string", Pattern: `^[0-9]+\.[0-9]+$`},
		"id": {Type: "string",
			Pattern: "^" + hex + "{8}-" + hex + "{4}-[1-8]" + hex + "{3}-[89abAB]" + hex + "{3}-" + hex + "{12}$"},
		"timestamp": {Type: "string", Pattern: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`},
		"vcs": object("type revision", map[string]*jsonschema.Schema{
			"type": {Enum: []any{"git", "jj", "hg", "svn"}}, "revision": text()}),
		"tool": object("name version", map[string]*jsonschema.Schema{"name": text(), "version": text()}),
		"files": list(object("path conversations", map[string]*jsonschema.Schema{
			"path": text(), "conversations": list(conversation)})),
		"metadata": {Type: "object"},
	})
}

// TestAgentTrace holds what 'blame --format agent-trace' prints against the published schema,
// with lines of all kinds of owners.
func TestAgentTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := &runner{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "p")}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.project, "a\xff\n"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(r.project, 0o755); err != nil {
		t.Fatal(err)
	}
	open := func(session string) *manager.FileSnapshotManager {
		m, err := manager.Open(t.Context(), r.project, &manager.Options{
			StoreRoot: filepath.Join(r.home, ".boo", "file-store"), Session: session})
		if err == nil {
			_, err = m.Initialize(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	turn := func(model, text string, managers ...*manager.FileSnapshotManager) {
		t.Helper()
		for _, m := range managers {
			told := &manager.Turn{Title: "a \"title\"\n", Agent: "pi", Model: model}
			if _, err := m.OnTurnStart(t.Context(), told); err != nil {
				t.Fatal(err)
			}
		}
		write(text)
		for _, m := range managers {
			if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("before\n")
	one, two := open("one"), open("two")
	turn("anthropic/claude-opus-4-5", "before\nturn\n", one)
	turn(strings.Repeat("m", 251), "before\nturn\nlong\n", one)
	turn("", "before\nturn\nlong\nboth\n", one, two)
	write("before\nturn\nlong\nboth\nuser\n")
	schema, err := traceRecord().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	trace := func() (text string, record any) {
		t.Helper()
		text = r.must("blame", "--format", "agent-trace", filepath.Join(r.project, "a\xff\n"))
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(record); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		return text, record
	}
	text, record := trace()
	for _, want := range []string{`{"type":"unknown"},"ranges":[{"start_line":1,"end_line":1}]`,
		`{"type":"ai","model_id":"anthropic/claude-opus-4-5"},"ranges":[{"start_line":2,"end_line":2}]`,
		`{"type":"ai","model_id":"` + strings.Repeat("m", 128) + `"},"ranges":[{"start_line":3,"end_line":3}]`,
		`{"type":"mixed"},"ranges":[{"start_line":4,"end_line":4}]`,
		`{"type":"human"},"ranges":[{"start_line":5,"end_line":5}]`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	record.(map[string]any)["line"] = 1
	if err := schema.Validate(record); err == nil {
		t.Error("the schema takes a field that it has not")
	}
	write("")
	trace()
}
