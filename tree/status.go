package tree

// A Status says what became of a path. Its value is the letter that people
// see.
type Status byte

const (
	Added      Status = 'A'
	Modified   Status = 'M' // content or permission bits
	Retyped    Status = 'T' // from file to link or back
	Deleted    Status = 'D'
	Captured   Status = 'a' // was there before, but left out; or git has put it there, which had taken it out
	Uncaptured Status = 'd' // still there, but left out now; or git has taken it out
)

// String returns the status as a word; Retyped is "modified", too.
func (s Status) String() string {
	switch s {
	case Added:
		return "added"
	case Modified, Retyped:
		return "modified"
	case Deleted:
		return "deleted"
	case Captured:
		return "captured"
	case Uncaptured:
		return "uncaptured"
	}
	return "unknown"
}

// A Difference is a path that is not the same in two states. A directory is
// one only if its permission bits differ or if it comes or goes empty: what a
// directory holds speaks for it.
type Difference struct {
	Status   Status
	Path     string
	Old, New *Entry // nil: absent
}
