package test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write pictures of the page into `DIR`")

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
	b.click(".turn.found", "math.Rnd")
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
	dir, err := filepath.Abs(filepath.Join("..", "..", *shots))
	if err != nil {
		t.Fatal(err)
	}
	w := shopped(t)
	w.serve()
	for _, scheme := range []string{"light", "dark"} {
		b := browse(t, w.address, 1280, 760, colours(scheme))
		shoot := func(name string) {
			t.Helper()
			time.Sleep(700 * time.Millisecond) // what is counted is counted
			b.webp(filepath.Join(dir, name+"-"+scheme+".webp"))
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
		w.begin("Add gift cards that can be used several times")
		b.until(`document.querySelector(".live")`)
		eval[bool](b, `(document.querySelector(".turns .virtual").scrollTop = 0, true)`)
		shoot("live")
		w.end()
		b.quiet()
	}
}

// webp writes a picture of what is seen.
func (b *browser) webp(file string) {
	b.Helper()
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		quality := int64(80)
		picture := page.CaptureScreenshotParams{Format: "webp", Quality: &quality}
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, picture)
		if err != nil {
			return err
		}
		return os.WriteFile(file, r.Data, 0o644)
	}))
}
