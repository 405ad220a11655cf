// Package nearmiss makes seeds for fuzz tests of decoders. What is right but for
// one thing gets further into a decoder than what chance finds.
//
// A checksum hides what is behind it: a target mends it after the fuzzer has
// changed the bytes.
package nearmiss

import (
	"bytes"
	"slices"
)

// Of returns b, and what is nearly b: cut at each place; with each byte one
// more, one less, zero, all ones, left out or twice; with each four bytes all
// ones, as a length that is huge; with b or a zero behind.
func Of(b []byte) [][]byte {
	all := [][]byte{bytes.Clone(b), slices.Concat(b, b), slices.Concat(b, []byte{0})}
	for i, is := range b {
		all = append(all, bytes.Clone(b[:i]), slices.Concat(b[:i], b[i+1:]), slices.Concat(b[:i+1], b[i:]))
		for _, c := range []byte{is + 1, is - 1, 0, 0xff} {
			if c != is {
				all = append(all, slices.Concat(b[:i], []byte{c}, b[i+1:]))
			}
		}
		if i+4 <= len(b) {
			all = append(all, slices.Concat(b[:i], []byte{0xff, 0xff, 0xff, 0xff}, b[i+4:]))
		}
	}
	return all
}
