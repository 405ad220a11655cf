package vfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	identify := func(name string) Identity {
		t.Helper()
		id, err := Identify(name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	one, two := identify(a), identify(b)
	if one.Ino == 0 {
		t.Skip("no identities here")
	}
	if one.MayBe(two) || one.IsSure(two) {
		t.Errorf("%+v and %+v are one directory", one, two)
	}
	if err := os.Rename(a, filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if now := identify(filepath.Join(dir, "c")); !now.MayBe(one) || now.IsSure(one) != (one.Born != 0) {
		t.Errorf("%+v was %+v before it was renamed", now, one)
	}
	for _, test := range []struct {
		a, b      Identity
		may, sure bool
	}{
		{Identity{1, 2, 3}, Identity{1, 2, 3}, true, true},
		{Identity{1, 2, 3}, Identity{9, 2, 3}, true, true}, // after a boot
		{Identity{1, 2, 3}, Identity{1, 2, 4}, false, false},
		{Identity{1, 2, 0}, Identity{1, 2, 3}, true, false},
		{Identity{1, 2, 0}, Identity{9, 2, 3}, false, false},
		{Identity{}, Identity{}, false, false},
	} {
		if may, sure := test.a.MayBe(test.b), test.a.IsSure(test.b); may != test.may || sure != test.sure {
			t.Errorf("%+v and %+v: may be %v, sure %v", test.a, test.b, may, sure)
		}
	}
}
