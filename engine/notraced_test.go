//go:build !race

package engine_test

// racedHeap is what the race detector adds to the heap of an open approval request.
const racedHeap = 0
