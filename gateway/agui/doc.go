// Package agui serves AG-UI: a frontend POSTs a run's input and gets the run's
// events back as a stream. Whoever speaks AG-UI 1.0, or 0.0.x, can talk to an
// agent here and be asked by it; AGUI.md has a client to copy.
//
//	surface, err := agui.New(agui.Config{Runners: agent.Runners{space.ID: runner}})
//	srv, err := gateway.New(gateway.Config{Surfaces: []gateway.Surface{surface}, …})
//
// # Threads and runs
//
// A thread is a session: the threadId is the session's id. It belongs to the
// principal who began it, in the engine's own books; to everybody else it is
// forbidden, whatever roles they have. The conversation is the journal's. Of
// what a client says it has, only messages of the person (and of the program in
// front of them: system, developer) that the session does not know are taken,
// and results of the client's own tools. A client that lacks something is sent a
// MESSAGES_SNAPSHOT first. The ids of messages and calls are the same on every
// reconnect, to every client.
//
// A run is one request. It shows a turn of the agent, which does not depend on
// it: the turn goes on when the client goes away, and a later run of the thread,
// or /agui/connect, shows what has come since. A run ends with its turn, or when
// the turn can go on only by somebody's answer. Every stream that began ends with
// RUN_FINISHED or RUN_ERROR, unless the client is gone.
//
// # Interrupts
//
// Approval requests are held back until nothing else of the reply moves (or, while other
// calls run, for Config.Grace), so that one interrupt has them all. The ids of
// what was asked, and the digest of each approval request as it was put, are recorded in
// the journal before the run ends: an answer is to that very approval request, by any
// process, after any restart. The contract of AG-UI holds:
//
//	another thread's interrupt      is unknown there, and has no effect
//	an older run's interrupt        has its answer already; what is open is asked again
//	not every open one is covered   RUN_ERROR resume_incomplete; nothing is done
//	no resume, open interrupts      RUN_ERROR interrupt_pending
//	the same answer again           is shown what came of it; nothing is done twice
//	another answer than before      the same, and CUSTOM askance.overtaken says who decided what
//	answered on another surface     as before: the first decision stands
//	an answer that does not fit     RUN_ERROR payload_invalid; the approval request is still open
//	edits that break the schema     RUN_ERROR invalid; the approval request is still open
//	resolved after its time         RUN_ERROR interrupt_expired; cancelled is taken
//	by somebody who may not         RUN_ERROR forbidden; the approval request is still open
//	all cancelled                   interrupts the reply; the run ends cancelled
//
// The answers of one run are carried out in order. Should the engine refuse one
// in the middle, those before it stand, and the same resume may be sent again.
// An approval of which there must be more is taken, and the approval request is put anew
// for the others.
//
// # Roles
//
// To talk to an agent takes the role runtime, to answer the role approver, to
// cancel everything that one's own turn asks only runtime. Who lacks the role
// sees whom the approval request waits for, and the run goes on when they have answered.
//
// # Deviations
//
// Where what others do is not followed, and why:
//
//	an answer with unknown members is refused, not stripped: a misspelt edit would run other arguments
//	assistant messages that the server did not send are not taken into the conversation
//	a second run of a thread while one has a client is refused (HTTP 409), not queued
//	an unknown protocolVersion of another major is refused (HTTP 400)
//	Accept is not looked at: the answer is server-sent events, protobuf is not served
package agui
