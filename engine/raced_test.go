//go:build race

package engine_test

// racedHeap is what the race detector adds to the heap of an open approval request.
const racedHeap = 256

// faultRuns is lower than without the race detector; `make faults` does 10,000 runs.
const faultRuns = 100
