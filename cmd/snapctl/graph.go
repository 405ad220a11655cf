package main

import (
	"slices"
	"strings"

	"github.com/boocode/filestore/manager"
)

// A graph draws which turn builds on which, newest first, in lanes: the first is the line of
// the turns that are in, others are of those that were taken back or are on other branches of
// the conversation.
type graph struct {
	lanes []uint64 // the turn or start that each goes on with; 0: it is free
	began bool     // the first lane has had a turn
}

// add draws a moment: joins has the lines above it, sign what stands before the moment, and
// beside what stands before lines below it.
func (g *graph) add(mo *manager.Moment) (joins []string, sign, beside string) {
	isNode := mo.TurnIndex >= 0 || mo.Kind == "start" || mo.Kind == "fork"
	seq := uint64(0)
	if mo.Snapshot != nil {
		seq = mo.Snapshot.Seq
	}
	if !isNode || seq == 0 {
		return nil, g.draw(0, signOf(mo)), g.draw(-1, "")
	}
	at := slices.Index(g.lanes, seq)
	if isOff := mo.TakenBack != nil || mo.NotIn; !isOff && !g.began {
		at = 0
	}
	if at < 0 { // nothing that was drawn builds on it: it begins a lane beside the first
		for at = 1; at < len(g.lanes) && g.lanes[at] != 0; {
			at++
		}
	}
	for len(g.lanes) <= at {
		g.lanes = append(g.lanes, 0)
	}
	g.lanes[at], g.began = seq, g.began || at == 0
	for i := at + 1; i < len(g.lanes); i++ {
		if g.lanes[i] == seq { // builds on it, too
			joins = append(joins, g.join(at, i))
			g.lanes[i] = 0
		}
	}
	g.trim()
	sign = g.draw(at, signOf(mo))
	g.lanes[at] = mo.Prev
	g.trim()
	return joins, sign, g.draw(-1, "")
}

// trim takes free lanes from the end.
func (g *graph) trim() {
	for n := len(g.lanes); n > 1 && g.lanes[n-1] == 0; n-- {
		g.lanes = g.lanes[:n-1]
	}
}

// draw returns the lanes, one of them with a sign.
func (g *graph) draw(at int, sign string) string {
	var b strings.Builder
	for i := range max(len(g.lanes), 1) {
		switch {
		case i == at:
			b.WriteString(sign)
		case i < len(g.lanes) && g.lanes[i] != 0 || i == 0 && !g.began:
			b.WriteString("│")
		default:
			b.WriteString(" ")
		}
		b.WriteString(" ")
	}
	return b.String()
}

// join returns a line in which a lane ends in another one.
func (g *graph) join(to, from int) string {
	var b strings.Builder
	for i := range g.lanes {
		isOpen := g.lanes[i] != 0
		switch {
		case i == to:
			b.WriteString("├─")
		case i == from:
			b.WriteString("╯ ")
		case to < i && i < from && isOpen:
			b.WriteString("┼─")
		case to < i && i < from:
			b.WriteString("──")
		case isOpen:
			b.WriteString("│ ")
		default:
			b.WriteString("  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}
