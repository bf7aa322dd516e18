// Package journal keeps what happens in a space on a JetStream stream, and proves it. It
// satisfies the interfaces that engine declares, and does not import it.
//
//   - [Journal] appends event records and events, delivers them in order to readers, and
//     hands out the tasks of queues. It says how durable it is and whether it is ready.
//   - [Ledger] signs checkpoints over the journal, moves old records into archives
//     ([ArchiveStore]), and gives auditors what they verify ([Auditing], [Proofs]).
//   - [Examine] says whether the journal is complete; an [Anchor] in a file knows its end.
//     [Recovery] accepts that records are lost; [BackUp] and [Restore] copy everything.
//   - [Outbox] hands event records to destinations outside, and [PolicyBucket] keeps the
//     rule files of the space, or those that say who is in which group.
//   - [Snapshots] and [Verified] remember how far a process has read, so that it does not
//     begin at the first record again.
//
// An engine opens a journal, and signs it:
//
//	j, err := journal.Open(ctx, nc, "default", keys, journal.Options{Durability: srv.Durability()})
//	…
//	ledger, err := journal.OpenLedger(ctx, j, journal.LedgerOptions{Engine: "engine-1"})
//	…
//	go ledger.Run(ctx, journal.Pace{})
//
// To read the code, begin with a record (codec.go, bases.go, chain.go) and its stream
// (journal.go, stream.go, durability.go, replicas.go, room.go). Then writing (append.go,
// publisher.go, batch.go, void.go, event.go), reading (reader.go, page.go, read.go, watch.go,
// queue.go), signing (checkpoints.go, ledger.go, auditing.go, prove.go), loss (anchor.go,
// guard.go, exam.go, examine.go, ranges.go, recovery.go), archives (archiver.go,
// archivescan.go, archivewrite.go, archivestore.go, archivewarning.go, archives.go,
// archivebucket.go), backup.go, and what is remembered (boundfile.go, snapshots.go).
//
// # Guarantees
//
//   - An event record is stored only if its entity still ends where the writer
//     believes it does. One filter per entity ([bus.Entity]) guards the compare-and-swap,
//     so only one of several engines wins.
//   - ErrConflict, ErrFull, ErrTooLarge and ErrUnavailable of [Journal.Append] mean
//     that nothing was written. If that is not certain, the error is
//     ErrUnknownOutcome.
//   - A message that no engine of the space wrote never counts as an event record:
//     each record has a MAC over its subject, its predecessor and its body. Readers
//     report such a message and skip it. They do not skip a genuine event record of a
//     newer version: its call stays unchanged until an engine can read the record.
//   - Nothing is evicted: a full stream refuses writes, and the last part of a bounded
//     stream is reserved for calls that have begun. A stream that another program
//     created, or whose guarantees were weakened, is refused and left unchanged.
//   - [Journal.Watch] survives restarts of the server; it skips nothing and repeats nothing.
//
// # An event record
//
// An event record is one message. Readers check its headers; the server checks the first two:
//
//   - Nats-Expected-Last-Subject-Sequence: the sequence of the entity's last event
//     record, 0 if there is none.
//   - Nats-Expected-Last-Subject-Sequence-Subject: the entity's filter,
//     askance.v1.<space>.record.<session>.<reply>.<call>.> with - for what is missing,
//     byte for byte the same in every write.
//   - Nats-Msg-Id: the event record's id, 1 to 64 of A-Z a-z 0-9 _ -.
//   - Askance-MAC: the key id, one space, and the base64url HMAC-SHA256 with the
//     engines' secret key over "askance-record-v1", a zero byte, the length of the
//     subject (8 bytes, big-endian), the subject, the expected sequence (8 bytes,
//     big-endian) and the body.
//   - Askance-Shown: sha256: and the hash of the redacted body, if rules hide
//     something in it. Without this header everything may be shown. Events and bodies
//     with "v":2 always have it; the value is whole if everything may be shown.
//   - Askance-Kind: the kind of an event record with "v":2.
//
// The body is JSON. With "v":2 it is a toolcall.EventRecord. A call's record has "v":3:
// call has the whole call, or change only what differs from what package toolcall
// derives from the record's base. The base is the record that prev names by sequence and
// hash, or the one that base names in the same way. Reading a record takes at most three
// others. [Journal] returns whole calls, and workers get them with "v":2.
//
// A message is not an event record if its MAC is wrong, if a header is missing or
// repeated, if it names another filter, or if headers and body disagree: readers report
// and skip it, and writers write after it. A reader that cannot understand a message
// with a correct MAC must not change the entity: a newer engine wrote it. Read the last
// event record with $JS.API.STREAM.MSG.GET: a direct get or a consumer can lag.
//
// An event record is void if its expected sequence is before that of the last event record
// of its entity that is not void, or if its link names a void record. Treat it like a message
// that is not an event record. Void records exist because on a replicated stream only the
// leader compares, and a leader whose disk is full can lack what the others store.
//
// # Writing an event record
//
// Publish to its subject as a request. One filter per entity is the only lock: two
// filters over the same event records would be two locks. At most one event record
// of an entity may be in an atomic batch, because the server's check does not see what
// the batch itself writes. The server replies with one of these:
//
//   - stream and seq: stored. If duplicate is set, read what follows the expected
//     sequence and make sure that it is this event record: the server compares ids
//     first, so the message at seq can be void.
//   - error 10071 or 10164: the entity has a newer event record. First read what
//     follows the expected sequence: if it is this event record, it is stored and its
//     acknowledgement was lost. If only messages that are not event records follow,
//     publish again after the last of them. 10164 with nothing there means that an
//     event record of the entity is in flight and may never be stored: publish again.
//   - error 10077 with "maximum bytes", 10023, 10047, 10028: full, nothing was written.
//   - error 10054, 10077 with "too large": too large, nothing was written.
//   - error 10158, 10008, 10009, or no responders: nothing was written, publish again.
//   - nothing within 2 seconds, or error 10063: unknown. Publish again, with the same id
//     and the same expected sequence.
//
// Events with an id get a Nats-Msg-Id of the form ev_…, so sending them again
// within two minutes stores nothing.
//
// A server with sync_interval: always syncs each publish separately, so [Batched]
// sends waiting writes as one atomic batch. The members of a batch have consecutive
// sequences. The server refuses a batch as a whole and does not say why: each of its
// event records is then published separately, as after a batch without a reply. After
// a write error or a crash, the server completes a batch that it began to store. It
// shows a batch before it syncs it: a member that is found after a batch without a
// reply counts once the server is healthy, or has stored a later record.
//
// # Complete or refused
//
// Only archived records are ever deleted from the journal. An engine therefore expects
// every sequence from 1 to the end, the last signed record in its place, and at least the
// records that its anchor file names. It checks this before it answers requests, after
// every reconnect, and every five seconds. Each acknowledgement must name a sequence
// above every one known when the write began, so the first write reveals a stream that was
// truncated or created again. A record that the server counts but cannot deliver is found
// within ten seconds; if a start from a snapshot skipped it, later, by a slow background
// read. On a replicated stream the engine checks again for 30 seconds, because an election
// can hide records briefly. A sequence may have no record only if an operator accepted its
// loss, or if a checkpoint announced its archive. While announced records are still there,
// the missing sequences are compared one by one. An engine believes that an entity has no
// record only if the journal is complete, so it never runs a purged call again.
package journal
