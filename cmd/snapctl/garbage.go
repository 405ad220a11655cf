package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

const (
	// startGarbage is how much garbage, in percent of 4 MB, comes together before the first
	// collection. Most commands end before that: one at 4 MB costs blame of 10,000 lines a fifth of
	// its time. With 400 a snapshot that finds nothing changed in 79,000 files takes more memory than
	// git status does.
	startGarbage = 300
	// usualGarbage is Go's own percentage, which holds from the first collection on.
	usualGarbage = 100
)

// garbage is the percentage that holds from the first collection on.
var garbage atomic.Int32

// collectLate puts the first collection of a process off.
func collectLate() {
	if os.Getenv("GOGC") != "" {
		return
	}
	garbage.Store(usualGarbage)
	runtime.AddCleanup(new([16]byte), func(int) { debug.SetGCPercent(int(garbage.Load())) }, 0)
	debug.SetGCPercent(startGarbage)
}

// limitGarbage has the process let so much garbage come together, in percent of what it has in use,
// unless its user has said how much.
func limitGarbage(percent int32) {
	if os.Getenv("GOGC") == "" {
		garbage.Store(percent)
		debug.SetGCPercent(int(percent))
	}
}
