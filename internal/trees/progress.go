package trees

import "sync/atomic"

// Progress may be read while a capture, or something else that goes over all files, runs.
type Progress struct {
	Files     atomic.Int64 // files and links seen
	ReadFiles atomic.Int64 // files read, because they were new or changed
	ReadBytes atomic.Int64
}
