package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestAhead: what is answered ahead is what the page would be answered, all up to the first diff, and nobody
// is told without the token.
func TestAhead(t *testing.T) {
	w := newWorld(t, nil)
	const name = `we?ird*[x] <é>\.go`
	w.write(name, "a\nb\n")
	w.turn("a secret prompt", name, "a\nc\n")
	if status, answer := w.ask("GET", "/v1/ahead", "", "Authorization", ""); status != 401 {
		t.Errorf("without a token: %d %v", status, answer)
	}
	for _, from := range []string{"none", "cross-site"} {
		w.ask("GET", "/", "", "Authorization", "", "Sec-Fetch-Site", from)
		if is := w.prepared() != nil; is != (from == "none") {
			t.Errorf("a page that is asked for from %q has answers prepared: %v", from, is)
		}
		var got []string
		for _, a := range w.ahead() {
			args := a["args"].(map[string]any)
			path := a["path"].(string)
			got = append(got, strings.TrimPrefix(path, "/v1/"))
			want := w.askAs(path, args)
			if strings.HasPrefix(path, "/v1/content") {
				want = want.(map[string]any)["text"]
			}
			if of := fmt.Sprint(args["paths"]); path == "/v1/verbs/hunks" && of != `[we\?ird\*\[x] <é>\\.go]` {
				t.Errorf("hunks are asked for of %s", of)
			}
			if !reflect.DeepEqual(a["answer"], want) {
				t.Errorf("%s %v:\n%v, want\n%v", path, args, a["answer"], want)
			}
		}
		want := []string{"projects", "sessions", "sessions", "verbs/get_snapshots", "verbs/get_turn_diff",
			"verbs/hunks", "content", "content"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("answered are %v, want %v", got, want)
		}
	}
	// Answers are for one page, and not for one that comes late.
	w.ask("GET", "/", "")
	<-w.prepared().ready
	w.turn("another", name, "d\n")
	w.ahead()
	if list := fmt.Sprint(w.ahead()); !strings.Contains(list, "another") {
		t.Errorf("a second page gets the answers of the first: %s", list)
	}
	w.ask("GET", "/", "")
	for late := time.Now().Add(5 * aheadStays); w.prepared() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("answers that nobody asks for stay")
		}
	}
}

// prepared returns the answers for the next page.
func (w *world) prepared() *answers {
	w.s.aheadMu.Lock()
	defer w.s.aheadMu.Unlock()
	return w.s.ahead
}

// ahead returns what is answered ahead.
func (w *world) ahead() (list []map[string]any) {
	w.Helper()
	status, answer := w.ask("GET", "/v1/ahead", "")
	if status != 200 {
		w.Fatalf("ahead: %d %v", status, answer)
	}
	for _, a := range answer["answers"].([]any) {
		list = append(list, a.(map[string]any))
	}
	return list
}

// askAs asks as the page does.
func (w *world) askAs(path string, args map[string]any) any {
	w.Helper()
	method, body := "GET", ""
	if strings.HasPrefix(path, "/v1/verbs/") {
		method = "POST"
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(args); err != nil {
			w.Fatal(err)
		}
		body = b.String()
	} else {
		q := make(url.Values)
		for k, v := range args {
			q.Set(k, fmt.Sprint(v))
		}
		path += "?" + q.Encode()
	}
	status, answer := w.ask(method, path, body)
	if status != 200 {
		w.Errorf("%s %s: %d %v", path, body, status, answer)
	}
	return answer
}

// TestAheadOfNothing: where nothing was recorded, or not all can be read, as much is answered as there is.
func TestAheadOfNothing(t *testing.T) {
	w := newWorld(t, nil)
	if got := w.ahead(); len(got) != 2 || got[1]["path"] != "/v1/sessions" {
		t.Errorf("without a store: %v", got)
	}
	w.turn("one", "a", "\xff\n")
	if got := w.ahead(); len(got) != 6 {
		t.Errorf("a file that is no text: %v", got)
	}
}
