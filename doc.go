// Package askance runs the tools of an AI agent inside a Go program: a policy
// decides which calls run, people are asked about the rest, and each allowed call
// runs once. [Open] starts an engine with a policy and Go functions, and
// [Caller.Call] returns the result of a call, or says why there is none:
//
//	app, err := askance.Open(ctx, askance.Rules(policy), []askance.Tool{
//		askance.Func("refund", "Pay an order back.", refund), // func(context.Context, RefundInput) (RefundOutput, error)
//	}, askance.Approver("ann", ask), askance.Data("./data"))
//	if err != nil { … }
//	defer app.Close()
//	result, err := app.Call(ctx, "refund", RefundInput{Order: "A-1042"})
//
// examples/embedded is a complete program. Package engine can do more: several calls of one
// model turn with an order between them, streamed events, external tools.
//
// # Guarantees
//
//   - Nothing runs that was not allowed; exactly what was reviewed is what runs; every step is
//     recorded first. Some of this needs a property of the tool, such as an idempotency key
//     that it honours; the options say so. Without it, a call whose outcome is unknown waits
//     for an operator: [ErrUnknownOutcome].
//   - Every error of a call is a *[CallError] with a text for the model. errors.Is
//     finds [ErrDenied], [ErrRejected] and the others.
//   - When the context of a call ends, the call is interrupted, unless [KeepOpen].
//   - Calls do not wait for each other, also if a tool's function calls tools.
//   - With [Data], calls that were open when the program closed or crashed continue
//     when it opens the folder again. The same call under the same [ID] runs once.
//   - [NewCaller] calls tools through an engine elsewhere, over NATS.
//
// # Where to look
//
//   - [github.com/askance-dev/askance/message]: messages, blocks, events and
//     requests, as they are on the wire; below it the formats of others: AG-UI,
//     the content-block stream, AgentScope 1.x.
//   - [github.com/askance-dev/askance/toolcall]: the life of one call as a pure
//     state machine.
//   - [github.com/askance-dev/askance/permission]: rules, conditions, decisions.
//   - [github.com/askance-dev/askance/engine]: joins the three on a journal.
//   - [github.com/askance-dev/askance/bus]: the journal and the requests on NATS,
//     with a server inside the process or one elsewhere.
//   - [github.com/askance-dev/askance/executor]: runs tools, in the process of the engine or
//     as a remote worker.
//   - cmd/askance: the command. To see it work, run askance demo.
//   - examples/: a program for each way to use it.
//
// ARCHITECTURE.md gives the reasons for this design.
package askance
