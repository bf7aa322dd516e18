// Package view is what an engine knows of the journal: a projection in memory of
// calls, replies, sessions and standing approvals.
//
// [View] may lag, and is never the ground of a decision: every write is checked
// by compare-and-swap against the journal. What is read from it without a write
// is monotonic. A finished call stays finished, a bound session stays bound, an
// interrupted reply stays interrupted. A View guards itself; its values are
// shared and must not be changed.
package view
