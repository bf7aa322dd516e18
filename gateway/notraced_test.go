//go:build !race

package gateway_test

// raced doubles bounds of memory under the race detector.
const raced = 0
