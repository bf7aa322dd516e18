// Package executor runs tools: Go functions in the process of the engine, and workers that
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
// The transport over NATS is in package bus, the one over HTTP in executor/httpwork. [Command] makes a Handler of any
// program. [Registry] runs the same handlers inside the engine's process.
//
// # What a worker does with a task
//
//  1. It takes a task only for a free slot.
//  2. It checks the engine's signature on the grant, the digest recomputed from
//     the bytes that it will run, the tool, the call and the attempt. It refuses
//     a task that fails, also for a key that it does not know, and tells the engine
//     why: the engine offers the call again later. The worker then rests before the
//     next task. It drops a task whose grant has expired.
//  3. It asks the engine to start, with a claim id of its own, until an engine
//     signed the answer to this very request. It calls the handler only after
//     that, and once for each claim and grant.
//  4. It acknowledges the task while the handler runs. The engine counts the
//     lease from when the start was sent.
//  5. Right before the handler it compares its clocks with the lease. After three
//     quarters it gives the attempt back, and the engine offers the call again.
//     A [Command] compares once more right before it starts the program.
//  6. It sends heartbeats. Their answers, and cancel shortcuts, end the handler's
//     context, as the deadline does. The run goes on while no engine answers.
//  7. It sends the result, with the same claim, until an engine answers. Its slot
//     stays taken meanwhile.
//
// # Guarantees
//
//   - Nothing runs without a grant for exactly these bytes and a durable start.
//   - A handler gets the whole input, or the worker does not call it. A Command's
//     program gets it as a file that is complete before the program starts.
//   - One start runs the handler at most once. The engine decides about further
//     attempts, which have the same idempotency key.
//   - No attempt begins that the engine may have given up, unless the process is
//     frozen between the last comparison with the lease and the effect.
//   - An engine's NATS login without its signing key makes no worker run anything.
//   - A result fits the engine's limit, is valid UTF-8 and has a final state.
//     A panic is a result too.
//   - A worker that stops takes nothing more and waits for its handlers, at most
//     for the drain timeout ([WithDrainTimeout]). A handler that gives up then
//     leaves no result: the engine treats the attempt as lost. Run returns when
//     every goroutine has ended.
//
// # What it does not do
//
// It decides nothing, keeps nothing on disk and knows no network. A result that
// no engine took before the worker had to stop is lost, see
// [UndeliveredError]. Progress is best effort. The handler is trusted: nothing
// confines it, and a Command's program only as its documentation says.
//
// # Decisions
//
//   - Workers have no right in JetStream. The client chooses the reply subject of a
//     pull, which is enough to purge a stream.
//   - A route is a queue of its own, one token in subjects, consumers and permissions,
//     so NATS separates the workers.
//   - A start is signed over call, attempt, claim, grant, lease and deadline, so a
//     stolen NATS login of an engine starts nothing. It costs 34 µs in the engine and
//     61 µs in the worker.
//   - A start names the grant that the worker checked, so a hung engine does not bind
//     an old one.
//   - A worker begins only within the lease, by its own clocks: the larger of
//     monotonic and wall clock, because a suspended machine stops the first. A process
//     frozen after that look cannot be excluded: the tool's idempotency key closes
//     this gap.
//   - An attempt that never began is returned and offered again, because its owner
//     reports it. A lease under 500 ms is an error at start: an engine notices its own
//     pauses from 200 ms on.
//   - A worker that gave up a claim does not resume it. An operator may be resolving
//     the call.
//   - A late result of the owner resolves a call that is blocked as unknown. After a
//     newer attempt it is noted and ignored.
//   - A worker's refusal returns the task. A worker cannot tell a forged task from its
//     own mistake. After 8 returns in a row the call waits for an operator, so a
//     forged task is not hidden.
//   - A difference between clocks is shown, not stored: another worker may have the
//     right time.
package executor
