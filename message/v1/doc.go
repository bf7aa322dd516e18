// Package v1 reads and writes the message dicts of AgentScope 1.x and 0.1.x, and
// converts conversations between them and AgentScope 2.0's messages.
//
// Two wire formats are called "1.x Msg". [V1], the default, is written by releases
// 1.0.0 to 1.0.21. [V01], with __module__, __name__ and flat urls, is written by 0.1.3
// to 0.1.7. Both are read and distinguished by their members; Codec.Dialect selects the
// one to write.
//
// HTTP clients select it by a media type: see package gateway/msgv1.
//
//	dicts, err := v1.Codec{}.DecodeMsgs(data)
//	msgs, err := v1.Codec{}.ToMsgs(dicts)      // AgentScope 2.0
//	…
//	dicts, err = v1.Codec{Digest: digest}.FromMsgs(msgs)
//	data, err = v1.Codec{}.AppendMsg(nil, dicts[0])
//
// Whole conversations are converted, because 1.x puts results into separate dicts and
// 2.0 puts them into the message with the call. The metadata of a message (askance_v1)
// records the dicts that it was made of, and that of a dict (askance) the message that
// it is part of. Converting either way and back therefore gives the same ids, names,
// roles, times and splits.
//
// # Approvals
//
// 1.x has no place for them. FromMsgs puts a request into metadata.askance of the
// assistant's dict: {request_id, calls: [{tool_use_id, state, digest,
// suggested_rules}]}, with the digest of each open approval request. A decision is
// returned in a user's dict with metadata.askance {request_id, decisions:
// [{tool_use_id, digest, type: approve, reject or respond, input?, message?, rules?}]};
// see [DecisionsOf] and [Decisions.Responses]. It answers only the approval request
// with that digest. Text is never an approval, and no dict makes a call allowed: ToMsgs
// sets only the states pending and, with a result, finished.
//
// # Guarantees
//
//   - What is written can be read back, and writing that again gives the same
//     bytes.
//   - The same conversation gives the same messages and dicts, including generated
//     ids. Only ids and timestamps that a V1 dict leaves out, as it may, are new
//     each time it is read.
//   - A call's input is preserved byte for byte, by raw_input or the form of
//     RFC 8785; raw_input also contains inputs that are not an object.
//   - Input is bounded ([DefaultMaxBytes], 56 levels), and names, types and
//     duplicates are checked. Errors are [*message.Error]s with the place.
//   - Inputs are not changed, and results share no mutable data with them.
//
// The package does no I/O. It does not fetch what URLs point to, check base64, or read
// dicts of 0.0.x ([ErrIs00]) or messages of 2.0 ([ErrIs20]).
//
// # What is lost, and what differs
//
// The list is complete. Rows marked * are reported to Codec.OnLoss with the number of
// the row when they occur.
//
//	 #  between the dialects                     result
//	 1* V1 written as V01: thinking, raw_input,  dropped
//	    extra members, unknown blocks
//	 2* V01 file blocks written as V1            text with the link, or with the type
//	    V01 only: base64 in V1                   a data: URL, and read back as base64
//
//	 #  1.x to 2.0                               result
//	 3* V01 output that is not a string          its JSON text
//	 4* media whose type is of another kind      the kind is derived from the type
//	 5* a URL that is not absolute, or not in    text with the URL; or the normal form
//	    its normal form
//	 6* extra members of blocks                  dropped, except those of thinking
//	 7* blocks without a type, or of an unknown  with a type and in an assistant's message: kept,
//	    one                                      else dropped; also 2.0 to 1.x
//	 8* raw_input that differs from input        raw_input is used
//	 9* results after another message, next to   go to the message with their call, so their
//	    other content, or of no call             place is lost; of no call: to the assistant's
//	                                             message before, or one of their own
//	10* media in a system dict                   a user's message
//	11* metadata.askance_v1; metadata.askance    ours: dropped
//	    with a link, in messages of 2.0 too
//	12  a URL's media type                       guessed by extension within the kind, else
//	                                             image/*, audio/*, video/*, octet-stream
//	13  state of a call, of a result             finished with a result, else pending, never
//	                                             allowed; success, or interrupted by 1.x's
//	                                             own sentence
//	14  input without raw_input                  RFC 8785's form; unchanged if a number has
//	                                             none
//	15  timestamps                               created_at, without a zone unless Location
//	                                             says which; finished_at is the same
//	16  metadata null, or not an object          {}, or {"value": …}; restored on the way back
//	17  invocation_id                            metadata["invocation_id"]; never written, as
//	                                             upstream does
//	18  thinking or a call of a user or system   refused
//	19  the name of a result that has none       the call's
//
//	 #  2.0 to 1.x                               result
//	20* usage, finished_reason,                  dropped
//	    structured_output, error
//	21  ids and times of blocks, finished_at,    dropped
//	    parts of a second below 1 ms (V01: 1 s)
//	22* state and suggested_rules of a call      in the request while it is open, and dropped
//	                                             on the way back
//	23* state error or denied of a result,       a sentence in the output; success with 1.x's
//	    its metadata                             own sentence: interrupted; dropped
//	24* a result that is still running           dropped: the call has no result
//	25* hints                                    a user's message; the reply is split there
//	26* media_type of a URL, name of data        dropped
//	27  input that is not a JSON object          input {} and raw_input (V01: lost, row 1)
//
//	 #  reading                                  here
//	28  V01: content that is a number or object  refused; upstream makes it a string, as here for
//	                                             0.1.0 to 0.1.2, where any value was allowed
//	29  V01: class names                         any agentscope module, but Msg only
//	30  V1: blocks are not validated             blocks of known type are
//	31  V1: metadata of any kind                 accepted, and written as {"value": …}
//	32  missing metadata                         null in V01, {} in V1 as from 1.0.16
package v1
