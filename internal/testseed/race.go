//go:build race

package testseed

const raceDetector = true
