// Package agent is how an agent runtime plugs into the gateway: a message of a
// user goes in, events come out. An [Agent] answers; a [Runner] drives its
// turns, keeps them in the journal, waits for people without holding a
// connection, and continues open turns after a restart.
//
//	runner, err := agent.New(agent.Config{As: space.As, Agents: []agent.Agent{bot}})
//	…
//	if err := runner.Resume(ctx); err != nil { … }
//	defer runner.Close()
//	reply, err := runner.Start(ctx, user, "session-1", "bot", agent.Input{Messages: []*message.Msg{msg}})
//
// A surface starts a turn and then only watches the events of the session; the
// turn does not care who watches. Approval requests that the agent's calls raise are
// answered on any surface by those who have the right.
//
// # A turn in the journal
//
// A turn is one reply of the agent to a message of a user. Its events are
//
//	CUSTOM askance.turn   the user's message and what came with it: a Record
//	REPLY_START
//	…                     what the agent emits, and what the engine derives
//	REPLY_END
//
// The first record of a session that finds no turn open opens one; a record
// that comes while one is open is void for every
// reader. So a session has one open turn, also when two processes begin one at
// the same moment: the loser finds out by reading, and answers with
// [OpenTurnError]. A turn that is to wait instead (Input.Queue) is first recorded as
// CUSTOM askance.turn.queued, and begins when the turns before it have ended. A reply's id follows from the session and the id of the user's
// message: the same message sent twice is one turn.
//
// A turn belongs to the user who began it: the agent acts, in the engine's eyes,
// as that user's runtime. Policies see the user's name and the agent's, rules that
// exclude the requester exclude that user, and the session is that user's.
//
// # Restarts
//
// A runner notes its open turns in a session of its own, so that its next
// process, under the same Config.ID, finds them. Of a turn that was cut off:
//
//   - what was emitted stays;
//   - a text, thinking or data block without an end is ended, and so is a call
//     to the model;
//   - a tool call without its TOOL_CALL_END was not complete: it is ended and
//     proposed with empty arguments, which the engine refuses, so that it has a
//     result and never runs;
//   - then Agent.Run is called again, with the unfinished reply as the
//     conversation's last message. Calls in it that have an end and no result may
//     be handed to Turn.Call again: a call runs once, however often it is
//     proposed.
//
// An agent therefore emits TOOL_CALL_END only when the model's answer is complete.
//
// The notes are two small events a turn, read once at each start.
//
// Two processes under one ID would run a turn twice: the model is asked twice
// and its words appear twice, but no tool call runs twice, because call ids
// that differ are other calls and those that agree are one. Give each process an
// ID of its own, and a dead one's ID to its successor.
//
// # What it does not do
//
// It decides nothing about calls, keeps no state outside the journal, and sends
// nothing to people.
package agent
