package livedir

import "errors"

// ErrAside: somebody else's content, or a name of a restore, lies beside a path
// and was left alone.
var ErrAside = errors.New("left beside its path")
