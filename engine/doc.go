// Package engine decides and orders tool calls: it stands between a runtime
// that proposes them, the policy that allows, denies or asks, the people who
// answer, and the workers that run what was allowed.
//
// An [Engine] works on a [Journal]. Everything it knows is a fold of the
// journal's event records, so any number of engines may work on one journal and each
// may die at any moment: the others, or the next, go on. A call moves only by
// compare-and-swap on its own last event record; the loser of a race sees the winner's
// outcome.
//
//	eng, err := engine.New("default", engine.NewMemory(), policy, tools, engine.WithExecutor(registry))
//	if err != nil { … }
//	if err := eng.Start(ctx); err != nil { … }
//	defer eng.Close()
//	runtime := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
//	reply, err := runtime.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: calls})
//
// Options change the defaults, such as [WithSigningKey], [WithGrace], [WithKeep]
// and [WithDrain]. [NewMemory] is a journal and [StaticDirectory] a directory
// for programs that need no other.
//
// # The life of a call
//
// Propose writes one event record: proposed, decided and, if allowed, begun. A call
// that asks waits as one entry of a timer heap, without a goroutine. An answer
// writes one event record: approved and begun. A local call runs on a goroutine of the
// engine that started it; a remote one is the event record itself, offered to the
// tool's workers with a signed grant. Start and result are one event record each.
//
// # Guarantees
//
//   - Nothing begins before the fact that allows it is durable.
//   - The arguments that run are, byte for byte, those that were decided: the
//     digest of the approval request goes into the answer and the grant.
//   - A call that people must allow begins when everybody who must has approved
//     exactly these arguments; APPROVALS.md has the rules. What rules redact is
//     shown only to the call's runtime and its worker.
//   - An attempt is started once. If its owner falls silent for a lease, an
//     idempotent tool is tried again under the same key, any other call is blocked
//     until a person resolves it.
//   - An interrupt closes every call of its reply, also those that are being
//     proposed at that moment.
//   - Methods of [Port] may be called from many goroutines; errors are
//     *message.Error.
//
// # What it does not do
//
// It opens no sockets and knows no wire format but AgentScope's events: package
// bus carries it over NATS, the gateway over HTTP.
package engine
