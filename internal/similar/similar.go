// Package similar finds which removed and added files are one file under another
// name, by how much of their content is the same. It reads no disk: callers bring
// names, modes and functions that load bytes. Its functions may be called from any
// number of goroutines.
package similar

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"
)

// IsBinary reports whether b holds a NUL in its first 8000 bytes, which is
// git's rule.
func IsBinary(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
}

// Similarity returns how much of the longer text is in the other too, in
// percent, rounded down: git's measure for renames. Equal texts are 100.
//
// Both texts are cut into lines, and lines into pieces of 64 bytes. Each piece
// of one text counts its bytes once for an equal piece of the other, wherever
// it is. So texts of the same lines in another order are 100 too, and a change
// of a few bytes costs its line, or up to 64 bytes of a long one. In texts that
// are not binary ([IsBinary]) a line that ends in CRLF equals one that ends in
// LF.
//
// The time is near linear; memory is 8 bytes for each line or piece, and 16 for
// each that is not equal to another.
func Similarity(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 100
	}
	kept, pieces := 0, piecesOf(b)
	for _, p := range piecesOf(a) {
		if i, ok := findPiece(pieces, p.hash); ok {
			kept += min(p.size, pieces[i].size)
		}
	}
	return kept * 100 / max(len(a), len(b))
}

// A piece stands for all equal pieces of a text.
type piece struct {
	hash uint32
	size int // bytes of all of them together
}

// maxPiece is the length of the longest piece.
const maxPiece = 64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// piecesOf cuts b as [Similarity] describes and returns what it finds by hash.
// The hash is for speed: two pieces of one hash count as equal.
func piecesOf(b []byte) []piece {
	isText := !IsBinary(b)
	newline := []byte("\n")
	keys := make([]uint64, 0, bytes.Count(b, newline)+len(b)/maxPiece+1)
	for len(b) > 0 {
		p := b[:min(len(b), maxPiece)]
		if end := bytes.IndexByte(p, '\n'); end >= 0 {
			p = p[:end+1]
		}
		b = b[len(p):]
		var hash uint32
		if text, ok := bytes.CutSuffix(p, []byte("\r\n")); ok && isText {
			hash = crc32.Update(crc32.Checksum(text, castagnoli), castagnoli, newline)
		} else {
			hash = crc32.Checksum(p, castagnoli)
		}
		keys = append(keys, uint64(hash)<<32|uint64(len(p)))
	}
	slices.Sort(keys)
	var list []piece
	for _, key := range keys {
		hash, size := uint32(key>>32), int(uint32(key))
		if n := len(list); n > 0 && list[n-1].hash == hash {
			list[n-1].size += size
			continue
		}
		list = append(list, piece{hash, size})
	}
	return list
}

func findPiece(list []piece, hash uint32) (int, bool) {
	return slices.BinarySearchFunc(list, hash, func(p piece, hash uint32) int { return cmp.Compare(p.hash, hash) })
}

// A Candidate is a file that was removed or added, and may be one half of a
// rename.
type Candidate struct {
	Name string // path in bytes, separated by slashes
	ID   string // the same for equal content only, such as its hash; "" if unknown
	Mode uint32 // as in git: 0o100644 is a regular file
	Size int64  // of the content in bytes

	// Load returns the content. It is called at most twice, from the goroutine of
	// the caller, one file of each side at a time, and its slice is not changed
	// nor kept. If it is nil the file is paired by its ID only, which is best for
	// files that are too large to hold.
	Load func() ([]byte, error)
}

// A Rename pairs removed[Removed] with added[Added].
type Rename struct {
	Removed, Added int
	Similarity     int // see the function; 100 if the IDs are equal
}

// RenameOptions says how PairRenames pairs.
type RenameOptions struct {
	// Similarity is the least at which files with unequal IDs are paired, in
	// percent. From 101 on none are. Default 50.
	Similarity int

	// Limit bounds the comparisons to those of Limit removed with Limit added
	// files. Negative is none. Default 1000.
	Limit int
}

// PairRenames pairs removed files with added ones that hold the same or similar
// content, each at most once, and returns the pairs in the order of added. The
// result does not depend on the order of the lists. nil options are the default.
//
// Files of equal IDs and the same kind come first: those with the same base
// name, then the others, by name. Then regular files are compared by
// [Similarity]: a base name that is left once on each side is a pair if it
// reaches the middle between the least similarity and 100, and of all others
// the most similar are paired first; on a tie the same base name wins, then the
// first name. Links are paired by ID only, empty files never.
//
// Content is loaded only where the sizes admit enough similarity. Over the limit
// only files of the same base name are compared, and of these too only as many
// as it allows; files whose content would take too much memory or time are left
// out. Both are said by cut.
//
// git diff -M does the same, except that it pairs empty files, may miss a pair
// if a file has more than four likely partners, and may choose differently
// among files of equal content or equal similarity; before 2.43.2 it does not
// count a last line without a newline. The error is that of a Load.
func PairRenames(removed, added []Candidate, opts *RenameOptions) (list []Rename, cut bool, err error) {
	opts = cmp.Or(opts, new(RenameOptions))
	p := &pairer{
		removed: newSide(removed),
		added:   newSide(added),
		least:   cmp.Or(opts.Similarity, 50),
		limit:   min(max(cmp.Or(opts.Limit, 1000), 0), 1<<15), // its square is an int
		pieces:  renamePieces,
		steps:   renameSteps,
	}
	p.pairExact(func(c *Candidate) exactKey { return exactKey{c.ID, c.kind(), path.Base(c.Name)} })
	p.pairExact(func(c *Candidate) exactKey { return exactKey{c.ID, c.kind(), ""} })
	err = p.pairSimilar()
	slices.SortFunc(p.list, func(a, b Rename) int { return cmp.Compare(a.Added, b.Added) })
	return p.list, p.cut, err
}

const (
	// renamePieces bounds the pieces of removed files that are held at a time, at
	// 16 bytes each: 32 MB. A source file of 10 kB has about 200.
	renamePieces = 2 << 20

	// renameSteps bounds how often a piece of an added file is compared with one
	// of a removed file. A step took 2.5 ns (AMD EPYC, November 2026,
	// BenchmarkPairRenames of files that are all alike), so this is worth 1 s.
	renameSteps = 4e8
)

type pairer struct {
	removed, added side
	least          int // similarity in percent
	limit          int
	pieces         int // to hold at a time
	steps          int // what is left of renameSteps
	list           []Rename
	cut            bool
}

// A side is one of the two lists.
type side struct {
	files  []Candidate
	byName []int  // indexes of files
	paired []bool // for each of files
}

func newSide(files []Candidate) side {
	s := side{files: files, paired: make([]bool, len(files))}
	for i := range files {
		s.byName = append(s.byName, i)
	}
	slices.SortFunc(s.byName, func(i, j int) int { return strings.Compare(files[i].Name, files[j].Name) })
	return s
}

// unpaired returns the files that are not paired yet and that keep returns true
// for, by name.
func (s *side) unpaired(keep func(*Candidate) bool) []int {
	var list []int
	for _, i := range s.byName {
		if !s.paired[i] && keep(&s.files[i]) {
			list = append(list, i)
		}
	}
	return list
}

func (c *Candidate) kind() uint32 { return c.Mode &^ 0o7777 }

// byContent reports whether c may be paired by its content.
func byContent(c *Candidate) bool { return c.kind() == 0o100000 && c.Size > 0 && c.Load != nil }

func (c *Candidate) load() ([]byte, error) {
	b, err := c.Load()
	if err != nil {
		return nil, fmt.Errorf("compare %q: %w", c.Name, err)
	}
	return b, nil
}

func (p *pairer) pair(removed, added, similarity int) {
	p.removed.paired[removed], p.added.paired[added] = true, true
	p.list = append(p.list, Rename{removed, added, similarity})
}

type exactKey struct {
	id   string
	kind uint32
	base string
}

// pairExact pairs the files with equal keys, in the order of their names.
func (p *pairer) pairExact(key func(*Candidate) exactKey) {
	usable := func(c *Candidate) bool { return c.ID != "" && c.Size > 0 }
	waiting := make(map[exactKey][]int)
	for _, i := range p.removed.unpaired(usable) {
		k := key(&p.removed.files[i])
		waiting[k] = append(waiting[k], i)
	}
	for _, j := range p.added.unpaired(usable) {
		k := key(&p.added.files[j])
		if list := waiting[k]; len(list) > 0 {
			p.pair(list[0], j, 100)
			waiting[k] = list[1:]
		}
	}
}

// pairSimilar pairs what pairExact left.
func (p *pairer) pairSimilar() error {
	groups := p.groupByBase()
	for _, g := range groups {
		if len(g.removed) == 1 && len(g.added) == 1 {
			if err := p.pairIfSimilar(g.removed[0], g.added[0], (p.least+100)/2); err != nil {
				return err
			}
		}
	}
	all := p.rest()
	if p.fits(all, p.limit*p.limit) {
		return p.pairGroup(all)
	}
	p.cut = true
	left := p.limit * p.limit
	for _, g := range p.groupByBase() {
		if !p.fits(g, left) {
			continue
		}
		left -= len(g.removed) * len(g.added)
		if err := p.pairGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// A group is files to compare with each other, by name.
type group struct{ removed, added []int }

// fits reports whether g needs no more than n comparisons. It does not multiply,
// which could overflow.
func (p *pairer) fits(g group, n int) bool {
	return len(g.removed) == 0 || len(g.added) <= n/len(g.removed)
}

// rest returns the files that are left to compare: all that have a partner of
// about their size.
func (p *pairer) rest() group {
	removed, added := p.removed.unpaired(byContent), p.added.unpaired(byContent)
	return group{
		p.removed.near(removed, p.added.sizes(added), p.least),
		p.added.near(added, p.removed.sizes(removed), p.least),
	}
}

// sizes returns the sizes of the files in list, sorted.
func (s *side) sizes(list []int) []int64 {
	sizes := make([]int64, len(list))
	for n, i := range list {
		sizes[n] = s.files[i].Size
	}
	slices.Sort(sizes)
	return sizes
}

// near returns the files in list for which one of the sizes admits that much
// similarity: of the longer text, no more can be kept than there is of the
// shorter one.
func (s *side) near(list []int, sizes []int64, least int) []int {
	var kept []int
	for _, i := range list {
		// The next smaller and the next larger size admit the most.
		size := s.files[i].Size
		n, _ := slices.BinarySearch(sizes, size)
		if n < len(sizes) && reaches(size, sizes[n], least) || n > 0 && reaches(sizes[n-1], size, least) {
			kept = append(kept, i)
		}
	}
	return kept
}

// reaches reports whether n of all is at least percent. Floating point is exact
// enough for sizes that were measured, and does not overflow for those that were
// made up.
func reaches[T int | int64](n, all T, percent int) bool {
	return float64(n)*100 >= float64(all)*float64(percent)
}

// groupByBase groups what is left to compare by base name, in the order of the
// first removed file of each.
func (p *pairer) groupByBase() []group {
	rest := p.rest()
	var groups []group
	number := make(map[string]int)
	for _, i := range rest.removed {
		base := path.Base(p.removed.files[i].Name)
		n, ok := number[base]
		if !ok {
			n = len(groups)
			number[base] = n
			groups = append(groups, group{})
		}
		groups[n].removed = append(groups[n].removed, i)
	}
	for _, j := range rest.added {
		if n, ok := number[path.Base(p.added.files[j].Name)]; ok {
			groups[n].added = append(groups[n].added, j)
		}
	}
	return groups
}

// pairIfSimilar pairs two files that are similar enough.
func (p *pairer) pairIfSimilar(removed, added, least int) error {
	a, b := &p.removed.files[removed], &p.added.files[added]
	if !reaches(min(a.Size, b.Size), max(a.Size, b.Size), least) {
		return nil
	}
	old, err := a.load()
	if err != nil {
		return err
	}
	new, err := b.load()
	if err != nil {
		return err
	}
	if s := Similarity(old, new); s >= least {
		p.pair(removed, added, s)
	}
	return nil
}

// A score is how similar two files of a group are.
type score struct {
	removed, added int // places in the group, so that smaller is the first name
	points         int // of 10,000
	sameBase       bool
}

// pairGroup compares all files of g and pairs the most similar.
func (p *pairer) pairGroup(g group) error {
	scores, err := p.compare(g)
	if err != nil {
		return err
	}
	slices.SortFunc(scores, func(a, b score) int {
		if a.points == b.points && a.sameBase != b.sameBase {
			if a.sameBase {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.points, a.points), cmp.Compare(a.removed, b.removed), cmp.Compare(a.added, b.added))
	})
	for _, s := range scores {
		i, j := g.removed[s.removed], g.added[s.added]
		if !p.removed.paired[i] && !p.added.paired[j] {
			p.pair(i, j, s.points/100)
		}
	}
	return nil
}

// A posting says that a removed file of a group has a piece.
type posting struct {
	hash uint32
	file int32 // its place in the group
	size int   // as in piece
}

// compare returns the scores in g from the least similarity on.
//
// It keeps the pieces of all removed files in one table by hash, and looks up
// those of one added file after the other. Most pieces are in few files, so that
// this takes far fewer steps than comparing each file with each.
func (p *pairer) compare(g group) ([]score, error) {
	sizes := make([]int, len(g.removed))
	var table []posting
	for n, i := range g.removed {
		content, err := p.removed.files[i].load()
		if err != nil {
			return nil, err
		}
		pieces := piecesOf(content)
		if len(table)+len(pieces) > p.pieces {
			p.cut = true
			continue
		}
		sizes[n] = len(content)
		for _, piece := range pieces {
			table = append(table, posting{piece.hash, int32(n), piece.size})
		}
	}
	slices.SortFunc(table, func(a, b posting) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.file, b.file))
	})

	var scores []score
	kept := make([]int, len(g.removed)) // bytes of each that are in the current added file
	for n, j := range g.added {
		content, err := p.added.files[j].load()
		if err != nil {
			return nil, err
		}
		if !p.addUp(kept, table, piecesOf(content)) {
			p.cut = true
		}
		for m, size := range sizes {
			if longer := max(size, len(content)); size > 0 && kept[m] > 0 && reaches(kept[m], longer, p.least) {
				scores = append(scores, score{
					removed:  m,
					added:    n,
					points:   int(float64(kept[m]) * 10_000 / float64(longer)),
					sameBase: path.Base(p.removed.files[g.removed[m]].Name) == path.Base(p.added.files[j].Name),
				})
			}
		}
	}
	return scores, nil
}

// addUp sets kept to the bytes that each file of the table shares with pieces.
// It returns false, and sets all to 0, if that would take too many steps.
func (p *pairer) addUp(kept []int, table []posting, pieces []piece) bool {
	clear(kept)
	for _, piece := range pieces {
		start, _ := slices.BinarySearchFunc(table, piece.hash, func(t posting, hash uint32) int {
			return cmp.Compare(t.hash, hash)
		})
		n := start
		for ; n < len(table) && table[n].hash == piece.hash; n++ {
			kept[table[n].file] += min(table[n].size, piece.size)
		}
		if p.steps -= n - start + 1; p.steps < 0 {
			clear(kept)
			return false
		}
	}
	return true
}
