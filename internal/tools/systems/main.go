// Command systems checks the types of packages, and of their tests, as other systems see them:
// systems DIR GOOS,GOOS PACKAGE... 'go vet' would compile all that they import for each system,
// which takes 120 s of processor time; to check the types of it all takes 7.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: systems DIR GOOS,GOOS PACKAGE...")
		os.Exit(2)
	}
	told := make(map[string]bool) // a package, and the same with its tests, have the same errors
	for goos := range strings.SplitSeq(os.Args[2], ",") {
		list, err := packages.Load(&packages.Config{
			Mode:  packages.LoadAllSyntax,
			Env:   append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0"),
			Dir:   os.Args[1],
			Tests: true,
		}, os.Args[3:]...)
		if err != nil {
			fmt.Fprintf(os.Stderr, "systems: load packages for %s: %v\n", goos, err)
			os.Exit(1)
		}
		if len(list) == 0 {
			fmt.Fprintf(os.Stderr, "systems: no packages for %s\n", goos)
			os.Exit(1)
		}
		packages.Visit(list, nil, func(p *packages.Package) {
			for _, err := range p.Errors {
				if text := goos + ": " + err.Error(); !told[text] {
					told[text] = true
					fmt.Fprintln(os.Stderr, text)
				}
			}
		})
	}
	if len(told) > 0 {
		os.Exit(1)
	}
}
