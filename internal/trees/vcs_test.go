package trees

import "testing"

func TestLikeVCS(t *testing.T) {
	for name, want := range map[string]string{
		"": "", ".git": "", ".hg": "", "git": "", ".gitignore": "", ".gitx": "", "g": "", "~1": "", ".": "", "..": "",
		".GIT": ".git", ".gIt": ".git", ".HG": ".hg", ".Svn": ".svn", ".\u017fvn": ".svn", ".JJ": ".jj",
		".g\u200cit": ".git", "\ufeff.git": ".git", ".git\u200d": ".git", ".git.": ".git", ".git . ": ".git",
		".git::$INDEX_ALLOCATION": ".git", ".git:x": ".git", "GIT~1": ".git", "git~12": ".git", "hg~1": ".hg",
		"git~": "", "gitx~1": "", "\u00e9": "", "\xff.git": "", "h": "", "~git": "",
	} {
		if got := LikeVCS(name); got != want {
			t.Errorf("LikeVCS(%q) = %q, want %q", name, got, want)
		}
	}
}
