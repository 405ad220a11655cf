package pickaxe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/tree"
)

// A Gap is what a search could not look into.
type Gap struct {
	Pruned int // snapshots
	Lost   int // snapshots, at least, or what they changed

	unread []string // files of which a content is not to be had, such as one that was forgotten
	why    error    // not that of the first
}

// AddUnread notes that a file has a content that cannot be read.
func (g *Gap) AddUnread(path string, err error) {
	if g.why == nil {
		g.why = err
	}
	if !slices.Contains(g.unread, path) {
		g.unread = append(g.unread, path)
	}
}

// Join adds what another gap has.
func (g *Gap) Join(other *Gap) {
	g.Pruned, g.Lost = g.Pruned+other.Pruned, g.Lost+other.Lost
	for _, path := range other.unread {
		g.AddUnread(path, other.why)
	}
}

// String says what could not be searched; "": all could.
func (g *Gap) String() string {
	var list []string
	if g.Pruned > 0 {
		list = append(list, words.Count(g.Pruned, "snapshot")+" pruned")
	}
	if g.Lost > 0 {
		list = append(list, words.Count(g.Lost, "snapshot")+" lost")
	}
	if n := len(g.unread); n > 0 {
		text := fmt.Sprintf("%s not to be read: %s: %v", words.Count(n, "file"), words.Quote(g.unread[0]), g.why)
		if n > 1 {
			text += ", and others"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// Narrow returns those of some changes that are of files to be looked at. Where one came from,
// and where it went, may be elsewhere: so what else came and went is among them where it
// matters, and whoever reads the hits leaves it out. The list is not to be used any more.
func Narrow[C any](all []C, of func(*C) *tree.Difference, wants func(path string) bool) []C {
	var came, went bool
	for i := range all {
		if d := of(&all[i]); wants(d.Path) {
			came, went = came || d.Status == tree.Added, went || d.Status == tree.Deleted
		}
	}
	return slices.DeleteFunc(all, func(c C) bool {
		d := of(&c)
		return !wants(d.Path) && !(came && d.Status == tree.Deleted) && !(went && d.Status == tree.Added)
	})
}
