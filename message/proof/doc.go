// Package proof is the arithmetic by which a journal proves itself: hashes of
// records, signed checkpoints over them, what an auditor holds against a
// journal, and receipts for single calls that are checked without a server. It
// does no I/O and reads no clock, so that it can be used wherever a proof is
// held: next to the engine, in an auditor's own program, in court.
//
// # What is hashed
//
// The [Leaf] of a record is the RFC 6962 leaf hash over its subject and its
// [Content], which is a hash of the headers that mean something and of the
// SHA-256 of the body: exact stored bytes, nothing is encoded again. Two things
// are built of leaves:
//
//   - The chain of a call: each event record carries, in its body, the sequence and the
//     leaf of the fact that it follows ([github.com/askance-dev/askance/toolcall.Link]).
//     Event records of releases before that have no link: the chain begins at the first
//     that has one, and [Report.Unchained] says how many there are before.
//   - A [Checkpoint]: the Merkle root over the leaves of a contiguous range of
//     sequences, with the hash of the checkpoint before it, signed by an engine.
//     It is stored as a [Sealed]: with the subject and content of every record
//     in the range, so that the proof outlives the records.
//
// # Checking
//
//	report, err := proof.Verify(checkpoints, records, proof.Options{Keys: keys, First: first, Last: last})
//
// finds what was changed, removed, inserted or put in another order, and names
// each. [Receipt.Check] does the same for one call, from one file:
//
//	r, err := proof.DecodeReceipt(file)
//	…
//	checked, err := r.Check(keys, retired)
//
// # Redaction
//
// What rules hide is taken out of a record by [Record.Redact]. The engine that
// stored the record said in a header ([HeaderShown]), which is under the leaf,
// what the result must be: so each byte of a redacted record is proved like those
// of any other, and no one can show less of a record, or something else.
//
// # What is proved, and what not
//
// A record under a checkpoint is what it was when the engine signed: no one
// without the engine's private key can change it, its place, or what is next to
// it without being found. Records after the last checkpoint are held together
// by the chains of their calls alone; of those, the last event record of a call can be
// taken away without a trace. The holder of the engine's private key can sign
// another history: keep checkpoints (or receipts) elsewhere and hand one to
// [Options.Anchor]. When the server stored a record is not proved; an event record has
// the engine's own time in its body.
package proof
