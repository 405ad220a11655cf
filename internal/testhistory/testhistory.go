// Package testhistory has texts for tests: what files of a git repository were, one
// commit after the other.
package testhistory

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Versions returns the versions of the text files of a repository in its last
// commits, so many of them, oldest first. Where there is no repository, or no git, the test is told
// so and there are none.
func Versions(t testing.TB, dir string, commits int) (list [][][]byte) {
	log, err := Git(dir, nil, "log", "--no-merges", "--raw", "--no-renames", "--no-abbrev", "--format=", "--reverse",
		"--diff-filter=AM", "-n", strconv.Itoa(commits), "--", ".")
	if err != nil {
		t.Logf("NOT CHECKED with the histories of %s: %v", dir, err)
		return nil
	}
	versions := make(map[string][]string)
	var paths []string
	for line := range strings.Lines(string(log)) { // :100644 100644 old new M<TAB>path
		fields, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if f := strings.Fields(fields); len(f) == 5 && f[1] != "120000" && f[1] != "160000" {
			if versions[path] == nil {
				paths = append(paths, path)
			}
			versions[path] = append(versions[path], f[3])
		}
	}
	var ids bytes.Buffer
	for _, path := range paths {
		for _, id := range versions[path] {
			fmt.Fprintln(&ids, id)
		}
	}
	out, err := Git(dir, &ids, "cat-file", "--batch")
	if err != nil {
		t.Fatalf("git cat-file in %s: %v", dir, err)
	}
	for _, path := range paths {
		var texts [][]byte
		for range versions[path] {
			head, rest, _ := bytes.Cut(out, []byte("\n"))
			var id, kind string
			var size int
			if _, err := fmt.Sscan(string(head), &id, &kind, &size); err != nil {
				t.Fatalf("git cat-file says %q", head)
			}
			if text := rest[:size]; bytes.IndexByte(text, 0) < 0 && size < 1<<20 {
				texts = append(texts, text)
			}
			out = rest[size+1:]
		}
		list = append(list, texts)
	}
	return list
}

// Git returns what git says in a directory, given some input; nil: none.
func Git(dir string, in *bytes.Buffer, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if in != nil {
		cmd.Stdin = in
	}
	return cmd.Output()
}
