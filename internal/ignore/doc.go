// Package ignore knows git's ignore rules: it answers from bytes what git
// would ignore. It reads no disk, no environment and starts no process: the
// caller hands in the contents of the pattern files, walks the directories,
// and does not enter a directory that is ignored (git re-includes nothing
// below one).
//
// Start with [Root]; go down with [Rules.Sub] and [Rules.WithFiles]; ask
// [Rules.Match]. A Rules is immutable and may be used by several goroutines
// at once. Pattern files are parsed when the first name is asked of them.
//
// # What decides
//
// From the top: the .booignore files, the deepest first; the user's own patterns
// for all projects; then git's own levels: the .gitignore files, the deepest
// first, $GIT_DIR/info/exclude, core.excludesFile, and last our defaults. The
// first file with a pattern for the name decides, by the last such pattern in it.
// A .booignore file, as the user's own, has the syntax of a .gitignore file; its
// negated patterns capture what git ignores.
//
// # How a pattern is matched
//
// Most patterns are names ("tags"), endings ("*.o") and beginnings (".*"):
// those are looked up or compared. What is left ("*.asn1.[ch]", "a/**/b")
// becomes a regular expression that github.com/sabhiram/go-gitignore compiles
// and runs. That package alone is no answer: 93 of 429 hand-made questions
// come out other than in git (2.39.5; TestLibraryAlone keeps a few). So lines
// are parsed here and each is handed to it as one line in which nothing is
// left for it to interpret: see glob.expr. One takes some 7 KB, so of a repository with
// very many patterns those beyond the first 4096 that are asked are matched without it.
//
// The answers are those of git 2.39, its oddities included:
//
//   - Matching is by bytes: "?" does not match "é", which is two bytes.
//   - The text before the first wildcard is compared first, and the rest is
//     matched as if it stood alone: "/foo**/bar" matches "fooz/x/bar".
//   - With core.ignoreCase, "[A]" and "\A" match nothing: the
//     name is folded and they are not.
//   - A NUL byte ends its line, a line that ends in a lone backslash matches
//     nothing, [:space:] does not know \v and \f.
//
// There is no known difference. Two things that git does are the caller's: a
// .gitignore that is a symbolic link is not followed, and one that is missing
// from a sparse checkout is read from the index.
package ignore
