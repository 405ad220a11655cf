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
	isBad := false
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
		isBad = packages.PrintErrors(list) > 0 || len(list) == 0 || isBad
	}
	if isBad {
		os.Exit(1)
	}
}
