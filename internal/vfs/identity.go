package vfs

import "os"

// An Identity tells a directory from others, whatever its path is. It stays when
// the directory is renamed; a copy has another. The zero Identity is not known.
type Identity struct {
	Dev  uint64 `json:"dev"`  // of the file system; it may be another after a boot
	Ino  uint64 `json:"ino"`  // of the directory in it; a new directory may get that of one that was deleted
	Born int64  `json:"born"` // when it was made, nanoseconds since 1970; 0 where the system does not say
}

// Identify returns the identity of a file or directory. It follows links.
func Identify(path string) (Identity, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Identity{}, err
	}
	st := statOf(fi)
	if st.Ino == 0 {
		return Identity{}, nil
	}
	return Identity{st.Dev, st.Ino, born(path, fi)}, nil
}

// IsSure reports whether two identities are surely of one directory: it has the
// same number and was made at the same nanosecond.
func (i Identity) IsSure(other Identity) bool {
	return i.Ino != 0 && i.Ino == other.Ino && i.Born != 0 && i.Born == other.Born
}

// MayBe reports whether two identities may be of one directory: they surely are,
// or it is not known when one of them was made and the numbers are the same.
func (i Identity) MayBe(other Identity) bool {
	return i.IsSure(other) || i.Ino != 0 && i.Ino == other.Ino && i.Dev == other.Dev && (i.Born == 0 || other.Born == 0)
}
