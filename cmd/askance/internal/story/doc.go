// Package story tells people what happens to tool calls: one line for each
// step of the journal, what the model says in between, and messages as a
// whole.
//
// A Story is a message.Sink: give it to a journal's Watch and it tells
// everything in the order in which it became durable. Line, Digest and the
// other functions give single pieces to commands that show one thing.
package story
