package sessionlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/session"
)

// parseTwin is parseEntry by encoding/json, without its speed.
func parseTwin(b []byte) (e session.Entry, reason string) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil || keys == nil {
		return session.Entry{}, "not a JSON object"
	}
	str := func(key string) (string, bool) {
		var s *string
		err := json.Unmarshal(keys[key], &s)
		if err != nil || s == nil {
			return "", false
		}
		return *s, true
	}
	if e.Type, _ = str("type"); e.Type == "" {
		return session.Entry{}, "no type"
	}
	if e.Type == "session" {
		return session.Entry{}, "a session header after line 1"
	}
	if e.ID, _ = str("id"); e.ID == "" {
		return session.Entry{}, "no id"
	}
	parent, ok := str("parentId")
	if !ok && keys["parentId"] != nil && string(keys["parentId"]) != "null" {
		return session.Entry{}, "parentId is neither a string nor null"
	}
	e.ParentID = parent
	timestamp, _ := str("timestamp")
	if at, err := time.Parse(time.RFC3339, timestamp); err == nil {
		e.Timestamp = at.UTC()
	}
	if e.Type == "message" {
		var message map[string]json.RawMessage
		if json.Unmarshal(keys["message"], &message) == nil {
			keys["role"] = message["role"]
			e.Role, _ = str("role")
		}
	}
	if e.Type == "custom" || e.Type == "custom_message" {
		e.CustomType, _ = str("customType")
	}
	if e.Type == "custom" && (e.CustomType == "step-snapshot" || e.CustomType == "unrevert-point") {
		e.Data = keys["data"]
	}
	if e.Type == "branch_summary" {
		e.FromID, _ = str("fromId")
		e.Summary, _ = str("summary")
		e.SkipFiles = string(keys["skipFiles"]) == "true"
		e.Details = keys["details"]
	}
	return e, ""
}

// near are lines that are or nearly are entries, and JSON that is or nearly is
// valid.
var near = []string{
	`{"type":"message","id":"a1b2c3d4","parentId":null,"timestamp":"2026-11-21T06:15:35.123Z","message":{"role":"user","content":"hi"}}`,
	`{"type":"custom","customType":"step-snapshot","data":{"turnIndex": 0, "diff":null},"id":"a","parentId":"b","timestamp":"2026-11-21T06:15:35.123Z"}`,
	`{"data":[1,2],"customType":"unrevert-point","type":"custom","id":"x"}`,
	`{"type":"custom","customType":"other","data":{"big":true},"id":"x"}`,
	`{"type":"custom","customType":"step-snapshot","id":"x"}`,
	`{"type":"custom","customType":"step-snapshot","data":null,"id":"x"}`,
	`{"type":"custom_message","customType":"step-snapshot","data":1,"id":"x","parentId":""}`,
	`{"type":"branch_summary","id":"a","parentId":"b","timestamp":"x","fromId":"root","summary":"s\nt","skipFiles":true,"details":{"readFiles":[]}}`,
	`{"type":"branch_summary","id":"a","fromId":7,"summary":null,"skipFiles":"true","details":null}`,
	` { "type" : "label" , "id" : "0198f6f0-7a3b-7cc0-9d2e-000000000000" , "parentId" : null } ` + "\r",
	`{"id":"first","id":"last","type":"a","type":"b","parentId":"x","parentId":null}`,
	`{"id":"first","id":5,"type":"a"}`,
	`{"id":"a","type":"message","message":{"role":"user","role":"assistant"}}`,
	`{"id":"a","type":"message","message":{"role":"user"},"message":{}}`,
	`{"id":"a","type":"message","message":{"role":"user"},"message":[{"role":"x"}]}`,
	`{"id":"a","type":"message","message":{"x":{"role":"user"}}}`,
	`{"id":"a","type":"message","message":{"role":["user"]}}`,
	`{"id":"a","type":"message","role":"user"}`,
	`{"id":"a","type":"message","message":null}`,
	`{"\u0069d":"a","t\u0079pe":"message","message":{"rol\u0065":"us\u0065r"}}`,
	`{"ID":"a","Type":"b"}`,
	`{"id":"a","type":"b","parentId":7}`, `{"id":"a","type":"b","parentId":{}}`,
	`{"id":"","type":"b"}`, `{"id":"a","type":""}`, `{"id":"a"}`, `{"type":"a"}`, `{}`,
	`{"type":"session","id":"a"}`,
	`{"id":"\ud800","type":"b"}`, `{"id":"\ud83d\ude00","type":"\udc00\ud800x"}`,
	"{\"id\":\"\xff\xfe\",\"type\":\"b\",\"\xff\":1}",
	"{\"id\":\"a\",\"type\":\"b\u2028\u2029\"}", "{\"id\":\"a\x00\",\"type\":\"b\"}",
	"{\"id\":\"a\x1f\",\"type\":\"b\"}", "{\"id\":\"a\x7f\",\"type\":\"b\"}", "{\"id\":\"a\tb\",\"type\":\"b\"}",
	`{"id":"a","type":"b"}x`, `{"id":"a","type":"b"},`, `{"id":"a","type":"b",}`, `{"id":"a" "type":"b"}`, `{"id":"a","type":}`,
	`{"id":"a","type":"b"`, `{"id":"a","type":"b`, `{"id":"a","type"`, `{"id`, `{`, `{,}`, `{"a":1,,"b":2}`, `{1:2}`, `{null:2}`,
	`[]`, `null`, `true`, `5`, `"x"`, ``, ` `, `{"id":"a\`, `{"id":"\x"}`, `{"id":"\u12g4"}`, `{"id":"\u123"}`, `{"a":"\u12`,
	`{"a":[]}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[1,[2,{"b":[]}]]}`, `{"a":[}`, `{"a":[1}`,
	`{"a":-}`, `{"a":-0}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1.5e}`, `{"a":1e+}`, `{"a":1E-07}`, `{"a":+1}`, `{"a":1e5.5}`, `{"a":--1}`, `{"a":1ee5}`,
	`{"a":tru}`, `{"a":truex}`, `{"a":nul}`, `{"a":false}`, `{"a":NaN}`, `{"a":'x'}`, "{\"a\":\v1}", "\ufeff{}",
}

func checkTwin(t *testing.T, b []byte) {
	t.Helper()
	s := scanner{b: b}
	object := len(bytes.TrimLeft(b, " \t\r\n")) > 0 && bytes.TrimLeft(b, " \t\r\n")[0] == '{'
	if got, want := s.scan(), json.Valid(b) && object; got != want {
		t.Fatalf("scan(%q) = %v, want %v", b, got, want)
	}
	got, reason := parseEntry(b)
	want, wantReason := parseTwin(b)
	if diff := cmp.Diff(want, got); diff != "" || reason != wantReason {
		t.Fatalf("parseEntry(%q): reason %q, want %q; entry -want +got\n%s", b, reason, wantReason, diff)
	}
}

func TestParseEntry(t *testing.T) {
	for _, line := range near {
		checkTwin(t, []byte(line))
		// Strings are walked in steps of eight bytes: shift them all.
		for pad := range 9 {
			checkTwin(t, []byte(strings.Replace(line, `{"`, `{"`+strings.Repeat("é", pad)+`":"`+strings.Repeat("p", pad)+`","`, 1)))
		}
	}
	for _, depth := range []int{maxDepth - 1, maxDepth, maxDepth + 1} {
		for _, kind := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			inner := strings.Repeat(kind[0], depth-1) + "1" + strings.Repeat(kind[1], depth-1)
			checkTwin(t, []byte(`{"a":`+inner+`}`))
			checkTwin(t, []byte(`{"message":`+inner+`}`))
		}
	}
}

func TestStringBytes(t *testing.T) {
	// Every byte at every place of a word, and beside every other special one.
	for c := range 256 {
		for at := range 20 {
			for _, before := range []string{"a", "\x80", "\xff", "\x21", "\x23", "\x5b", "\x5d", "\x20"} {
				b := []byte(`{"id":"` + strings.Repeat(before, at) + string([]byte{byte(c)}) + `!!!!!!!!!!","type":"b"}`)
				checkTwin(t, b)
			}
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, line := range near {
		f.Add([]byte(line))
	}
	f.Fuzz(checkTwin)
}

// messageLine returns a line of a tool result with source code in it.
func messageLine(id, parent string, size int) []byte {
	code := "\tif err := json.Unmarshal(b, &keys); err != nil {\n\t\treturn fmt.Errorf(\"keys: %w\", err)\n\t}\n"
	b, err := json.Marshal(map[string]any{
		"type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-21T06:15:35.123Z",
		"message": map[string]any{
			"role": "toolResult", "toolCallId": "call_1", "isError": false,
			"content": []any{map[string]any{"type": "text", "text": strings.Repeat(code, size/len(code)+1)}},
		},
	})
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// BenchmarkScan reads one line. Its floor is finding the end of the line.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		line []byte
	}{
		{"prose=64KiB", []byte(`{"type":"message","id":"a","parentId":"b","message":{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor sit amet ", 2427) + `"}}`)},
		{"code=64KiB", messageLine("a", "b", 64<<10)},
		{"code=2KiB", messageLine("a", "b", 2<<10)},
		{"numbers=64KiB", []byte(`{"type":"custom","id":"a","data":[` + strings.Repeat(`{"n":123.5,"ok":true},`, 2979) + `0]}`)},
	} {
		for _, f := range []struct {
			name string
			run  func([]byte) bool
		}{
			{"scan", func(b []byte) bool { _, reason := parseEntry(b); return reason == "" }},
			{"floor", func(b []byte) bool { return bytes.IndexByte(b[:len(b)-1], '\n') < 0 }},
			{"json.Valid", json.Valid},
			{"json.Unmarshal", func(b []byte) bool {
				var e struct {
					ID, ParentID, Type, CustomType, Timestamp string
					Message                                   struct{ Role string }
				}
				return json.Unmarshal(b, &e) == nil
			}},
		} {
			b.Run(c.name+"/"+f.name, func(b *testing.B) {
				b.SetBytes(int64(len(c.line)))
				b.ReportAllocs()
				for b.Loop() {
					if !f.run(c.line) {
						b.Fatal("not an entry")
					}
				}
			})
		}
	}
}
