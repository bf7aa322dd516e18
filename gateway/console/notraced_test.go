//go:build !race

package console_test

// slower is 1 without the race detector.
const slower = 1
