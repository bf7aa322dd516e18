// Package msgv1 lets HTTP routes take and give the message dicts of AgentScope
// 1.x where they take and give messages of AgentScope 2.0.
//
// The media type chooses. A request whose Content-Type is [Type] has dicts in its
// body; a request that prefers [Type] in Accept gets dicts. The JSON around the
// messages stays the same. [Type01] does the same for 0.1.x; both dialects are
// read under either type.
//
//	if msgv1.IsSent(r) {
//		dicts, err := msgv1.Decode("chat", body.Input)
//		msgs, err := msgv1.Convert("chat", dicts)
//	}
//	if kind := msgv1.WantedBy(r); kind != "" {
//		dicts, lost, err := msgv1.Encode(kind, msgs, digest)
//	}
//
// # Guarantees
//
//   - [Convert] refuses a dict if AgentScope 2.0 would lose a part of it; the error
//     names the part and the message.
//   - [Encode] reports everything that a dict has no place for.
//   - A text is never a decision: only metadata.askance.decisions is, and each
//     decision names the digest of the approval request that its author saw. See package
//     message/v1.
//
// It does no I/O, and its functions may be called from many goroutines.
package msgv1
