package test

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// axe is axe-core, which is installed if it is not there yet.
var axe = sync.OnceValues(func() (string, error) {
	const source = "../node_modules/axe-core/axe.min.js"
	if b, err := os.ReadFile(source); err == nil {
		return string(b), nil
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--silent")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	b, err := os.ReadFile(source)
	return string(b), err
})

// axe has axe-core look at the page.
func (b *browser) axe(what string) {
	b.Helper()
	source, err := axe()
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	eval[bool](b, source+";true")
	found := eval[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations.flatMap(v =>
		v.nodes.map(n => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`)
	for _, f := range found {
		b.Errorf("%s: %s", what, f)
	}
}

// TestAxe: axe-core finds nothing, whatever is shown, light or dark. TestScreens has it look at more.
func TestAxe(t *testing.T) {
	w := newWorld(t)
	zero := numbered(40)
	w.write("a.go", text(zero))
	w.turn("first", "a.go", text(changed(zero, 3, 20, 30)), "deep/down/b.go", "x\n")
	w.turn("second", "c", "1\n")
	w.write("a.go", text(changed(zero, 3, 20, 29, 30)))
	w.turn("third", "d", "1\n")
	w.begin("is open")
	w.serve()
	for _, scheme := range []string{"light", "dark"} {
		b := browse(t, w.address, 1400, 900, colours(scheme))
		check := func(what string) { b.axe(scheme + ", " + what) }
		b.chooses("first", "a.go")
		check("a diff")
		b.keys("a")
		b.until(`document.querySelector(".owner button")`)
		check("whose lines are")
		b.keys("a", "s")
		b.until(`document.querySelector(".code.split")`)
		check("side by side")
		b.keys(" ", "h")
		b.until(`document.querySelector(".scrubber input")`)
		check("picked, and the history")
		b.keys("\r")
		b.until(`document.querySelector("dialog button.go:not(:disabled)")`)
		check("a preview, with an open turn")
		b.keys(kb.Escape, "m")
		b.until(`document.querySelector("dialog input")`)
		check("a name")
		b.keys(kb.Escape)
		b.keys("?")
		check("the keys")
		b.keys(kb.Escape)
		b.click(".bar button", "Restores")
		check("restores")
		b.keys(kb.Escape)
		b.click(".bar button", "Label")
		check("a label")
		b.keys(kb.Escape)
		b.keys("/")
		b.types("nothing has this")
		b.sees("Nothing has")
		check("nothing found")
		b.keys(kb.Escape, kb.Escape, kb.Escape, "/")
		b.types("line20")
		b.keys("\r")
		b.until(`document.querySelector(".turn.found")`)
		check("what was found in contents")
		b.quiet()
	}
}
