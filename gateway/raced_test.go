//go:build race

package gateway_test

// raced doubles memory limits, because the race detector needs memory.
const raced = 1
