package trees

import "strings"

// makingPrefix begins the name of a directory in which a restore has files in the making.
const makingPrefix = ".boo-"

// MakingName returns the name of the directory, below the root of what is restored, in
// which files are made until they have their names. id is letters and digits that no other
// restore has.
func MakingName(id string) string { return makingPrefix + id }

// IsMaking reports whether a name is that of such a directory, with an id of 16 hex digits.
// It is one if a restore holds the lock on it: nobody captures it then.
func IsMaking(name string) bool {
	id, ok := strings.CutPrefix(name, makingPrefix)
	return ok && len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}
