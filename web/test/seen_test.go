package test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	downloads "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/boocode/filestore/manager"
)

// TestMoved: a file that a turn has moved and changed is one row, shown as what has changed of it, and
// goes back under both names; its history goes on under the old one.
func TestMoved(t *testing.T) {
	w := newWorld(t)
	old := numbered(30)
	w.write("old.go", text(old))
	w.turn("write it", "old.go", text(changed(old, 2)))
	w.begin("move it")
	w.must(os.Mkdir(filepath.Join(w.dir, "lib"), 0o755))
	w.must(os.Rename(filepath.Join(w.dir, "old.go"), filepath.Join(w.dir, "lib", "new.go")))
	w.write("lib/new.go", text(changed(old, 2, 20)))
	w.write("other", "o\n")
	w.end()
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.click(".turn", "move it")
	b.until(`document.querySelectorAll(".file:not(.dir)").length === 2`)
	b.click(".file", "new.go")
	b.until(`document.querySelectorAll(".minus").length === 1 && document.querySelectorAll(".plus").length === 1`)
	b.sees("moved from old.go, 9")
	row := eval[string](b, `document.querySelector(".file.at").innerText`)
	if !strings.HasPrefix(row, "☐\nR\nnew.go ← old.go") {
		t.Errorf("row: %q", row)
	}
	b.keys(" ")
	b.sees("1 file picked")
	b.keys("\r")
	b.agree()
	w.holds("old.go", text(changed(old, 2)))
	w.holds("lib/new.go", "(new.go is not there)")
	w.holds("other", "o\n")
	b.until(`document.querySelector(".toast") && !document.querySelector("dialog")`)
	b.keys("u")
	w.holds("lib/new.go", text(changed(old, 2, 20)))
	w.holds("old.go", "(old.go is not there)")
	b.until(`document.querySelector(".toast")?.innerText.includes("Undo")`)
	b.keys("h")
	b.sees("change 2 of 4: turn 1")
	b.keys(kb.ArrowLeft)
	b.sees("change 1 of 4: turn 0")
	b.until(`document.querySelector(".diff h2").textContent === "old.go" &&
		document.querySelector(".minus code")?.textContent.includes("line2()")`)
	b.quiet()
}

// TestBlame: each line of a turn's file has a turn beside it, or the user, and leads there.
func TestBlame(t *testing.T) {
	w := newWorld(t)
	zero := numbered(12)
	w.write("a.go", text(zero))
	w.turn("the third line", "a.go", text(changed(zero, 2)))
	mine := changed(zero, 2)
	mine[5] = "// mine"
	w.write("a.go", text(mine))
	w.turn("the ninth line", "a.go", text(changed(mine, 8)))
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("the ninth line", "a.go")
	b.keys("e", "a")
	owners := `[...document.querySelectorAll(".line")].filter(e => !e.querySelector(".minus"))
		.map(e => e.querySelector(".owner")?.textContent)`
	b.until(owners + `.join() === "before,,turn 0,before,,you,before,,turn 1,before,,"`)
	b.keys("s")
	b.until(`document.querySelector(".code.split .owner")`)
	b.until(owners + `.filter(Boolean).length >= 6`)
	b.keys("s")
	b.click(".owner button", "turn 0")
	b.until(`document.querySelector(".turn.at")?.textContent.includes("the third line") &&
		document.querySelector(".minus code")?.textContent.includes("line2()")`)
	b.keys("e")
	b.until(owners + `.join() === "before,,turn 0,before,,,,,,,,"`)
	b.click(".group button", "Blame")
	b.until(`!document.querySelector(".owner")`)
	b.quiet()
}

// TestGraph: where a turn was taken back and another was done in its place, the list has two lanes that
// join; with one line of turns it has one.
func TestGraph(t *testing.T) {
	w := newWorld(t)
	w.write("a", "0\n")
	w.turn("first", "a", "1\n")
	w.turn("one way", "a", "2\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.sees("one way")
	b.until(`document.querySelectorAll(".rail").length >= 3 && !document.querySelector(".rail .join, .rail .lane1")`)
	if out, err := w.command("--session", "s", "restore", "-y", "turn:0").CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	w.turn("another way", "a", "3\n")
	rail := func(title, of string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".turn")].find(e => e.textContent.includes(%q))
			?.querySelector(%q)`, title, of)
	}
	b.until(rail("another way", ".rail .sign.in.lane0"))
	b.until(rail("one way", ".rail .sign.off.lane1"))
	b.until(rail("first", ".rail .join"))
	b.quiet()
}

// TestExport: the page saves the files as they were at a turn; on the disk nothing changes.
func TestExport(t *testing.T) {
	w := newWorld(t)
	w.turn("first", "a", "1\n", "dir/b", "b\n")
	w.turn("second", "a", "2\n")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	dir := t.TempDir()
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		p := downloads.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir}
		_, err := cdp.Call(ctx, t, downloads.SetDownloadBehavior, p)
		return err
	}))
	b.chooses("first", "b")
	b.click(".actions button", "Export")
	b.sees("shop-turn-0.tar is in your downloads")
	const want = "a=1\n dir/b=b\n "
	files, late := "", time.Now().Add(10*time.Second)
	for ; files != want && time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		files = ""
		content, _ := os.ReadFile(filepath.Join(dir, "shop-turn-0.tar")) // it is there when it is whole
		for r := tar.NewReader(bytes.NewReader(content)); ; {
			h, err := r.Next()
			if err != nil {
				break
			}
			if h.Typeflag == tar.TypeReg {
				b, _ := io.ReadAll(r)
				files += strings.TrimPrefix(h.Name, "shop/") + "=" + string(b) + " "
			}
		}
	}
	if files != want {
		t.Errorf("exported: %q", files)
	}
	w.holds("a", "2\n")
	b.quiet()
}

// picture is an image of one colour.
func picture(t *testing.T, c color.Color) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for i := range 40 * 30 {
		m.Set(i%40, i/40, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestImages: an image is shown as it was before and after; what only says that it is one is not.
func TestImages(t *testing.T) {
	w := newWorld(t)
	before, after := picture(t, color.RGBA{R: 255, A: 255}), picture(t, color.RGBA{B: 255, A: 255})
	w.write("logo.png", before)
	w.write("logo.svg", "<svg onload='window.hit=1'>\x00</svg>")
	w.turn("another logo", "logo.png", after, "logo.svg", "<svg onload='window.hit=2'>\x00</svg>", "none.png",
		"\x89PNG\x00none")
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("another logo", "logo.png")
	colours := `(async () => { const list = []
		for (const i of document.querySelectorAll(".images img")) {
			await i.decode()
			const c = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d")
			c.drawImage(i, 0, 0, 1, 1)
			list.push(i.alt + " " + i.naturalWidth + "x" + i.naturalHeight + " " +
				[...c.getImageData(0, 0, 1, 1).data].slice(0, 3))
		}
		return list.join("; ") })()`
	b.until(`document.querySelectorAll(".images img").length === 2`)
	const want = "the image before the turn 40x30 255,0,0; the image after the turn 40x30 0,0,255"
	if got := eval[string](b, colours); got != want {
		t.Errorf("images: %s, want %s", got, want)
	}
	b.sees(fmt.Sprintf("before: %d bytes, after: %d bytes", len(before), len(after)))
	b.chooses("another logo", "logo.svg")
	b.until(`!document.querySelector(".images") && !document.querySelector("svg") && !("hit" in window)`)
	b.chooses("another logo", "logo.png")
	b.keys(" ", "\r")
	b.agree()
	w.holds("logo.png", before)
	b.quiet()
}

// media has the page believe something of what shows it.
func media(features ...*emulation.MediaFeature) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// TestZoom: at 200 % of a window of 1280 by 760 all is reached, and nothing is wider than the window;
// who wants no motion sees none.
func TestZoom(t *testing.T) {
	w := newWorld(t)
	w.write("a.go", text(numbered(30)))
	w.turn("a prompt that is long enough to need more than the one line that it has at that size of text", "a.go",
		text(changed(numbered(30), 3, 20)))
	w.begin("is open")
	w.serve()
	b := browse(t, w.address, 640, 380, chromedp.EmulateViewport(640, 380, chromedp.EmulateScale(2)))
	b.sees("is open")
	fits := func(what string) {
		t.Helper()
		wide := eval[string](b, `[...document.querySelectorAll("button, input, select, h2, .turn, .hunk, dialog")].filter(e => {
			const r = e.getBoundingClientRect()
			return e.checkVisibility() && r.width > 0 && (r.right > innerWidth + 1 || r.left < -1) &&
				!e.closest(".code")
		}).map(e => e.className + " " + e.textContent.slice(0, 30)).join("; ") +
			(document.documentElement.scrollWidth > innerWidth ? "; the page" : "")`)
		if wide != "" {
			t.Errorf("%s: wider than the window: %s", what, wide)
		}
	}
	fits("turns")
	if name := eval[string](b, `getComputedStyle(document.querySelector(".dot")).animationName`); name != "pulse" {
		t.Errorf("the sign of an open turn: %s", name)
	}
	b.run(media(&emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"}))
	b.until(`document.getAnimations().length === 0 &&
		getComputedStyle(document.querySelector(".dot")).animationName === "none"`)
	w.end()
	b.until(`!document.querySelector(".live")`)
	b.click(".turn", "a prompt")
	b.until(`document.querySelector(".file")?.checkVisibility()`)
	fits("files")
	b.click(".file", "a.go")
	b.until(`document.querySelector(".hunk")?.checkVisibility()`)
	fits("a diff")
	b.click(".hunk input", "")
	b.click(".picked button", "Preview")
	b.until(`document.querySelector("dialog button.go:not(:disabled)")`)
	fits("a preview")
	if eval[bool](b, `document.querySelector("dialog button.go").getBoundingClientRect().bottom > innerHeight`) {
		b.until(`(document.querySelector("dialog button.go").scrollIntoView(), true)`)
		b.until(`document.querySelector("dialog button.go").getBoundingClientRect().bottom <= innerHeight`)
	}
	b.agree()
	w.holds("a.go", text(changed(numbered(30), 20)))
	b.quiet()
}

// TestToken: a page that is loaded again goes on; another tab needs the whole address; a token of a
// server that has ended is kept nowhere.
func TestToken(t *testing.T) {
	w := newWorld(t)
	w.turn("first", "a", "1\n")
	w.serve()
	port := w.port()
	b := browse(t, w.address, 1400, 900)
	b.sees("first")
	b.run(chromedp.Reload())
	b.sees("first")
	other := browse(t, "http://127.0.0.1:"+port+"/", 1400, 900)
	other.sees("This address has no token")
	w.stop(os.Interrupt)
	w.serve("--port", port)
	b.sees("This address has no token, or an old one")
	kept := eval[string](b, `JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, history.state])`)
	if kept != `[{},{},"",null]` {
		t.Errorf("kept: %s", kept)
	}
	b.run(chromedp.Navigate(w.address), chromedp.Reload())
	b.sees("first")
}

// TestPruneSeen: what a prune has dropped says so at once, and is not offered any more; a name that the
// command gives a turn is there, too.
func TestPruneSeen(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		w.turn(fmt.Sprintf("turn number %d", i), "a", fmt.Sprint(i))
	}
	time.Sleep(time.Second) // prune keeps what is younger
	w.must(w.manager().Close())
	w.m = nil
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.click(".turn", "turn number 1")
	b.click(".file", "a")
	for _, args := range [][]string{{"--session", "s", "tag", "kept", "turn:4"},
		{"prune", "--keep-last", "1", "--keep-within", "1s", "-y"}} {
		if out, err := w.command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
		if args[0] == "prune" {
			b.until(`document.querySelector(".turn.at .state")?.textContent.includes("pruned")`)
			b.sees("What it changed was dropped from the store by prune")
			b.until(`!document.querySelector(".actions .go")`)
		} else {
			b.until(`[...document.querySelectorAll(".turn .label")].some(e => e.textContent === "kept")`)
		}
	}
	b.quiet()
}

// TestPartOfTurn: a restore to the middle of a turn has taken back a part of it.
func TestPartOfTurn(t *testing.T) {
	w := newWorld(t)
	m, err := manager.Open(t.Context(), w.dir, &manager.Options{StoreRoot: filepath.Join(w.home, "stores"),
		Session: w.session, ToolWindows: true})
	w.must(err)
	defer m.Close()
	w.m = m
	w.begin("two tools")
	for _, name := range []string{"a", "b"} {
		_, err := m.OnToolStart(t.Context(), name)
		w.must(err)
		w.write(name, "1\n")
		_, err = m.OnToolEnd(t.Context(), name)
		w.must(err)
	}
	w.end()
	if out, err := w.command("--session", "s", "restore", "look:2", "-y").CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	w.holds("a", "1\n")
	w.holds("b", "(b is not there)")
	w.serve()
	b := browse(t, w.address, 1280, 640)
	b.click(".bar button", "Restores")
	b.until(`document.querySelector("dialog li")?.textContent.includes("took back a part of turn 0, 1 file ")`)
	b.quiet()
}

// TestSays: what the page says of a turn of which a hunk was taken back, and of one that is open no
// more, is so; a hunk is seen whole; what undo took back comes back by the message that says so.
func TestSays(t *testing.T) {
	w := newWorld(t)
	zero := numbered(120)
	later := []int{90, 91, 92, 93, 94, 95, 96, 97, 98}
	w.write("a.go", text(zero))
	w.turn("change it", "a.go", text(changed(zero, append([]int{5, 50}, later...)...)))
	w.serve()
	b := browse(t, w.address, 1280, 640)
	b.chooses("change it", "a.go")

	b.keys("n", "n")
	b.until(`document.querySelector(".diff .meta").textContent.includes("3 of 3 hunks")`)
	b.until(`(box => [...document.querySelectorAll(".line.at")].length === 18 && [...document.querySelectorAll(".hunk.at, .line.at")]
		.every(e => e.getBoundingClientRect().top >= box.top && e.getBoundingClientRect().bottom <= box.bottom))
		(document.querySelector(".code").getBoundingClientRect())`)

	b.keys("p", " ", "\r")
	b.agree()
	without := text(changed(zero, append([]int{5}, later...)...))
	w.holds("a.go", without)
	b.until(`document.querySelector(".turnhead .state")?.textContent === "in part: without a part of a.go"`)
	b.click(".bar button", "Restores")
	b.until(`document.querySelector("dialog li")?.textContent.includes("took back a part of turn 0, 1 file ")`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector("dialog")`)
	b.keys("u")
	b.until(`!document.querySelector(".turnhead .state")`)
	b.click(".toast button", "Redo")
	w.holds("a.go", without)
	b.click(".toast button", "Undo")
	w.holds("a.go", text(changed(zero, append([]int{5, 50}, later...)...)))

	// Nothing is in the way once the turn has ended: what would be done is found out again.
	b.until(`document.querySelector(".turn.at .meta .add")`)
	b.delay("/v1/verbs/get_turn_diff", 2000)
	if out, err := w.command("--session", "s", "tag", "named", "turn:0").CombinedOutput(); err != nil {
		t.Fatalf("tag: %v: %s", err, out)
	}
	b.until(`document.querySelector(".turn.at .label")`)
	time.Sleep(700 * time.Millisecond) // all rows are read again
	if !eval[bool](b, `!!document.querySelector(".turn.at .meta .add")`) {
		t.Error("lines that were counted are not shown any more")
	}
	b.delay("/v1/verbs/nothing", 0)
	w.begin("is at work")
	b.until(`document.querySelector(".live")`)
	b.click(".turn", "change it")
	b.keys("\r")
	b.until(`document.querySelector("dialog h2")?.textContent === "Take back turn 0"`)
	b.agree()
	b.until(`document.querySelector("dialog .trouble[role=alert]")`)
	w.end()
	b.until(`!document.querySelector("dialog .trouble") && document.querySelector("dialog button.go:not(:disabled)")`)
	b.agree()
	w.holds("a.go", text(zero))
	b.quiet()
}

// TestTooLong: of a file that is too long for lines to be told apart its sizes are said, and it goes back;
// of one that was moved it is said who has changed it since.
func TestTooLong(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("a line of a long file\n", 11<<20/22+1)
	w.write("long", long)
	w.write("old.go", text(numbered(20)))
	w.turn("one more line", "long", long+"more\n")
	w.begin("move it")
	w.must(os.Rename(filepath.Join(w.dir, "old.go"), filepath.Join(w.dir, "new.go")))
	w.end()
	w.write("new.go", text(changed(numbered(20), 3)))
	w.serve()
	b := browse(t, w.address, 1400, 900)
	b.chooses("move it", "new.go")
	b.until(`document.querySelector(".turn.at .meta").textContent.includes("1 file")`)
	b.until(`document.querySelector(".hunk.conflict")?.textContent.includes("changed since by you")`)
	b.chooses("one more line", "long")
	b.sees("too long to be shown: before: 11,534,358 bytes, after: 11,534,363 bytes")
	b.keys(" ", "\r")
	b.agree()
	w.holds("long", long)
	b.quiet()
}
