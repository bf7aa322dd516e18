// Package agent connects an agent runtime to the gateway: a user's message goes in, events come
// out. An [Agent] answers; a [Runner] drives its turns, stores them in the journal, waits for
// people without holding a connection, and continues open turns after a restart.
//
//	runner, err := agent.New(agent.Config{As: space.As, Agents: []agent.Agent{bot}})
//	…
//	if err := runner.Resume(ctx); err != nil { … }
//	defer runner.Close()
//	reply, err := runner.Start(ctx, user, "session-1", "bot", agent.Input{Messages: []*message.Msg{msg}})
//
// A surface starts a turn and then only watches the session's events; the turn does not depend on
// who watches. Approval requests that the agent's calls raise are answered on any surface by the
// people who have the right.
//
// # A turn in the journal
//
// A turn is one reply of the agent to a user's message. Its events are
//
//	CUSTOM askance.turn   the user's message and what came with it: a Record
//	REPLY_START
//	…                     what the agent emits, and what the engine derives
//	REPLY_END
//
// A record opens a turn if no turn of the session is open; every reader ignores a record that
// arrives while one is open. So a session has one open turn, even if two processes begin one at
// the same moment: the loser notices it when it reads the session, and returns [OpenTurnError]. A
// turn that should wait instead (Input.Queue) is first recorded as CUSTOM askance.turn.queued,
// and begins when the turns before it have ended. A reply's id is derived from the session and
// the id of the user's message: the same message sent twice is one turn.
//
// A turn belongs to the user who began it: for the engine, the agent acts as that user's runtime.
// Policies see the names of the user and the agent, rules that exclude the requester exclude that
// user, and the session belongs to that user.
//
// # Restarts
//
// A runner records its open turns in a session of its own, so its next process with the same
// Config.ID finds them. When a turn was cut off:
//
//   - what was emitted stays;
//   - a text, thinking or data block without an end is ended, and so is a model call;
//   - a tool call without its TOOL_CALL_END was incomplete: it is ended and proposed with empty
//     arguments, which the engine refuses, so it has a result and never runs: Turn.Call returns
//     that result;
//   - then Agent.Run is called again, with the unfinished reply as the last message of the
//     conversation. Its calls that have an end and no result may be passed to Turn.Call again: a
//     call runs once, however often it is proposed.
//
// An agent therefore emits TOOL_CALL_END only when the model's answer is complete.
//
// The notes are two small events per turn, read once at each start.
//
// Two processes with one ID would run a turn twice: the model would be asked twice and its text
// would appear twice, but no tool call would run twice, because calls with different ids are
// different calls and calls with the same id are one. Give each process its own ID, and give the
// ID of a dead process to its successor.
//
// # What it does not do
//
// It decides nothing about calls, keeps no state outside the journal, and sends
// nothing to people.
package agent
