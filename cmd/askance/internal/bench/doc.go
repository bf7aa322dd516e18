// Package bench measures what an engine costs over the bare journal: the
// allowed local path and the whole path of ask, approval, remote run and
// result, against compare-and-swap publishes of the same NATS server on the
// same connection, in the same run.
//
// Durability, concurrency and the size of the bare records are part of every
// report: a figure without them says nothing. The records per call are counted
// in the stream, not assumed. The bare publishes run before and after the
// calls, and the faster of the two runs counts, so that a noisy neighbour makes
// the engine look worse, never better.
package bench
