package trees

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/vfs"
)

// LikeVCS returns the name of [IsVCS] that some file system may take another name for: in capitals,
// with characters that are not seen, with a dot, a space or a stream behind it, or in eight characters.
// "": there is none.
func LikeVCS(name string) string {
	if name == "" || name[0] < utf8.RuneSelf && name[0] != '.' && strings.IndexByte(name, '~') < 0 {
		return "" // what most names are, which a capture looks at one by one
	}
	seen := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	seen, _, _ = strings.Cut(seen, ":")
	seen = strings.TrimRight(seen, ". ")
	short, number, _ := strings.Cut(seen, "~")
	for _, of := range []string{".git", ".hg", ".svn", ".jj"} {
		if name != of && (strings.EqualFold(seen, of) || number != "" && strings.EqualFold(short, of[1:])) {
			return of
		}
	}
	return ""
}

// SpellsVCS reports whether another name in a directory finds what [IsVCS] names there: a .GIT
// does so on a disk that finds names in any case.
func SpellsVCS(dir vfs.Dir, name string) bool {
	of := LikeVCS(name)
	if of == "" {
		return false
	}
	var own, found vfs.Stat
	return dir.Lstat(of, &own) == nil && dir.Lstat(name, &found) == nil &&
		IsVCS(of, found.Kind == vfs.Directory) &&
		own.Ino == found.Ino && own.Dev == found.Dev // 0 on Windows, where a name is found in any case
}
