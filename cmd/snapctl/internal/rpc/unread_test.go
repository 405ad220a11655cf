package rpc

import (
	"fmt"
	"testing"
	"time"
)

// TestUnread: of the queries of a client that reads no answers only a few are done, whose answers are in memory then. A
// turn ends all the same, and when the client reads there is room again.
func TestUnread(t *testing.T) {
	const queries = 4 * maxQueries
	b := newBench(t)
	b.write("a", "one\n")
	l := b.connect()
	l.ask("0", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s"`, b.dir))
	l.ask("0", `"type":"turn_start","sessionId":"s"`)
	b.write("a", "two\n")
	for i := range queries {
		l.send(`{"id":%d,"type":"get_file_diff","sessionId":"s","path":"a"}`, 1+i)
	}
	l.send(`{"id":"end","type":"turn_end","sessionId":"s"}`)
	time.Sleep(300 * time.Millisecond) // all would be done by then
	for i := range queries {           // which ends those that are not
		l.send(`{"id":"c%[1]d","type":"cancel","requestId":%[1]d}`, 1+i)
	}
	done := 0
	for i := range queries {
		switch a := l.answer(fmt.Sprint(1 + i)); a["status"] {
		case "complete":
			done++
		case "cancelled":
		default:
			t.Errorf("query %d: %v", i, a)
		}
	}
	if done == 0 || done > 2*maxQueries { // some begin before they are cancelled, when the first answers are read
		t.Errorf("%d of %d queries were done, want some %d", done, queries, maxQueries)
	}
	if a := l.answer(`"end"`); a["success"] != true {
		t.Errorf("turn_end: %v", a)
	}
	const first = 1000 // a cancel of the others may be on its way yet
	for i := range queries {
		l.send(`{"id":%d,"type":"get_file_diff","sessionId":"s","path":"a"}`, first+i)
	}
	for i := range queries {
		if a := l.answer(fmt.Sprint(first + i)); a["success"] != true {
			t.Errorf("query %d, to a client that reads: %v", i, a)
		}
	}
}
