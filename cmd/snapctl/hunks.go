package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// diffHunks lists the hunks of a turn, or between two revisions.
func (a *app) diffHunks(cmd *cobra.Command, p *place, revs []string, only filter, f *diffFlags) error {
	r := new(manager.HunkRange)
	switch isTurn := cmd.Flags().Changed("turn"); {
	case !isTurn && (len(revs) != 2 || revs[0] == diskRev || revs[1] == diskRev):
		return &failure{exitUsage, fmt.Errorf("diff: --hunks compares two revisions of which neither is the disk"),
			"'snapctl diff --hunks --turn REV' lists what a turn did"}
	case !isTurn:
		r.From, r.To = revs[0], revs[1]
		revs = revs[1:]
	default:
		revs = []string{f.turn}
		r.Turns = revs
	}
	for _, rev := range revs { // which settles on a session
		if _, err := p.resolve(cmd.Context(), rev); err != nil {
			return err
		}
	}
	for _, path := range only {
		r.Paths = append(r.Paths, cmp.Or(path, "."))
	}
	if cmd.Flags().Changed("unified") {
		r.Context = f.context
	}
	hunks, err := allHunks(cmd.Context(), p, r)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(&manager.HunkList{Hunks: hunks})
	}
	path := ""
	for i := range hunks {
		h := &hunks[i]
		if h.Path != path {
			fmt.Fprintln(a.out, a.paint(asHeading, words.Quote(h.Path)))
			path = h.Path
		}
		a.out.Write(a.hunkText(h, !f.raw && isTerminal(a.stdout)))
	}
	if f.exitCode && len(hunks) > 0 {
		return &failure{code: exitRefused}
	}
	return nil
}

// allHunks returns the hunks of all parts of a list.
func allHunks(ctx context.Context, p *place, r *manager.HunkRange) (all []manager.Hunk, err error) {
	all = []manager.Hunk{}
	for {
		list, err := p.m.Hunks(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Hunks...)
		if r.Cursor = list.NextCursor; r.Cursor == "" {
			return all, nil
		}
	}
}

// hunkText returns a hunk as it is printed, with its ID and state in the header. isSeen
// says that it is for a terminal.
func (a *app) hunkText(h *manager.Hunk, isSeen bool) []byte {
	head := h.Kind
	if h.Kind == "lines" {
		head = fmt.Sprintf("@@ -%s +%s @@", unifiedRange(h.Before), unifiedRange(h.After))
	}
	head = strings.TrimSuffix(fmt.Sprintf("%s %s %s", head, h.ID, h.State), " ")
	if len(h.BlockedBy) > 0 {
		head += " with " + strings.Join(h.BlockedBy, ", ")
	}
	if h.Window > 0 {
		head += fmt.Sprintf(", window %d", h.Window)
	}
	text := patchOf(h)
	if isSeen {
		text = visiblePatch(text)
	}
	if a.colour {
		text = a.paintPatch(text)
		head = a.paint(asNote, head)
	}
	_, body, _ := bytes.Cut(text, []byte("\n"))
	return append([]byte(head+"\n"), body...)
}

// patchOf returns the text of a hunk behind a header, so that it is known where lines begin.
func patchOf(h *manager.Hunk) []byte {
	if h.TextBytes != nil {
		return append([]byte("@@\n"), h.TextBytes...)
	}
	return []byte("@@\n" + h.Text)
}

// visibleHunk returns the text of a hunk as a terminal may have it.
func visibleHunk(h *manager.Hunk) []byte {
	_, body, _ := bytes.Cut(visiblePatch(patchOf(h)), []byte("\n"))
	return body
}

// unifiedRange returns lines as the header of a hunk has them.
func unifiedRange(lines [2]int) string {
	n := lines[1] - lines[0]
	first := lines[0]
	if n > 0 {
		first++
	}
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, n)
}
