package textdiff

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/words"
)

// A File is one side of a diff. The zero File is an absent one.
type File struct {
	Name    string // path in bytes, separated by slashes; an absent file takes the other side's
	Content []byte // what a regular file holds, or where a symbolic link points
	Mode    uint32 // as git writes it: 0o100644, 0o100755, 0o120000; 0 if the file is absent

	// Opaque says that Content is not what the file holds but stands for it,
	// e.g. its hash: the file counts as binary. Default false.
	Opaque bool
}

func (f File) isBinary() bool { return f.Opaque || similar.IsBinary(f.Content) }

// UnifiedOptions says how AppendUnified writes.
type UnifiedOptions struct {
	Context int // unchanged lines around each edit; negative for none; default 3

	// NoPrefix writes names as they are, without "a/" and "b/", for git apply -p0
	// and patch -p0. What is git's, such as the "diff --git" line, then comes only
	// with what "---" and "+++" lines cannot say: modes, links, renames, binary
	// files and files that come or go empty. Default false.
	NoPrefix bool

	// IgnoreSpace takes lines for the same that differ in white space only: they are written
	// as new has them. Such a diff is to be read, not to be applied. Default false.
	IgnoreSpace bool
}

// AppendUnified appends to dst the diff that turns old into new, in git's
// extended unified format, and returns the result: dst itself if the files do
// not differ. nil options are the default.
//
// git apply and patch -p1, or -p0 of both with NoPrefix, make new from old byte
// for byte, unless a side is binary ([similar.IsBinary], Opaque): that is said and its bytes are
// left out, which git apply refuses and GNU patch passes over. With Context
// negative git apply needs --unidiff-zero. A change of kind, as from file to
// link, is a deletion followed by a creation, as in git. Sides of different
// names are a rename.
//
// Diffs of several files may follow one another if they are made with the same
// NoPrefix. Of these GNU patch 2.7.6 refuses, in both forms, a path that is a
// file or a link on one side and a directory on the other.
func AppendUnified(dst []byte, old, new File, opts *UnifiedOptions) []byte {
	opts = cmp.Or(opts, &UnifiedOptions{})
	if old.Mode != 0 && new.Mode != 0 && kind(old) != kind(new) {
		// Both have git's header: where a link was deleted, GNU patch 2.7.6 refuses
		// to create a file without it.
		dst = appendChange(dst, old, File{}, opts, true)
		return appendChange(dst, File{}, new, opts, true)
	}
	return appendChange(dst, old, new, opts, !opts.NoPrefix || needsGit(old, new))
}

// appendChange is AppendUnified for sides that do not differ in kind. git says
// whether the diff has git's header.
func appendChange(dst []byte, old, new File, opts *UnifiedOptions, git bool) []byte {
	if old.Mode == 0 {
		old.Name, old.Content = new.Name, nil
	}
	if new.Mode == 0 {
		new.Name, new.Content = old.Name, nil
	}
	same := bytes.Equal(old.Content, new.Content)
	if same && old.Mode == new.Mode && old.Name == new.Name {
		return dst
	}
	oldName, newName := "a/"+old.Name, "b/"+new.Name
	if opts.NoPrefix {
		oldName, newName = old.Name, new.Name
	}
	binary := old.isBinary() || new.isBinary()
	if git || binary {
		dst = appendGitHeader(dst, old, new, oldName, newName)
	}
	oldLabel, newLabel := label(old, oldName), label(new, newName)
	if !same && !binary {
		dst = fmt.Appendf(dst, "--- %s%s\n+++ %s%s\n", oldLabel, tab(oldLabel), newLabel, tab(newLabel))
		context := max(opts.Context, 0)
		if opts.Context == 0 {
			context = 3
		}
		a, b := SplitLines(old.Content), SplitLines(new.Content)
		if opts.IgnoreSpace {
			a = respaced(a, b)
		}
		return appendHunks(dst, a, b, context)
	}
	if !same {
		dst = fmt.Appendf(dst, "Binary files %s and %s differ\n", oldLabel, newLabel)
	}
	if opts.NoPrefix {
		dst = append(dst, EndOfHeader...)
	}
	return dst
}

// EndOfHeader follows a git header without hunks where the next diff may be one
// without a git header. Both tools would take the "---" line of that one for a
// part of this header. To git apply any line that it does not know ends the
// header; GNU patch waits for the next "diff --git", before which it skips
// blanks. More than two words after that name no file.
const EndOfHeader = " diff --git header without hunks\n"

// needsGit reports whether "---" and "+++" lines cannot say how old and new
// differ.
func needsGit(old, new File) bool {
	switch {
	case old.Mode == 0:
		return new.Mode != 0o100644 || len(new.Content) == 0
	case new.Mode == 0:
		return kind(old) != 0o100000 || len(old.Content) == 0
	}
	return old.Mode != new.Mode || old.Name != new.Name || kind(old) != 0o100000
}

// kind returns the bits of f's mode that tell a regular file from a link.
func kind(f File) uint32 { return f.Mode &^ 0o7777 }

// appendGitHeader appends what stands before the "---" line. The names are those
// of old and new with their prefixes.
func appendGitHeader(dst []byte, old, new File, oldName, newName string) []byte {
	same := bytes.Equal(old.Content, new.Content)
	quote := quoteEnds
	if same && strings.Contains(oldName+newName, " ") {
		// No "---" line follows to say where the name ends. git guesses well, GNU
		// patch 2.7.6 does not find the file; both take a quoted name.
		quote = words.Quoted
	}
	dst = fmt.Appendf(dst, "diff --git %s %s\n", quote(oldName), quote(newName))
	switch {
	case old.Mode == 0:
		dst = fmt.Appendf(dst, "new file mode %06o\n", new.Mode)
	case new.Mode == 0:
		dst = fmt.Appendf(dst, "deleted file mode %06o\n", old.Mode)
	case old.Mode != new.Mode:
		dst = fmt.Appendf(dst, "old mode %06o\nnew mode %06o\n", old.Mode, new.Mode)
	}
	if old.Name != new.Name {
		dst = fmt.Appendf(dst, "rename from %s\nrename to %s\n", words.Quote(old.Name), words.Quote(new.Name))
	}
	if same && old.Mode != 0 && new.Mode != 0 || old.Opaque || new.Opaque {
		return dst
	}
	// GNU patch 2.7.6 needs the index line, to delete an empty file and to change
	// where a link points. With the names that git would give the contents, git
	// apply --3way works too.
	dst = fmt.Appendf(dst, "index %s..%s", blobName(old), blobName(new))
	if old.Mode == new.Mode {
		dst = fmt.Appendf(dst, " %06o", new.Mode)
	}
	return append(dst, '\n')
}

// blobName returns the first digits of git's name for the content of f, as
// many as git prints at least.
func blobName(f File) string {
	if f.Mode == 0 {
		return "0000000"
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return fmt.Sprintf("%x", h.Sum(nil))[:7]
}

// label returns name, that of f with its prefix, as the "---" and "+++" lines
// have it.
func label(f File, name string) string {
	if f.Mode == 0 {
		return "/dev/null"
	}
	return quoteEnds(name)
}

// quoteEnds is Quote but quotes a name with a space at either end too: git does
// not, and GNU patch 2.7.6 loses the space.
func quoteEnds(name string) string {
	if strings.Trim(name, " ") != name {
		return words.Quoted(name)
	}
	return words.Quote(name)
}

// tab returns what git puts after a label with a space in it: readers would
// otherwise take the space for the one before a time stamp.
func tab(label string) string {
	if strings.Contains(label, " ") {
		return "\t"
	}
	return ""
}

func appendHunks(dst []byte, a, b []string, context int) []byte {
	context = min(context, len(a)) // so that twice as much does not overflow
	list := Compare(a, b)
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].OldStart-list[n-1].OldEnd <= 2*context {
			n++
		}
		dst = appendHunk(dst, a, b, list[:n], context)
		list = list[n:]
	}
	return dst
}

// appendHunk appends list as one hunk.
func appendHunk(dst []byte, a, b []string, list []Edit, context int) []byte {
	first, last := list[0], list[len(list)-1]
	before := min(context, first.OldStart)
	after := min(context, len(a)-last.OldEnd)
	dst = append(dst, "@@ -"...)
	dst = appendRange(dst, first.OldStart-before, last.OldEnd+after)
	dst = append(dst, " +"...)
	dst = appendRange(dst, first.NewStart-before, last.NewEnd+after)
	dst = append(dst, " @@\n"...)

	at := first.OldStart - before
	for _, e := range list {
		dst = AppendLines(dst, ' ', a[at:e.OldStart])
		dst = AppendLines(dst, '-', a[e.OldStart:e.OldEnd])
		dst = AppendLines(dst, '+', b[e.NewStart:e.NewEnd])
		at = e.OldEnd
	}
	return AppendLines(dst, ' ', a[at:at+after])
}

// appendRange appends the range [start, end) of lines as a hunk's header has
// it: the first line from 1 and their number, which 1 may leave out. An empty
// range is named by the line before it.
func appendRange(dst []byte, start, end int) []byte {
	n := end - start
	if n > 0 {
		start++
	}
	dst = strconv.AppendInt(dst, int64(start), 10)
	if n != 1 {
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return dst
}

// AppendLines appends lines as a unified diff has them behind a mark.
func AppendLines(dst []byte, mark byte, lines []string) []byte {
	for _, line := range lines {
		dst = append(dst, mark)
		dst = append(dst, line...)
		if !strings.HasSuffix(line, "\n") {
			dst = append(dst, "\n\\ No newline at end of file\n"...)
		}
	}
	return dst
}
