package main

import (
	"strings"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// countsOf counts what differs: 1 added, 2 deleted.
func countsOf(d *manager.Diff) string {
	if d.Len() == 0 {
		return "nothing changed"
	}
	return nonZero([]amount{{len(d.Added), "added"}, {len(d.Modified), "modified"}, {len(d.Deleted), "deleted"},
		{len(d.Captured), "captured"}, {len(d.Uncaptured), "uncaptured"}})
}

// An amount is a number and what it is of.
type amount struct {
	n    int
	what string
}

// nonZero lists the amounts that are not zero.
func nonZero(amounts []amount) string {
	var parts []string
	for _, a := range amounts {
		if a.n > 0 {
			parts = append(parts, words.Comma(a.n)+" "+a.what)
		}
	}
	return strings.Join(parts, ", ")
}
