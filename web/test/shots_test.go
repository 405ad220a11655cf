package test

import (
	"context"
	"flag"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	shots   = flag.String("shots", "", "write pictures of the page into `DIR`")
	format  = flag.String("format", "webp", "of the pictures: webp or png")
	screens = flag.String("screens", "", "write pictures of all screens into `DIR`, as PNG")
)

const price = `package shop

import "math"

// VAT is the rate that is added to prices.
const VAT = 0.19

// A Price is an amount in cents.
type Price int64

// WithVAT returns what the customer pays.
func (p Price) WithVAT() Price {
	return Price(math.Round(float64(p) * (1 + VAT)))
}

// Discount takes percent off.
func (p Price) Discount(percent int) Price {
	return p - p*Price(percent)/100
}

// Total adds prices up.
func Total(list []Price) Price {
	var sum Price
	for _, p := range list {
		sum += p
	}
	return sum
}
`

// shopped is a project with 30 turns, of which one has broken the build.
func shopped(t testing.TB) *world {
	w := newWorld(t)
	w.write("price.go", price)
	w.write("go.mod", "module shop\n\ngo 1.26\n")
	w.write("README.md", "# Shop\n\nA shop.\n")
	for i, title := range []string{"Add a cart", "Test the cart", "Print a receipt", "Names of products in the receipt",
		"Round the total", "A command for the till", "Read products from a file",
		"Complain about products that are unknown", "Weigh fruit", "Currency signs"} {
		name := fmt.Sprintf("cart/part%d.go", i)
		w.turn(title, name, fmt.Sprintf("package cart\n\n// Part%d is one.\nconst Part%d = %d\n", i, i, i), "README.md",
			fmt.Sprintf("# Shop\n\nA shop.\n\n%s.\n", title))
	}
	w.write("README.md", "# Shop\n\nA shop, and mine.\n")
	broken := strings.NewReplacer("const VAT = 0.19", "const VAT = 0.20", "math.Round(float64(p) * (1 + VAT))",
		"math.Rnd(float64(p) * (1 + VAT))", "// Discount takes percent off.",
		"// Discount takes percent off, but no more than all.\n// It never makes a price negative.",
		"return p - p*Price(percent)/100", "return p - p*Price(min(percent, 100))/100").Replace(price)
	w.turn("Raise VAT to 20 %, and never let a discount make a price negative", "price.go", broken, "cart/vat.go",
		"package cart\n\n// Rate says so on the receipt.\nconst Rate = \"20 %\"\n")
	for i := range 18 {
		w.turn(fmt.Sprintf("Translate the receipt, part %d", i+1), fmt.Sprintf("lang/%02d.txt", i),
			strings.Repeat(fmt.Sprintf("line of part %d\n", i), i%5+2))
	}
	w.turn("Say more in the comments", "price.go", strings.Replace(broken, "// Total adds prices up.",
		"// Total adds prices up. It is 0 of none.", 1))
	return w
}

// TestBroken: in a project with 30 turns, of which one has broken the build, whoever knows what the
// compiler says finds it, sees it, and takes one hunk of it back.
func TestBroken(t *testing.T) {
	w := shopped(t)
	before := w.read("price.go")
	w.serve()
	b := browse(t, w.address, 1280, 760)
	b.sees("Say more in the comments")
	b.keys("/")
	b.types("math.Rnd")
	b.keys("\r")
	b.until(`document.querySelector(".turn.found.at")`)
	b.keys("\r")
	b.until(`document.querySelectorAll(".hunk").length === 4 && document.querySelector(".hunk.at")`)
	b.until(`document.querySelector(".hunk.at b").textContent === "line 13"`) // that is where it goes
	b.keys(" ", "\r")
	b.agree()
	w.holds("price.go", strings.Replace(before, "math.Rnd", "math.Round", 1))
	b.quiet()
}

// TestShots makes the pictures of README.md and the guide: 'make web-shots'.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("SKIPPED: it makes pictures; run with -shots DIR")
	}
	dir := *shots
	if !filepath.IsAbs(dir) {
		dir = filepath.Join("..", "..", dir)
	}
	w := shopped(t)
	w.serve()
	for _, scheme := range []string{"light", "dark"} {
		b := browse(t, w.address, 1280, 760, colours(scheme))
		shoot := func(name string) {
			t.Helper()
			time.Sleep(700 * time.Millisecond) // what is counted is counted
			b.picture(filepath.Join(dir, name+"-"+scheme+"."+*format))
		}
		const turn = "Raise VAT"
		b.sees("Say more in the comments")
		b.keys("/")
		b.types("math.Rnd")
		b.keys("\r")
		b.click(".turn.found", "math.Rnd")
		b.until(`document.querySelectorAll(".hunk").length === 4`)
		shoot("search")
		b.keys("\x1b")
		b.click(".turn", "Translate the receipt, part 1")
		b.until(`document.querySelector(".turns .virtual").scrollHeight > 1000`)
		eval[bool](b, `(document.querySelector(".turns .virtual").scrollTop = 1000, true)`)
		b.chooses(turn, "price.go")
		b.keys("n", " ")
		b.sees("1 hunk picked")
		shoot("hunks")
		b.keys("s")
		b.until(`document.querySelector(".code.split")`)
		shoot("side-by-side")
		b.keys("s", "\r")
		b.until(`document.querySelector("dialog button.go:not(:disabled)")`)
		shoot("preview")
		b.keys("\x1b", "\x1b", "h")
		b.until(`document.querySelector(".scrubber input")`)
		shoot("history")
		b.keys("h")
		eval[bool](b, `(document.querySelector(".turns .virtual").scrollTop = 0, true)`)
		b.chooses("Say more in the comments", "price.go")
		b.keys("e", "a")
		b.until(`document.querySelectorAll(".owner button").length > 0`)
		shoot("blame")
		b.keys("a")
		w.begin("Add gift cards that can be used several times")
		b.until(`document.querySelector(".live")`)
		eval[bool](b, `(document.querySelector(".turns .virtual").scrollTop = 0, true)`)
		shoot("live")
		w.end()
		b.quiet()
	}
}

// TestScreens has axe-core look at what the page can look like, and makes pictures of it by
// 'make web-shots SCREENS=DIR'.
func TestScreens(t *testing.T) {
	*format = "png"
	w := shopped(t)
	w.begin("Move the price, and draw a logo")
	w.must(os.Rename(filepath.Join(w.dir, "price.go"), filepath.Join(w.dir, "cart", "price.go")))
	w.write("cart/price.go", strings.Replace(w.read("cart/price.go"), "package shop", "package cart", 1))
	w.write("logo.png", picture(t, color.RGBA{R: 200, G: 60, A: 255}))
	w.end()
	w.turn("Another logo", "logo.png", picture(t, color.RGBA{B: 200, G: 60, A: 255}))
	w.turn("Look at it")
	if out, err := w.command("--session", "s", "restore", "-y", "turn:26").CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	w.turn("Another way from there", "lang/40.txt", "x\n")
	w.write("lang/40.txt", "mine\n")
	w.serve()
	for _, scheme := range []string{"light", "dark"} {
		var b *browser
		n := 0
		shoot := func(name string) {
			t.Helper()
			b.axe(scheme + ", " + name)
			if n++; *screens == "" {
				return
			}
			time.Sleep(300 * time.Millisecond)
			b.picture(filepath.Join(*screens, fmt.Sprintf("%s-%02d-%s.png", scheme, n, name)))
		}
		b = browse(t, w.address, 1280, 760, colours(scheme))
		b.sees("Another way from there")
		b.click(".turn", "Another way from there")
		b.until(`document.querySelector(".hunk")`)
		shoot("branches")
		b.keys("\r")
		b.sees("in conflict")
		shoot("conflict")
		b.keys("\x1b")
		b.click(".turn", "Move the price")
		b.click(".file", "price.go")
		b.sees("moved from")
		shoot("moved")
		b.click(".turn", "Another logo")
		b.until(`document.querySelectorAll(".images img").length === 2`)
		shoot("images")
		b.keys("?")
		shoot("keys")
		b.keys("\x1b")
		for button, name := range map[string]string{"Restores": "restores", "Label": "label"} {
			b.click(".bar button", button)
			shoot(name)
			b.keys("\x1b")
		}
		b.keys("/")
		b.types("nothing has this")
		shoot("nothing-found")
		b.keys("\r")
		b.until(`document.querySelector(".turns .empty")?.textContent.includes("No change")`)
		shoot("nothing-found-in-contents")
		b.keys("\x1b", "\x1b")
		w.begin("Is open")
		b.until(`document.querySelector(".live")`)
		b.click(".turn", "Another way from there")
		b.until(`document.querySelector(".actions .go")`)
		b.click(".actions .go", "")
		b.until(`document.querySelector(".trouble")`)
		shoot("an-open-turn")
		b.keys("\x1b")
		w.end()
		for _, size := range [][3]int{{390, 800, 1}, {640, 380, 2}} {
			b.close() // all tabs are seen here, and there are connections for six
			b = browse(t, w.address, size[0], size[1], colours(scheme),
				chromedp.EmulateViewport(int64(size[0]), int64(size[1]), chromedp.EmulateScale(float64(size[2]))))
			what := fmt.Sprintf("%d-", size[0])
			b.sees("Another way from there")
			shoot(what + "turns")
			b.click(".turn", "Another way from there")
			b.until(`document.querySelector(".file")`)
			shoot(what + "files")
			b.click(".file", "40.txt")
			b.until(`document.querySelector(".hunk")`)
			shoot(what + "diff")
			b.keys(" ", "\r")
			b.until(`document.querySelector("dialog")`)
			shoot(what + "preview")
		}
		b = browse(t, strings.Split(w.address, "#")[0], 1280, 760, colours(scheme))
		b.sees("no token")
		shoot("no-token")
		empty := newWorld(t)
		empty.serve()
		b = browse(t, empty.address, 1280, 760, colours(scheme))
		b.sees("No turn was recorded")
		shoot("empty")
		empty.stop(os.Kill)
		b.sees("The engine is gone")
		shoot("gone")
	}
}

// picture writes a picture of what is seen.
func (b *browser) picture(file string) {
	b.Helper()
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		quality := int64(80)
		picture := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormat(*format), Quality: &quality}
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, picture)
		if err != nil {
			return err
		}
		return os.WriteFile(file, r.Data, 0o644)
	}))
}
