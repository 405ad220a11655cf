package history

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/boocode/filestore/store"
)

// fill sets every number of a record, each to another.
func fillNumbers(v reflect.Value, next *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Inode" { // which is no record
				fillNumbers(v.Field(i), next)
			}
		}
	case reflect.Uint64:
		*next++
		v.SetUint(*next)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint64 || v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range 2 {
				fillNumbers(v.Index(i), next)
			}
		}
	}
}

// TestRenumber shows that no number of a record is left out, also none that is added some day.
func TestRenumber(t *testing.T) {
	var d Facts
	var last uint64
	fillNumbers(reflect.ValueOf(&d).Elem(), &last)
	d.Version = 3
	seen := make(map[uint64]bool)
	for n := range d.numbers() {
		seen[*n] = true
	}
	for n := uint64(1); n <= last; n++ {
		if !seen[n] {
			t.Errorf("number %d of %d in a record is none that numbers yields: %+v", n, last, d)
		}
	}
	data, err := json.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	s := &store.Snapshot{Seq: 1000, Kind: KindStep, Data: data}
	err = Renumber(s, func(n uint64) uint64 {
		if n == d.Within || n == d.After {
			return 0
		}
		return n + 100
	}, func(n uint64) uint64 { return n + 200 })
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Facts.Within != d.Within+200 || r.Facts.After != 0 || r.Facts.Prev != d.Prev+100 ||
		r.Facts.Apart[1].With[1] != d.Apart[1].With[1]+100 || r.Facts.Cuts[1].Turn != d.Cuts[1].Turn+100 {
		t.Errorf("renumbered %s to %s", data, s.Data)
	}
	list, err := Numbers(s)
	if err != nil || len(list) != len(seen)-1 {
		t.Errorf("%d numbers, %v; want %d", len(list), err, len(seen)-1)
	}
}
