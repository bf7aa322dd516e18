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
//     Earlier releases wrote no links: the chain begins at the first link, and
//     [Report.Unchained] counts the event records before it.
//   - A [Checkpoint]: the Merkle root over the leaves of a contiguous range of
//     sequences, with the hash of the checkpoint before it, signed by an engine.
//     It is stored as a [Sealed]: with the subject and content of every record
//     in the range, so that the proof outlives the records.
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
// # Redaction
//
// [Record.Redact] removes what rules hide. The engine that stored the record put the
// expected result into a header ([HeaderShown]), which the leaf covers: each byte of
// a redacted record is proved, and no one can show less of a record, or other bytes.
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
