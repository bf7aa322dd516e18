// Package proof verifies journals: it has the hashes of records, signed checkpoints
// over them, the verification of a whole journal, and receipts for single calls that
// are checked without a server. It does no I/O and reads no clock, so it works
// next to the engine and in an auditor's own program.
//
// # What is hashed
//
// The [Leaf] of a record is the RFC 6962 leaf hash over its subject and its
// [Content], which is a hash of the meaningful headers and of the SHA-256 of the
// body: exact stored bytes, nothing is encoded again. Two structures consist of
// leaves:
//
//   - The chain of a call: each event record carries, in its body, the sequence and the
//     leaf of the event record before it ([github.com/askance-dev/askance/toolcall.Link]).
//   - A [Checkpoint]: the Merkle root over the leaves of a contiguous range of
//     sequences, with the hash of the checkpoint before it, signed by an engine.
//     It is stored as a [Sealed]: with the subject and content of every record
//     in the range, so that the proof outlives the records.
//
// # Exact hashes
//
// Hashes are SHA-256. u32(x) is a number as 4 bytes, big-endian, and text(s) is
// u32(length) and the bytes of s.
//
//   - The content of a message is the hash of "askance-content-v1", a line feed,
//     u32(number of headers), for each header, sorted by name, text(name), u32(number
//     of values) and text(value) for each, and then the hash of the exact body. Only
//     Nats-Msg-Id, Nats-Expected-Last-Subject-Sequence,
//     Nats-Expected-Last-Subject-Sequence-Subject and headers that do not begin with
//     Nats- count.
//   - Its leaf is the RFC 6962 leaf hash (a zero byte before the rest) of
//     "askance-record-v1", a line feed, text(subject) and the content. The leaf of a
//     sequence without a record is that of "askance-absent-v1" and a line feed. In a
//     checkpoint, a record that no engine wrote has instead of its content the hash of
//     "askance-foreign-v1", a line feed, and the content: its leaf proves nothing.
//   - An event record's prev has the sequence and the leaf of the one before it in its
//     entity, as sha256: and hexadecimal digits; the first has "prev":{"seq":0}.
//   - A checkpoint covers the sequences from_seq to to_seq, at most 4096, with subject
//     and content of each record. root is the RFC 6962 Merkle root over the leaves,
//     prev the hash of the signed form of the previous checkpoint, and sig the
//     base64url Ed25519 signature of that form: "askance-checkpoint-v1", a line feed,
//     and the checkpoint without sig as RFC 8785 says.
//
// Numbers and ranges of checkpoints follow each other without a gap. An engine writes
// the next one with Nats-Expected-Last-Subject-Sequence, so that one of two engines
// does. Readers skip and report a message that is not a checkpoint of the engine's
// key. NATS refuses deletions from that stream over its API; a copy of a checkpoint
// shows that the whole stream was deleted. losses counts the [Loss] entries.
//
// # Checking
//
//	report, err := proof.Verify(checkpoints, records, proof.Options{Keys: keys, First: first, Last: last})
//
// finds each changed, removed, inserted or reordered record. [Receipt.Check] does the
// same for one call, from one file:
//
//	r, err := proof.DecodeReceipt(file)
//	…
//	checked, err := r.Check(keys, retired)
//
// # Whole calls
//
// A stored record of a call has only what changed since the record on which it builds.
// [Expander] returns whole calls from records in their order, redacted or not; a receipt
// has all records of its call.
//
// # Redaction
//
// [Record.Redact] removes what rules hide. The engine that stored the record put the
// expected result into a header ([HeaderShown]), which the leaf covers: each byte of
// a redacted record is proved. A record that shows other bytes is [Changed], and one that
// shows nothing is [Withheld], if its engine permits more. A redacted record builds on its
// redacted base.
//
// # What is proved and what is not
//
// A record under a checkpoint is as the engine signed it: without the engine's private
// key no one can change it, its place or its neighbors undetected. Only the chains of
// their calls protect the records after the last checkpoint, and the last event record
// of a call can be removed from those undetected. The holder of the engine's private
// key can sign another history: keep checkpoints or receipts elsewhere and pass one as
// [Options.Anchor]. The time at which the server stored a record is not proved; an
// event record has the engine's time in its body.
package proof
