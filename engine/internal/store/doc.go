// Package store is the engine's hand on the journal: [Store] follows it into the
// view, reads what the view may lack, and writes.
//
// [Update] is the one way in which an entity moves: decide from its last event
// record, append the next one by compare-and-swap, and decide again if another
// writer was first. A write whose outcome is unknown is looked up, so that a lost
// acknowledgement never becomes a second decision.
package store
