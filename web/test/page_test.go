package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// numbered returns lines of a program.
func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("func line%d() int { return %d } // line %d", i, i, i)
	}
	return lines
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// changed returns lines of which some are others.
func changed(lines []string, at ...int) []string {
	lines = append([]string(nil), lines...)
	for _, i := range at {
		lines[i] = fmt.Sprintf("func line%d() int { return %d * 100 } // changed", i, i)
	}
	return lines
}

// agree waits for the preview, and does what it shows.
func (b *browser) agree() {
	b.Helper()
	b.until(`document.querySelector("dialog button.go:not(:disabled)")`)
	time.Sleep(300 * time.Millisecond) // who has just seen it does not agree yet
	b.click("dialog button.go", "")
}

// chooses clicks a turn, and waits for its files.
func (b *browser) chooses(title, file string) {
	b.Helper()
	b.click(".turn", title)
	b.click(".file", file)
	b.until(fmt.Sprintf(`document.querySelector(".diff h2")?.textContent.endsWith(%q) && document.querySelector(".hunk")`, file))
}

// TestActions: each action ends with the bytes on the disk.
func TestActions(t *testing.T) {
	w := newWorld(t)
	zero := numbered(60)
	one, both := changed(zero, 5, 40), changed(zero, 5, 40, 55)
	w.write("a.go", text(zero))
	w.write("kept", "k\n")
	w.turn("change two functions", "a.go", text(one), "sub/new.txt", "new\n")
	w.turn("change a third", "a.go", text(both), "other", "o\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees("change a third")

	// A hunk.
	b.chooses("change two functions", "a.go")
	b.until(`document.querySelectorAll(".hunk input").length === 2`)
	b.click(".hunk input", "")
	b.click(".picked button", "Preview")
	b.sees("This changes 1 file")
	b.agree()
	b.sees("1 file restored")
	w.holds("a.go", text(changed(zero, 40, 55)))
	b.until(`document.querySelector(".hunk.done")`)

	// Undo in the toast, redo and undo in the bar.
	b.click(".toast button", "Undo")
	w.holds("a.go", text(both))
	b.until(`!document.querySelector(".hunk.done")`)
	b.click(".bar button", "Redo")
	w.holds("a.go", text(changed(zero, 40, 55)))
	b.sees("Redo: 1 file restored")
	b.click(".bar button", "Undo")
	w.holds("a.go", text(both))

	// A file, and then a turn, of which the user has changed a line since.
	b.chooses("change a third", "other")
	b.keys("x", "\r")
	b.agree()
	w.holds("other", "(other is not there)")
	w.holds("a.go", text(both))
	b.sees("1 file deleted")
	b.keys("u")
	w.holds("other", "o\n")
	b.sees("Undo: 1 file restored")
	mine := append([]string{"// mine"}, both...)
	w.write("a.go", text(mine))
	b.click(".turn", "change two functions")
	b.click(".actions button", "Take back")
	b.sees("sub/new.txt")
	b.until(`document.querySelector("dialog button.go:not(:disabled)")`)
	b.agree()
	w.holds("a.go", text(append([]string{"// mine"}, changed(zero, 55)...)))
	w.holds("sub/new.txt", "(new.txt is not there)")
	b.until(`[...document.querySelectorAll(".turn.back")].some(e => e.textContent.includes("change two functions"))`)

	// What was taken back comes back, alone.
	b.click(".turn", "change two functions")
	b.click(".actions button", "Bring it back")
	b.sees("This changes 2 files")
	b.agree()
	w.holds("sub/new.txt", "new\n")
	w.holds("a.go", text(mine))

	// All since a turn.
	b.click(".turn", "change two functions")
	b.click(".actions button", "Go back to here")
	b.agree()
	w.holds("other", "(other is not there)")
	w.holds("a.go", text(append([]string{"// mine"}, one...)))
	w.holds("kept", "k\n")

	// A label, and the log.
	b.click(".bar button", "Label")
	b.until(`document.querySelector("dialog input") === document.activeElement`)
	b.types("before lunch")
	b.keys("\r")
	b.sees("Labelled")
	b.until(`[...document.querySelectorAll(".turn .label")].some(e => e.textContent === "before lunch")`)
	b.click(".turn", "change a third")
	b.keys("m")
	b.until(`document.querySelector("dialog input") === document.activeElement`)
	b.types("third")
	b.keys("\r")
	b.until(`[...document.querySelectorAll(".turn .label")].some(e => e.textContent === "third")`)
	b.click(".bar button", "Restores")
	b.sees("undo takes this back next")
	b.click("dialog button", "Export")
	b.sees("The session was exported")
	files, _ := filepath.Glob(filepath.Join(w.home, "stores", "*", "worktrees", "*", "sessions", "*.jsonl"))
	if len(files) != 1 {
		t.Errorf("exported: %v", files)
	}
	b.quiet()
}

// TestConflict: what is in conflict is said before, and what was chosen for it is done.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	zero := numbered(30)
	w.write("a.go", text(zero))
	w.turn("both ends", "a.go", text(changed(zero, 2, 25)))
	mine := changed(zero, 2, 25)
	mine[2] = "// mine"
	w.write("a.go", text(mine))
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("both ends", "a.go")
	b.until(`document.querySelector(".hunk.conflict")?.textContent.includes("conflict")`)
	b.click(".actions button", "Take back")
	b.sees("in conflict")
	b.agree()
	kept := append([]string(nil), zero...)
	kept[2] = "// mine"
	w.holds("a.go", text(kept))
	b.until(`document.querySelector(".toast") && !document.querySelector("dialog")`)
	b.keys("u")
	w.holds("a.go", text(mine))
	b.click(".actions button", "Take back")
	b.sees("in conflict")
	eval[bool](b, `(() => { const s = document.querySelector(".conflicts select"); s.value = "theirs"; s.dispatchEvent(new Event("change", { bubbles: true })); return true })()`)
	b.until(`!document.querySelector(".conflicts")`)
	b.agree()
	w.holds("a.go", text(zero))

	// What is shown is done, or nothing.
	b.until(`document.querySelector(".toast") && !document.querySelector("dialog")`)
	b.keys("u")
	w.holds("a.go", text(mine))
	b.click(".actions button", "Take back")
	b.sees("in conflict")
	mine[20] = "// mine, too"
	w.write("a.go", text(mine))
	b.agree()
	b.sees("nothing was done yet")
	w.holds("a.go", text(mine))
	kept[20] = "// mine, too"
	b.agree()
	w.holds("a.go", text(kept))
	b.quiet()
}

// TestSearch: enter in the search goes to the newest change that brought a text or took it away, and j and
// enter to the next one.
func TestSearch(t *testing.T) {
	w := newWorld(t)
	w.turn("it comes", "a.go", "one\na needle\n")
	w.turn("it goes", "a.go", "one\n")
	w.turn("something else", "b.go", "two\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.until(`document.querySelector(".diff h2")?.textContent === "b.go"`)
	b.keys("/")
	b.types("a needle")
	b.keys("\r")
	b.until(`document.querySelector(".turnhead .prompt").textContent === "it goes" &&
		document.querySelector(".diff h2").textContent === "a.go"`)
	b.keys("j", "\r")
	b.until(`document.querySelector(".turnhead .prompt").textContent === "it comes" &&
		document.querySelector(".found.at .title").textContent.startsWith("+")`)
	b.quiet()
}

// TestStart: what is seen first the page asks for with one question, whatever the names of files, and what
// comes later is not in its way.
func TestStart(t *testing.T) {
	w := newWorld(t)
	const name = `d/we?ird*[x] <é>&"\.go`
	w.write(name, "a\nb\n")
	w.turn("first", "a", "1\n")
	w.turn("second <b>", name, "a\nc\n")
	w.serve()
	asked := ""
	for range 5 { // the page does not wait long for an answer, and others may have the processor
		b := browse(t, w.address, 1400, 900)
		b.until(`document.querySelector(".hunk") && performance.getEntriesByName("diff").length`)
		b.quiet()
		asked = eval[string](b, `(at => performance.getEntriesByType("resource").filter(e => e.startTime < at).map(e =>
			new URL(e.name).pathname).join(" "))(performance.getEntriesByName("diff")[0].startTime)`)
		if asked == "/v1/ahead" {
			return
		}
	}
	t.Errorf("the page asks %q until there is a diff, want one question", asked)
}

// TestKeyboard: by the keyboard alone one hunk of a file of 5,000 lines is found, picked, previewed,
// taken back, and that undone.
func TestKeyboard(t *testing.T) {
	w := newWorld(t)
	zero := numbered(5000)
	var at []int
	for i := 2; i < 5000; i += 10 {
		at = append(at, i)
	}
	w.write("long.go", text(zero))
	w.turn("first", "a", "1\n")
	w.turn("rewrite the long file", "long.go", text(changed(zero, at...)), "aa", "2\n")
	w.turn("last", "b", "3\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees("rewrite the long file")
	b.keys("j")
	b.until(`document.querySelector(".file.at .name")?.textContent === "aa"`)
	b.keys("J")
	b.until(`document.querySelector(".diff h2")?.textContent === "long.go" && document.querySelector(".hunk.at")`)
	for range 249 {
		b.keys("n")
	}
	b.sees("250 of 500 hunks")
	b.until(`document.querySelector(".hunk.at b").textContent === "line 2493"`)
	b.keys(" ")
	b.sees("1 hunk picked")
	b.keys("v")
	b.until(`document.querySelector(".hunk.at b").textContent === "line 2503"`)
	b.keys("\r")
	b.sees("This changes 1 file")
	b.until(`document.activeElement?.classList.contains("go")`)
	time.Sleep(300 * time.Millisecond)
	b.keys("\r")
	want := append([]int(nil), at[:249]...)
	w.holds("long.go", text(changed(zero, append(want, at[250:]...)...)))
	b.sees("Take back 1 hunk: 1 file restored")
	b.keys("u")
	w.holds("long.go", text(changed(zero, at...)))
	b.sees("Undo: 1 file restored")

	// The search, the keys, and out of them again.
	b.keys("/")
	b.until(`document.activeElement?.id === "search"`)
	b.types("first")
	b.until(`document.querySelectorAll(".turn").length === 1`)
	b.keys(kb.Escape)
	b.keys(kb.Escape)
	b.until(`document.querySelectorAll(".turn").length > 3`)
	b.keys("/")
	b.types("2492 * 100")
	b.sees("Nothing has")
	b.keys("\r")
	b.until(`document.querySelectorAll(".turn.found").length >= 2`)
	b.keys("j")
	b.until(`document.querySelectorAll(".turn.found")[1].classList.contains("at")`)
	b.keys(kb.Escape)
	b.until(`document.querySelectorAll(".turn").length > 3`)
	b.keys("?")
	b.sees("next and previous turn")
	b.keys(kb.Escape)
	b.until(`!document.querySelector("dialog")`)

	// All is reachable by Tab, once it is there: forty keys take less time than reading a turn.
	b.until(`document.querySelector("#files") && document.querySelector(".diff .hunk")`)
	seen, stops := map[string]bool{}, []string{}
	for range 40 {
		b.keys(kb.Tab)
		stops = append(stops, eval[string](b, `(document.activeElement?.id || document.activeElement?.getAttribute("aria-label") || document.activeElement?.textContent || "").slice(0, 30)`))
		seen[stops[len(stops)-1]] = true
	}
	for _, want := range []string{"search", "Redo", "Restores", "Label", "turns", "files", "Changes in long.go"} {
		if !seen[want] && !(want == "Changes in long.go" && seen["Changes in aa"]) {
			t.Errorf("Tab does not reach %q: %q", want, stops)
		}
	}
	b.quiet()

	// Marks stay.
	again := browse(t, w.address, 1400, 900)
	again.chooses("rewrite the long file", "long.go")
	for range 249 {
		again.keys("n")
	}
	again.until(`document.querySelector(".hunk.at [aria-pressed=true]")`)
}

// hook tells the command of an event, as Claude Code does.
func (w *world) hook(event string, more map[string]any) {
	w.Helper()
	e := map[string]any{"hook_event_name": event, "session_id": "claude-1", "cwd": w.dir}
	for k, v := range more {
		e[k] = v
	}
	in, err := json.Marshal(e)
	w.must(err)
	cmd := w.command("hook", "claude")
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Env = append(cmd.Env, "BOO_ENGINE=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("hook: %v: %s", err, out)
	}
}

// TestLive: a turn that real hooks tell of appears when it begins, and has its files when it ends;
// while it is open a restore waits.
func TestLive(t *testing.T) {
	w := newWorld(t)
	w.write("a", "1\n2\n3\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees("No turn was recorded here yet")
	w.hook("SessionStart", nil)
	w.hook("UserPromptSubmit", map[string]any{"prompt": "make it better"})
	b.sees("make it better")
	b.until(`document.querySelector(".live")`)
	w.hook("PreToolUse", map[string]any{"tool_name": "Write", "tool_use_id": "1"})
	w.write("a", "one\n2\n3\n")
	w.hook("PostToolUse", map[string]any{"tool_name": "Write", "tool_use_id": "1"})
	w.hook("Stop", nil)
	b.until(`!document.querySelector(".live")`)
	b.chooses("make it better", "a")
	w.hook("UserPromptSubmit", map[string]any{"prompt": "and more"})
	b.until(`document.querySelector(".live")?.textContent.includes("and more")`)

	// Not under the agent.
	b.click(".actions button", "Take back")
	b.agree()
	b.sees("Wait for the end of the turn")
	w.holds("a", "one\n2\n3\n")
	b.click("dialog .go", "Wait for the end")
	b.sees("Waiting for the end of the open turn")
	w.hook("PreToolUse", map[string]any{"tool_name": "Write", "tool_use_id": "2"})
	w.write("b", "x\n")
	w.hook("PostToolUse", map[string]any{"tool_name": "Write", "tool_use_id": "2"})
	w.hook("Stop", nil)
	w.holds("a", "1\n2\n3\n")
	w.holds("b", "x\n")

	// By the command, and by another tab.
	tab := browse(t, w.address, 1400, 900)
	tab.sees("make it better")
	if out, err := w.command("--session", "claude-1", "undo", "-y").CombinedOutput(); err != nil {
		t.Fatalf("undo: %v: %s", err, out)
	}
	for _, page := range []*browser{b, tab} {
		page.until(`[...document.querySelectorAll(".turn")].some(e => e.querySelector(".title").textContent.startsWith("undo"))`)
	}
	tab.click(".bar button", "Redo")
	w.holds("a", "1\n2\n3\n")
	b.until(`[...document.querySelectorAll(".turn")].some(e => e.querySelector(".title").textContent.startsWith("redo"))`)

	// The agent was stopped, as by Esc: nobody says that its turn has ended, so the user does.
	w.hook("UserPromptSubmit", map[string]any{"prompt": "never ends"})
	w.hook("PreToolUse", map[string]any{"tool_name": "Write", "tool_use_id": "3"})
	w.write("c", "half\n")
	b.until(`document.querySelector(".live")?.textContent.includes("never ends")`)
	b.click(".turn", "and more")
	b.click(".actions button", "Take back")
	b.sees("is open: nothing is taken back under it")
	b.click(".trouble button", "end its turn")
	b.sees("ends first")
	b.agree()
	w.holds("b", "(b is not there)")
	w.holds("c", "half\n")
	b.until(`!document.querySelector(".live") && [...document.querySelectorAll(".turn .title")].some(e => e.textContent.includes("never ends"))`)
	b.quiet()
	tab.quiet()
}

// TestGone: when the server is killed the page says so, and what to do; one that has come back has
// another token.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.turn("first", "a", "1\n")
	w.serve()
	port := w.port()
	b := browse(t, w.address, 1400, 900)
	b.sees("first")
	if hash := eval[string](b, "location.href"); strings.Contains(hash, "#") {
		t.Errorf("the token stays in the address: %s", hash)
	}
	w.stop(syscall.SIGKILL)
	b.sees("The engine is gone")
	b.sees("Start snapctl timeline again")
	w.serve("--port", port)
	b.sees("This address has no token, or an old one")
	w.stop(syscall.SIGTERM)

	for _, address := range []string{"http://127.0.0.1:" + port + "/", "http://127.0.0.1:" + port + "/#wrong"} {
		w.serve("--port", port)
		wrong := browse(t, address, 1400, 900)
		wrong.sees("This address has no token, or an old one")
		body := eval[string](wrong, `(all => {
			all.querySelectorAll("style, script").forEach(e => e.remove()) // which are the same for all
			return all.outerHTML
		})(document.documentElement.cloneNode(true))`)
		if strings.Contains(body, "first") || strings.Contains(body, w.dir) {
			t.Errorf("without the token: %s", body)
		}
		w.stop(syscall.SIGTERM)
	}
}

// TestHidden: a page that nobody sees has no connection, and knows what has happened when it is seen.
func TestHidden(t *testing.T) {
	w := newWorld(t)
	w.turn("first", "a", "1\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees("first")
	// It asks once more as the stream begins.
	b.until(`performance.getEntriesByType("resource").some(e => e.name.includes("get_snapshots"))`)
	isHidden := func(is bool) {
		t.Helper()
		eval[bool](b, fmt.Sprintf(`(Object.defineProperty(document, "hidden", { configurable: true, get: () => %v }),
			document.dispatchEvent(new Event("visibilitychange")), true)`, is))
	}
	isHidden(true)
	w.turn("second", "a", "2\n")
	time.Sleep(300 * time.Millisecond)
	if eval[bool](b, `document.body.innerText.includes("second")`) {
		t.Error("a page that nobody sees has been told")
	}
	isHidden(false)
	b.sees("second")
	if eval[bool](b, `!!document.querySelector(".banner")`) {
		t.Error("the engine is said to be gone")
	}
	b.quiet()
}

// TestReadOnly: nothing that changes something is offered.
func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	w.write("a.go", text(numbered(30)))
	w.turn("first", "a.go", text(changed(numbered(30), 3)))
	w.serve("--read-only", "--all")
	b := browse(t, w.address, 1400, 900)
	b.chooses("first", "a.go")
	b.until(`document.querySelector(".actions").textContent === "Export"`)
	b.sees("read only")
	b.keys(" ", "x", "t", "\r", "u", "b")
	if eval[bool](b, `!!document.querySelector("dialog, .picked, .hunk input, .actions .go, .toast")`) {
		t.Error("something is offered")
	}
	w.holds("a.go", text(changed(numbered(30), 3)))
	b.quiet()
}

// corpus has texts that would be markup, scripts or controls if anything took them for that.
var corpus = []string{
	`<script>window.hit=1</script>`, `<img src=x onerror="window.hit=1">`, `"><svg onload=window.hit=1>`, `</script><script>window.hit=1</script>`,
	`javascript:window.hit=1`, `{{constructor.constructor('window.hit=1')()}}`, `<iframe srcdoc="<script>parent.hit=1</script>">`,
	`&lt;script&gt;`, `<!--`, `]]>`, "a\u202egnp.exe", "zero\u200bwidth", "\x1b[31mred\x1b[0m", `<style>*{display:none}</style>`,
	`' autofocus onfocus=window.hit=1 x='`, `<a href="http://evil.example/">x</a>`, `__proto__`, `constructor`, strings.Repeat("W", 4000),
	"two\nlines\nof text", `<base href="//evil.example">`, `<meta http-equiv=refresh content="0;url=//evil.example">`, "\U0001F468\u200D\U0001F469", "ключ 鍵 مفتاح",
}

// TestHostile: whatever names, contents, prompts and labels are, they are shown, and nothing else.
func TestHostile(t *testing.T) {
	w := newWorld(t)
	var files []string
	for _, s := range corpus {
		name := strings.ReplaceAll(s, "/", "∕")
		if len(name) > 200 {
			name = name[:200]
		}
		files = append(files, name, s+"\n"+strings.Repeat("x", 100)+"\n")
	}
	files = append(files, "bad\xff\xfename", "not \xff\xfe UTF-8\n", "long", strings.Repeat("y", 1<<20),
		"bin.png", "\x89PNG\r\n\x1a\n\x00<script>",
		"-rf", "x\n", "*[glob]?", "x\n", "dir/<b>/x", "x\n")
	w.turn("all of them at once", files...)
	for i, s := range corpus {
		w.turn(s, "a", fmt.Sprint(i))
	}
	cmd := w.command("--session", "s", "snapshot", "--label", corpus[1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("label: %v: %s", err, out)
	}
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees(corpus[1])
	b.keys("j")
	for range len(corpus) {
		b.keys("j")
		time.Sleep(20 * time.Millisecond)
	}
	b.click(".turn", "all of them at once")
	count := len(files) / 2
	b.sees(fmt.Sprintf("%d files", count))
	for i := range count {
		b.until(`!document.querySelector(".diff .empty")?.textContent.includes("Reading")`)
		if i == count/2 { // one of them goes, and comes back
			b.keys("x")
		}
		b.keys("J")
	}
	b.keys("\r")
	b.agree()
	b.until(`document.querySelector(".toast")?.innerText.includes("Take back 1 file") && !document.querySelector("dialog")`)
	b.keys("u")
	b.sees("Undo:")
	if n := eval[int](b, `document.querySelectorAll("script, style, iframe, img, base, meta[http-equiv], svg, a").length`); n != 2 {
		t.Errorf("%d elements that the page does not have", n)
	}
	if eval[bool](b, `"hit" in window`) {
		t.Error("a script was run")
	}
	if at := eval[string](b, "location.href"); !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Errorf("the page is at %s", at)
	}
	if text := eval[string](b, "document.body.innerText"); strings.ContainsAny(text, "\u202e\x1b") {
		t.Error("a control is in the page")
	}
	b.quiet()
}

// TestSwitch: what is shown is of the turn that is chosen, also where others are recorded meanwhile.
func TestSwitch(t *testing.T) {
	w := newWorld(t)
	zero := numbered(20)
	w.write("a", text(zero))
	w.turn("older", "a", text(changed(zero, 3)))
	w.turn("newer", "a", text(changed(changed(zero, 3), 4)))
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("older", "a")
	for i := range 14 { // no more rows than the list draws: both turns stay in it
		title, line := "newer", "line4()"
		if i%2 == 1 {
			title, line = "older", "line3()"
		}
		recorded := make(chan struct{})
		go func() {
			defer close(recorded)
			w.turn("another", "b", fmt.Sprint(i))
		}()
		b.click(".turn", title)
		<-recorded
		b.until(fmt.Sprintf(`document.querySelector(".turn.at .text").textContent === %q &&
			document.querySelector(".minus code")?.textContent.includes(%q)`, title, line))
		if got := eval[string](b, `document.querySelector(".minus code").textContent`); strings.Contains(got, "changed") {
			t.Fatalf("%s: it was %q before", title, got)
		}
	}
	b.quiet()
}

// delay has the answers come late whose address begins so; window.late counts those that have come.
func (b *browser) delay(prefix string, ms int) {
	b.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { window.real ??= window.fetch; window.late = 0
		window.fetch = async (...args) => {
		const r = await window.real(...args)
		if (String(args[0]).startsWith(%q)) { await new Promise(go => setTimeout(go, %d)); window.late++ }
		return r
	}; return true })()`, prefix, ms))
}

// TestLate: an answer that is late takes back neither what the stream has said since nor what a later
// answer has.
func TestLate(t *testing.T) {
	w := newWorld(t)
	zero := numbered(30)
	w.write("a", text(zero))
	w.turn("first", "a", text(changed(zero, 2, 20)))
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("first", "a")
	b.delay("/v1/sessions", 700)
	w.turn("second", "b", "2\n")
	b.sees("second")
	w.begin("third")
	b.until(`document.querySelector(".live")`)
	b.until(`window.late > 0`)
	time.Sleep(50 * time.Millisecond)
	if !eval[bool](b, `!!document.querySelector(".live")`) {
		t.Error("the turn that is open is gone")
	}
	w.end()
	b.until(`!document.querySelector(".live")`)

	// A list of hunks that was asked for before a revert, and comes after the list that has it.
	b.delay("/v1/verbs/hunks", 1500)
	w.turn("fourth", "b", "4\n")
	b.sees("fourth")
	time.Sleep(200 * time.Millisecond) // it has been asked for
	b.delay("/v1/verbs/nothing", 0)
	if out, err := w.command("revert", "turn:0", "-y").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.until(`document.querySelectorAll(".hunk.done").length === 2`)
	b.until(`window.late > 0`)
	time.Sleep(50 * time.Millisecond)
	if n := eval[int](b, `document.querySelectorAll(".hunk.done").length`); n != 2 {
		t.Errorf("%d hunks are taken back after a late answer", n)
	}
	b.quiet()
}

// TestNarrow: on a phone one part after the other is seen, and nothing is wider than the screen.
func TestNarrow(t *testing.T) {
	w := newWorld(t)
	w.write("a.go", text(numbered(30)))
	w.turn("first", "a.go", text(changed(numbered(30), 3)))
	w.serve()
	b := browse(t, w.address, 390, 800)
	b.click(".turn", "first")
	b.click(".file", "a.go")
	b.until(`document.querySelector(".hunk")?.getBoundingClientRect().width > 300`)
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
		t.Errorf("the page is %d wide", wide)
	}
	b.click(".up", "Files")
	b.click(".up", "Turns")
	b.until(`document.querySelector(".turn").getBoundingClientRect().width > 300`)
	b.quiet()
}
