// Package askance is documentation: the module is a human-in-the-loop tool
// orchestration engine, and its parts are the packages below.
//
// An agent proposes tool calls. Policies decide: allow, deny, or ask. People
// approve, edit, reject or answer what was asked. Workers run what was allowed.
//
//	 agent runtime                      people                     workers
//	       │ propose                      ▲ │ approve, edit,          ▲ │ start,
//	       ▼                         ask  │ ▼ reject, respond         │ ▼ result
//	┌────────────────────────────────────────────────────────────────────────┐
//	│ engine     pending ──▶ asking ──▶ allowed ──▶ submitted ──▶ finished   │
//	│               │                                                        │
//	│               └─ permission: rules with CEL conditions, deny over ask  │
//	│                  over allow, every error on the safe side              │
//	└───────────────────────────────────┬────────────────────────────────────┘
//	                                    ▼ one event record per transition, by compare-and-swap
//	              journal: memory, or one JetStream stream of NATS
//
// # The promise
//
// Nothing runs that was not allowed; exactly what was seen is what runs; it
// runs once; every step survives a crash and can be proved afterwards. Where
// that needs something of the tool (an idempotency key that it honours), the
// packages say so, and without it a call whose outcome is unknown waits for a
// person instead of being guessed.
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
//     Begin here to embed askance in a Go program.
//   - [github.com/askance-dev/askance/bus]: the journal and the requests on NATS,
//     with a server inside the process or one elsewhere.
//   - [github.com/askance-dev/askance/executor]: runs tools, in the process of the engine or
//     as a remote worker.
//   - cmd/askance: the command. Begin there to see it work: askance demo.
//   - examples/: a program of about forty lines for each way to use it.
//
// ARCHITECTURE.md says why it is built so.
package askance
