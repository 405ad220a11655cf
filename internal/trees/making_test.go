package trees

import "testing"

func TestIsMaking(t *testing.T) {
	for name, want := range map[string]bool{
		MakingName("0123456789abcdef"):           true,
		".boo-0123456789abcdef":                  true,
		".boo-0123456789abcde":                   false,
		".boo-0123456789abcdef0":                 false,
		".boo-0123456789ABCDEF":                  false,
		".boo-notes":                             false,
		"boo-0123456789abcdef":                   false,
		".booignore":                             false,
		".boo-0123456789abcdef-9ab388bedc43.new": false, // what lies beside a path is nobody's secret
	} {
		if got := IsMaking(name); got != want {
			t.Errorf("IsMaking(%q) = %v, want %v", name, got, want)
		}
	}
}
