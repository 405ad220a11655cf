package vfs

import "path/filepath"

// RealPath resolves the symbolic links in the directories above a path, as far
// as they exist.
func RealPath(p string) string {
	dir, rest := filepath.Dir(p), filepath.Base(p)
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return p
		}
		dir, rest = up, filepath.Join(filepath.Base(dir), rest)
	}
}
