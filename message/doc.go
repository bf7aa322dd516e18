// Package message holds AgentScope 2.0's messages, content blocks and events with their
// codec, and askance's error type. Package toolcall holds the calls that the messages
// contain. It does no I/O and starts no goroutines.
//
// # AgentScope
//
// A [Msg] is what one side said in one turn: a role and a list of [Block]s. An [Event] is one
// step in building a message; [Append] applies it:
//
//	m, err := message.AssistantMsg("agent", message.List(), message.WithID("reply-1"))
//	…
//	for _, raw := range frames {
//		e, err := message.DecodeEvent(raw)
//		…
//		if err := message.Append(m, e); err != nil { … }
//	}
//
// Types, fields and values are named as on the wire: TEXT_BLOCK_DELTA is [TextBlockDelta],
// and its member block_id is BlockID.
//
// Guarantees:
//
//   - What is written can be read back (with a large enough MaxBytes, and unless events added
//     blocks to a user's message that its role does not allow), and writing it again gives
//     the same bytes. Every member is written, including nulls.
//   - Blocks and events of unknown type, and the extra members of a [ThinkingBlock], survive
//     a round trip byte for byte. (MarshalJSON returns these bytes; a JSON library that calls
//     it may remove white space.)
//   - A message rebuilt from the same events is always the same, as long as the events have
//     their ids and times.
//   - [Append] changes nothing when it returns an error.
//   - Errors are [*Error]s that give the position as JSON pointer and byte offset.
//
// It does not check that a tool call's input is JSON, that times are valid, or that base64
// is valid before an event appends to it. AgentScope does not either; users of the values
// must.
//
// # Deviations from AgentScope
//
// The behaviour is that of AgentScope 2.0.6, as recorded in testdata/agentscope. These are all
// the differences:
//
//	 #  AgentScope                            here                             why
//	 1  "3", 2.0, "yes" and 1 are coerced     refused                          a checker and a runner that coerce
//	    to numbers and booleans                                                differently disagree about the input
//	 2  blocks in a list, and events, may     refused                          the members of a block would choose
//	    lack a type and are guessed                                            its type
//	 3  an unknown block or event type fails  kept as UnknownBlock and         a newer peer must not break an older
//	    the whole message                     UnknownEvent; RefuseUnknown      one; no effect in Append
//	                                          gives upstream's way
//	 4  a block that an event makes gets the  its created_at and id come from  replicas that replay the same events
//	    replaying machine's clock and a       the event; ReplayStamps gives    must agree
//	    random id                             upstream's way
//	 5  the last of two equal names wins;     refused, as are inputs over      ambiguous or hostile input; raise
//	    lone surrogates pass; no limits       1 MiB or 64 levels               MaxBytes for messages with images
//	 6  integers have any size                token counters have 64 bits and  Go's integers; metadata keeps larger
//	                                          an overflow is an error          ones as json.Number
//	 7  hosts of URLs may be Unicode; xn--    Unicode hosts are refused, xn--  IDNA needs tables; a wrong table is
//	    labels are decoded and checked        labels kept                      another host
//	 8  a failing event may leave traces      nothing has changed              a failed step must not half-happen
//	 9  message and event share lists and     they share nothing               changing one must not change the other
//	    results
//	10  1.0 in metadata stays 1.0             written as 1                     the same JSON number
//
// Recorded upstream behaviour is kept even where it is odd: see [Codec.Append].
//
// A [Codec] sets clock, ids and the switches named above; the package's functions use its
// zero value.
package message
