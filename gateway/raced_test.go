//go:build race

package gateway_test

// raced doubles bounds of memory: the race detector needs its own.
const raced = 1
