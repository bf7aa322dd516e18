//go:build !race

package engine_test

// racedHeap is what the race detector adds to the heap of an open approval request.
const racedHeap = 0

// faultRuns is the number of seeded runs that TestRepliesAreLinearizable makes.
const faultRuns = 300
