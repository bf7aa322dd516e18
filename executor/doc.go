// Package executor runs tools: Go functions beside the engine, and workers that
// take calls from the queue and run them anywhere else.
//
// # A worker in 20 lines
//
// A tool is a [Handler]. A [Worker] takes the calls of one tool from a
// [Transport] and runs them with it:
//
//	func refund(ctx context.Context, t executor.Task) (executor.Output, error) {
//		var in struct{ Order string; Cents int64 }
//		if err := t.Decode(&in); err != nil {
//			return executor.Output{}, err // the model reads it and can mend the call
//		}
//		t.Progressf("refunding %d cents of order %s", in.Cents, in.Order)
//		id, err := bank.Refund(ctx, in.Order, in.Cents, t.IdempotencyKey)
//		if err != nil {
//			return executor.Output{}, err
//		}
//		return executor.Textf("refunded, receipt %s", id), nil
//	}
//
//	func work(ctx context.Context, t executor.Transport, keys toolcall.KeySet) error {
//		w, err := executor.NewWorker(t, "refund", refund, keys, executor.WithSlots(4))
//		if err != nil {
//			return err
//		}
//		return w.Run(ctx) // until ctx ends, then drains
//	}
//
// The transport over NATS is in package bus. [Command] makes a Handler of any
// program. [Registry] runs the same handlers inside the engine's process.
//
// # What a worker does with a task
//
//  1. It takes a task only for a free slot.
//  2. It checks the task: the engine's signature on the grant, the digest
//     recomputed from the very bytes that it will run, tool, call, attempt. An
//     task that fails is refused and never runs. A genuine grant that has run
//     out is dropped; the engine offers the call again by itself. A grant by an
//     engine key that the worker does not know is given back with a delay and
//     logged as an error: the fault may be the worker's, and ends no call.
//  3. It asks the engine to start, with a claim id of its own, until there is an
//     answer that an engine signed for this very request. The handler is called
//     only after the engine said that the start is durable and ours, and only
//     once for that claim and for that grant.
//  4. It takes the task off the queue while the handler runs. The engine's lease
//     counts since the start was sent.
//  5. It runs the handler and beats. Right before the handler it looks whether
//     three quarters of the lease have passed by its own clocks; then it gives
//     the attempt back instead, and the engine offers the call again. A [Command]
//     looks once more right before it starts the program. The answers to
//     heartbeats bring cancel and stale; a cancel shortcut is quicker when it
//     arrives. The deadline that the engine set ends the context, by the worker's
//     clock. Heartbeats without an answer change nothing: the run goes on
//     through an outage of the engine.
//  6. It sends the result, the same one with the same claim, until there is an
//     answer, with heartbeats still going. Its slot stays taken meanwhile.
//
// # What holds
//
// Nothing runs without a grant for these very bytes and a durable start. A
// handler gets the whole input or is not called; a Command's program gets it as
// a file that is complete before the program starts. One start runs the handler
// at most once; whether a call that was interrupted by a dead worker is tried
// again is the engine's to decide, with a new attempt and the same idempotency
// key. No attempt begins that the engine may have given up, unless the process is
// frozen between the last look at the lease and the effect: nothing can exclude
// that. An engine's NATS login without its signing key makes no worker run
// anything. A result is never larger than the engine takes, is valid UTF-8 and
// always has a final state; panics are results too.
//
// A worker that stops takes nothing more and waits for what it runs, at most for
// the drain timeout ([WithDrainTimeout]); then the handlers' contexts end. A handler that gives up
// then leaves no result behind: nobody asked for the end of that call, and the
// engine treats it as it treats a dead worker's. Run returns when every
// goroutine has ended, so a handler that ignores its context holds it up.
//
// # What it does not do
//
// It decides nothing, keeps nothing on disk and knows no network. A result that
// no engine took before the worker had to stop is lost, see
// [UndeliveredError]. Progress is best effort. The handler is trusted: what it
// does is not confined, and a Command's program is confined only as far as its
// documentation says.
package executor
