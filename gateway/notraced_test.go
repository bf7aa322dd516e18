//go:build !race

package gateway_test

// raced doubles memory limits under the race detector.
const raced = 0
