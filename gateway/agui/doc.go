// Package agui serves AG-UI: a frontend POSTs a run's input and gets the run's
// events back as a stream. A frontend of AG-UI 1.0 or 0.0.x can talk to an agent
// and show its approval requests; AGUI.md has a client to copy.
//
//	surface, err := agui.New(agui.Config{Runners: agent.Runners{space.ID: runner}})
//	srv, err := gateway.New(gateway.Config{Surfaces: []gateway.Surface{surface}, …})
//
// # Threads and runs
//
// A thread is a session: the threadId is the session's id. It belongs to the principal who began
// it, according to the engine's records; no role gives access to the threads of others. The
// journal holds the conversation. From a client the gateway accepts only new messages of the
// person (and of the program in front of them: system, developer) and results of the client's own
// tools. A client that lacks something gets a MESSAGES_SNAPSHOT first. The ids of messages and
// calls are the same on every reconnect, for every client.
//
// A run is one request. It shows a turn of the agent, which does not depend on
// it: the turn continues when the client disconnects, and a later run of the
// thread, or /agui/connect, shows what has come since. A run ends with its turn,
// or when the turn waits for a response. Every stream that began ends with
// RUN_FINISHED or RUN_ERROR, unless the client is gone.
//
// # Interrupts
//
// The run holds approval requests back until nothing else of the reply moves (or,
// while other calls run, for Config.Grace), so that one interrupt has them all.
// Before the run ends, the journal records the interrupt ids and the digest of
// each approval request as it was shown: a response counts for that very request,
// in any process, after any restart. The contract of AG-UI holds:
//
//	another thread's interrupt      is unknown there, and has no effect
//	an older run's interrupt        has its response already; what is open is asked again
//	not every open one is covered   RUN_ERROR resume_incomplete; nothing is done
//	no resume, open interrupts      RUN_ERROR interrupt_pending
//	a known message, other text     RUN_ERROR conflict; nothing is done
//	the same response again         shows its outcome; nothing is done twice
//	another response than before    the same, and CUSTOM askance.overtaken says who decided what
//	answered on another surface     as before: the first decision stands
//	a response that does not fit    RUN_ERROR payload_invalid; the approval request is still open
//	edits that break the schema     RUN_ERROR invalid; the approval request is still open
//	resolved after its time         RUN_ERROR interrupt_expired; cancelled is accepted
//	by a peer without the right     RUN_ERROR forbidden; the approval request is still open
//	all cancelled                   interrupts the reply; the run ends cancelled
//
// A message of the person that arrives with responses or results begins a turn that waits for the
// reply; the run shows both.
//
// The run submits a response that the engine would refuse first, and then none. If one is refused
// later, such as at a reviewer's limit, the earlier ones stand, and the client can send the same
// resume again. If a rule requires several approvals, the run asks
// the other approvers again.
//
// A call of the client's own tool begins in the journal when a run ends with it pending: the
// policy must still allow it, and it can no longer be revoked. AG-UI does not tell pages apart, so
// every page of the owner is told to run it until it has a result; the first result counts.
//
// # Roles
//
// Talking to an agent requires the role runtime, and responding the role approver; cancelling all
// requests of one's own turn requires only runtime. A peer without the role approver sees for
// whom the request waits, and the run continues after the response.
//
// # Deviations
//
// The gateway differs from other servers in these points:
//
//	a response with unknown members is refused, not stripped: a misspelt edit would run other arguments
//	assistant messages that the server did not send are not taken into the conversation
//	a second run of a thread while one has a client is refused (HTTP 409), not queued
//	an unknown protocolVersion of another major is refused (HTTP 400)
//	Accept is ignored: the reply is server-sent events, protobuf is not served
package agui
