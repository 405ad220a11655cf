package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/boocode/filestore/store"
)

// A PathList is a list of paths in a record (docs/reference/format.md §5.6). A long one is
// packed: as they are, 100,000 paths are 5.7 MB, which each process that looks at
// the session reads, and 280,000 are more than a record may have.
type PathList [][]byte

const (
	maxPlainPaths  = 64      // that are written one by one
	maxPackedPaths = 1 << 30 // bytes of the paths of a packed list
)

func (l PathList) MarshalJSON() ([]byte, error) {
	if len(l) <= maxPlainPaths {
		return json.Marshal([][]byte(l))
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	var head, last []byte
	for _, p := range l {
		same := 0
		for same < min(len(p), len(last)) && p[same] == last[same] {
			same++
		}
		head = binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(same)), uint64(len(p)-same))
		w.Write(head) // into memory: it never fails
		w.Write(p[same:])
		last = p
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

func (l *PathList) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*[][]byte)(l))
	}
	var packed []byte
	if err := json.Unmarshal(b, &packed); err != nil {
		return err
	}
	wrong := fmt.Errorf("packed paths: %w", store.ErrCorrupt)
	rest, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxPackedPaths))
	if err != nil {
		return wrong
	}
	*l = nil
	var all []byte // of several lists
	last, total := []byte(nil), 0
	for len(rest) > 0 {
		same, n := binary.Uvarint(rest)
		if n <= 0 || same > uint64(len(last)) {
			return wrong
		}
		rest = rest[n:]
		more, n := binary.Uvarint(rest)
		if n <= 0 || more > uint64(len(rest)-n) {
			return wrong
		}
		size := int(same) + int(more)
		if total += size; total > maxPackedPaths {
			return wrong
		}
		if cap(all)-len(all) < size { // what was given out stays where it is
			all = make([]byte, 0, max(64<<10, size))
		}
		at := len(all)
		all = append(append(all, last[:same]...), rest[n:n+int(more)]...)
		last = all[at:len(all):len(all)]
		*l = append(*l, last)
		rest = rest[n+int(more):]
	}
	return nil
}

// PathBytes returns a set of paths, but for some, as records have it.
func PathBytes(set, but map[string]bool) (list PathList) {
	for _, p := range slices.Sorted(maps.Keys(set)) {
		if !but[p] {
			list = append(list, []byte(p))
		}
	}
	return list
}
