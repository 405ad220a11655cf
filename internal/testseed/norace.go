//go:build !race

package testseed

const raceDetector = false
