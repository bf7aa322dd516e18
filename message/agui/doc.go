// Package agui reads and writes AG-UI, the protocol between agents and the
// programs that people see them in: its 31 events, the input of a run, and the
// framing as server-sent events. It does no I/O beyond an io.Reader and an
// io.Writer, and starts no goroutines.
//
//	w := agui.NewWriter(response, peer)
//	w.Write(&agui.RunStarted{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: new(agui.Version)})
//
// An [Event] is a pointer to one of the structs named after the wire:
// TEXT_MESSAGE_START is [TextMessageStart], its member messageId is MessageID.
// Optional members are pointers; nil is absent and anything else is written,
// the empty string too.
//
// Guarantees:
//
//   - [AppendJSON] writes only what AG-UI 1.0's own client takes unchanged: no
//     null for an absent member, every required member, on one line. What it
//     cannot write so is an error, and nothing is written.
//   - [DecodeEvent] accepts exactly what the schema of 1.0 accepts; a zero
//     [Decoder] takes, mends and refuses what the client does, and reports what
//     it mended. The verdicts are compared with recorded ones in testdata/ag-ui.
//   - What was written is read back as the same, if it is nested less deeply
//     than 64 levels and no longer than [MaxFrameBytes].
//   - To a peer that declared no version, [Writer] and [Peer.Adapt] send only
//     what 0.0.59 takes too.
//   - Errors are *[message.Error]s whose cause names the place by JSON pointer.
//
// A [Verifier] checks the order of a stream's events, by the rules that the
// 1.0 client enforces (its recorded verdicts are in testdata/order) and, if
// Strict, by those that the specification has beyond them. [Chunks] turns the
// chunk events into the start, content and end that they stand for.
//
// It does not read the binary (protobuf) form, which the client never asks for,
// and it does not publish capabilities: AG-UI has no place for them.
package agui
