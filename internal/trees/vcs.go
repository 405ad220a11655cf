package trees

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/tree"
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

// CheckVCS returns an error that matches [vfs.ErrImpossible] if what is to be made in a directory would be found there
// as the insides of a version control system: a .GIT on a disk that finds names in any case. It finds out with
// a directory, which it removes.
func CheckVCS(dir vfs.Dir, e *tree.Entry) error {
	of := LikeVCS(e.Name)
	if of == "" || !IsVCS(of, e.Mode.IsDir()) {
		return nil
	}
	err := dir.Mkdir(e.Name, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	is := SpellsVCS(dir, e.Name)
	if made {
		if err := dir.RemoveDir(e.Name); err != nil {
			return err
		}
	}
	if is {
		return fmt.Errorf("%w: this disk finds it as %q, and programs would run what it says", vfs.ErrImpossible, of)
	}
	return nil
}
