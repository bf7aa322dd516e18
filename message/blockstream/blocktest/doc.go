// Package blocktest is the client half of the content-block stream, for tests:
// [DecodeFrame] reads what a server sent, [Join] reads either form of an
// approval_request, and a [Checker] checks the order of the frames.
//
// The server only writes frames, so no shipped program contains this code.
// Unlike a real client it refuses frames, blocks and deltas of unknown types:
// a test must notice them.
package blocktest
