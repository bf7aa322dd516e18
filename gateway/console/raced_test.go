//go:build race

package console_test

// slower is how many times longer tests may take under the race detector.
const slower = 8
