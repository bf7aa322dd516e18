//go:build race

package console_test

// slower is how much longer the race detector may take.
const slower = 8
