// Package executor runs tools: Go functions in the engine's process, and workers that
// take calls from a queue and run them anywhere else.
//
// # A worker in 20 lines
//
// A tool is a [Handler]. A [Worker] takes the calls of one tool from a
// [Transport] and runs its Handler for each:
//
//	func refund(ctx context.Context, t executor.Task) (executor.Output, error) {
//		var in struct{ Order string; Cents int64 }
//		if err := t.Decode(&in); err != nil {
//			return executor.Output{}, err // the model reads it and can correct the call
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
// The transport over NATS is in package bus, the one over HTTP in executor/httpwork.
// [Command] turns any program into a Handler. [Registry] runs the same handlers inside the
// engine's process.
//
// # What a worker does with a task
//
//  1. It takes a task only when it has a free slot.
//  2. It checks the engine's signature on the grant, the digest recomputed from
//     the bytes that it will run, the tool, the call and the attempt. It refuses a
//     task that fails these checks, or whose key it does not know, and tells the engine
//     why: the engine offers the call again later. The worker then pauses before the
//     next task. It drops a task whose grant has expired.
//  3. It asks the engine to start, with a random claim id, until it gets an answer to
//     this very request that an engine signed. Only then it calls the handler, once for
//     each claim and grant.
//  4. It acknowledges the task while the handler runs. It counts the lease from
//     before it sent the start.
//  5. Right before it calls the handler, it compares its clocks with the lease. After
//     three quarters of the lease it returns the attempt, and the engine offers the call
//     again. A [Command] compares once more right before it starts the program, and so does a
//     handler with [Task.CheckLease].
//  6. It sends heartbeats. Their replies and cancel messages can end the handler's
//     context, as the deadline does. The handler keeps running while no engine answers.
//  7. It sends the result, with the same claim, until an engine answers. Until then, the
//     slot stays occupied.
//
// # Guarantees
//
//   - Nothing runs without a grant for exactly these bytes and a durable start.
//   - A handler gets the whole input, or the worker does not call it. A Command's
//     program gets the input as a file that is complete before the program starts.
//   - One start runs the handler at most once. The engine decides about further
//     attempts, which have the same idempotency key.
//   - No attempt begins that the engine may have given up, unless the process is
//     frozen between the last comparison with the lease and the effect.
//   - An engine's NATS login without its signing key cannot make a worker run anything.
//   - A result fits the engine's limit, is valid UTF-8 and has a final state.
//     A panic also becomes a result.
//   - A worker that stops takes no more tasks and waits for its handlers, at most
//     for the drain timeout ([WithDrainTimeout]). A handler that gives up after that
//     leaves no result: the engine treats the attempt as lost. Run returns when
//     every goroutine has ended.
//
// # What it does not do
//
// It decides nothing, keeps nothing on disk and depends on no network. A result that
// no engine accepted before the worker had to stop is lost, see
// [UndeliveredError]. Progress is best effort. The handler is trusted: nothing
// confines it, and a Command's program only as far as its documentation says.
package executor
