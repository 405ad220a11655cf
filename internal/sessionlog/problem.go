package sessionlog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/boocode/filestore/session"
)

// A Problem is something in a session log that is not as it should be.
type Problem struct {
	Line   int    // number of the line, from 1
	Offset int64  // of the line, in bytes from the start of the file
	Reason string // what is wrong
}

// maxProblems bounds the problems that are kept. The rest are counted.
const maxProblems = 100

// problems are those of a log.
type problems struct {
	noted   []Problem // the first maxProblems, without those of orphans
	total   int       // number of problems, without those of orphans
	orphans []orphan  // whose parent was not there when they were added
}

// An orphan is an entry and where it came from.
type orphan struct {
	*session.Entry
	line int
	off  int64
}

// note keeps or counts a problem.
func (p *problems) note(line int, off int64, reason string) {
	p.total++
	if len(p.noted) < maxProblems {
		p.noted = append(p.noted, Problem{line, off, reason})
	}
}

// listProblems is [File.Problems].
func (r *reader) listProblems() (list []Problem, total int) {
	list, total = slices.Clone(r.noted), r.total
	for _, o := range r.orphans {
		if e, _ := r.tree.Entry(o.ID); e != o.Entry || r.has(o.ParentID) {
			continue
		}
		total++
		if total-r.total <= maxProblems {
			reason := fmt.Sprintf("entry %q: its parent %q is missing", o.ID, o.ParentID)
			list = append(list, Problem{o.line, o.off, reason})
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return list[:min(len(list), maxProblems)], total
}
