package exchange

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
)

// This file is remotes with which somebody has meddled who can make and remove objects there, and has no key.

// bounded returns a copy of a remote that counts what is asked of it, and says no to who asks without end.
func bounded(t *testing.T, objects map[string][]byte) *remotetest.Faulty {
	b := remotetest.NewFaulty(memOf(t, objects), 1)
	b.Stop = 5_000
	return b
}

// TestForgedEntry makes an object that has the key of an entry far behind the end of a line, or nearly that of one. A
// check, a repair, a prune and a clone name it, and ask for none of those that would be before it.
func TestForgedEntry(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.turn("s1", "one", func() { a.write("f", "one") })
	a.mustPush(mem)
	objects := mem.Objects()
	keys := slices.Sorted(maps.Keys(objects))
	first := keys[slices.IndexFunc(keys, func(k string) bool { return strings.HasPrefix(k, "log/") })]
	session, line := first[:len("log/")+32], first[:len(first)-len("/00000000")]
	for _, key := range []string{
		line + "/99999999",
		line + "/00001002",
		session + "/" + strings.Repeat("ab", 16) + "/99999999",
		"log/" + strings.ToUpper(first[len("log/"):]),
		"log/" + strings.Repeat("z", 32) + line[len(session):] + "/00000001",
	} {
		objects := maps.Clone(objects)
		objects[key] = []byte("forged")
		there := bounded(t, objects)
		if keys := a.damageThere(there); !slices.Equal(keys, []string{key}) {
			t.Errorf("%s: a check names %v", key, keys)
		}
		if r, err := a.repair(there); err != nil || len(r.Put) > 0 {
			t.Errorf("%s: a repair puts %v: %v", key, r, err)
		}
		if _, err := prune(t, there, new(PruneOptions), nil); err == nil {
			t.Errorf("%s: a prune takes it for an entry", key)
		}
		if _, err := newMachine(t).clone(there, nil); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: a clone says %v", key, err)
		}
		if there.Requests > 200 {
			t.Errorf("%s: %d requests", key, there.Requests)
		}
	}
}

// TestDamagedFold changes a fold, and takes it away. It is named once, and is not read again for each entry in it.
func TestDamagedFold(t *testing.T) {
	testseed.Sequential(t)
	a, mem := newMachine(t), remotetest.NewMem()
	const turns = 100
	for i := range turns {
		a.turn("s1", "", func() { a.write("f", fmt.Sprint(i)) })
		a.mustPush(mem)
	}
	before := mem.Objects()
	if _, err := prune(t, mem, &PruneOptions{Anew: true}, nil); err != nil {
		t.Fatal(err)
	}
	folds := slices.DeleteFunc(slices.Sorted(maps.Keys(mem.Objects())), func(key string) bool {
		return before[key] != nil || !strings.HasPrefix(key, "data/")
	})
	for _, key := range folds {
		for _, gone := range []bool{false, true} {
			objects := mem.Objects()
			if objects[key][40] ^= 1; gone {
				delete(objects, key)
			}
			there := bounded(t, objects)
			keys := a.damageThere(there)
			if n := len(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k != key })); n != 1 {
				t.Errorf("%s, gone: %v: a check names it %d times, of %q", key, gone, n, keys)
			}
			if n := there.Requests; n > turns {
				t.Errorf("%s, gone: %v: %d requests", key, gone, n)
			}
		}
	}
}
