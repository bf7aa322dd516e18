// Package bus carries askance over NATS: the journal on a JetStream stream, and the
// requests of runtimes, people and workers. It satisfies the interfaces that engine
// and executor declare, and imports neither. Packages below it have the keys
// (keyfile), the logins (creds) and the embedded server (embed).
//
// # An engine on NATS
//
// embed.Start runs a server in the process, [Connect] reaches one elsewhere.
// [OpenJournal] opens the journal, [Serve] answers requests:
//
//	srv, err := embed.Start(ctx, embed.Options{StoreDir: "data/nats", Listen: "127.0.0.1:4222"})
//	…
//	nc, err := srv.Connect(ctx, bus.ConnectOptions{Principal: "engine"})
//	…
//	keys, err := keyfile.LoadOrCreate("data/engine.key")
//	…
//	journal, err := bus.OpenJournal(ctx, nc, "default", keys, bus.JournalOptions{
//		Durability: srv.Durability(), Health: srv.Health, Room: srv.Room,
//	})
//	…
//	e, err := engine.New("default", journal, policy, tools,
//		engine.WithSignals(bus.NewSignals(nc, "default", log)), engine.WithSigningKey(keys.Signer()))
//	…
//	service, err := bus.Serve(ctx, nc, "default", func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
//		if p.Role == toolcall.RoleWorker {
//			return e.Worker(p, queue)
//		}
//		return e.As(p)
//	}, bus.ServiceOptions{Observer: e})
//
// In another process a runtime, an approver or an operator uses a [Client],
// which has the methods of the embedded engine, and a worker a [Worker], which
// is the transport that package executor asks for:
//
//	nc, err := bus.Connect(ctx, "nats://127.0.0.1:4222", bus.ConnectOptions{Principal: "bot"})
//	…
//	client, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
//	…
//	reply, err := client.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: calls})
//
// PROTOCOL.md in this folder describes subjects, headers and requests for
// clients and workers in other languages; [Table] and [Operations] have the
// same as data.
//
// # Guarantees
//
//   - An event record is stored only if its entity still ends where the writer
//     believes. One filter per entity ([Entity]) guards the compare-and-swap, so one
//     of any number of engines wins.
//   - ErrConflict, ErrFull, ErrTooLarge and ErrUnavailable of [Journal.Append] mean
//     that nothing was written. If that is not certain, the error is
//     ErrUnknownOutcome.
//   - A message that no engine of the space wrote never counts as an event record:
//     each one has a MAC over its subject, its predecessor and its body. Readers
//     report and skip it. They do not skip a genuine event record of a newer
//     version: its call stays unchanged until an engine can read it.
//   - A request is executed for the principal in its subject, which NATS permissions
//     guard ([PermissionsFor]), and only if the reply goes to that principal's inbox.
//     Only engines can use JetStream, because it replies to any subject in its own
//     name, even to its own API.
//   - Nothing is evicted: a full stream refuses writes, and the last part of a bounded
//     one is reserved for calls that have begun. A stream that something else created,
//     or that was weakened, is refused and stays unchanged.
//   - Connections, watches, clients and workers survive restarts of the server and of
//     engines. [Journal.Watch] leaves no gap and repeats nothing.
//   - Ids can be any text: their encoding adds no token and no wildcard to a subject.
//
// # Generations of engines
//
// The queue group of all request subjects is askance in generation 0, and
// askance-<n> in generation n. All running engines of a space are in the group of
// one generation. NATS cannot remove a hung member while its connection stands, so
// the others move to the next generation, where they get every request; clients
// send again what the hung member got. Each engine publishes a [Presence] on
// presence.<engine> every second, or every ten seconds while it knows of no other
// engine, and subscribes to presence.*:
//
//   - An engine that hears of a higher generation moves to it: it subscribes in the
//     new group, then unsubscribes in the old one after it has handled what it was
//     given there. One that hears of an unknown engine, or of a lower generation,
//     publishes its own presence at once.
//   - When another engine was silent for 3 seconds, an engine moves to the next
//     generation, unless the other was already silent for 2 seconds when the present
//     generation began. An engine with leaving is not silent: the others forget it.
//   - An engine that starts first sends its presence as a request, and adopts the
//     generation of the first reply. Without responders it begins in its own
//     generation (0 at the start). If there are subscribers but no reply within a
//     second, it begins a higher one: the time in milliseconds since 1970.
//   - An engine that was paused for 3 seconds while it knew of others leaves its
//     group, drops its waiting requests (others answered them) and starts as above.
//
// # An event record
//
// It is one message. Readers check its headers; the server checks the first two:
//
//   - Nats-Expected-Last-Subject-Sequence: the sequence of the entity's last event
//     record, 0 for none.
//   - Nats-Expected-Last-Subject-Sequence-Subject: the entity's filter,
//     askance.v1.<space>.record.<session>.<reply>.<call>.> with - for what is missing,
//     byte for byte the same in every write.
//   - Nats-Msg-Id: the event record's id, 1 to 64 of A-Z a-z 0-9 _ -.
//   - Askance-MAC: the key id, one space, and the base64url HMAC-SHA256 with the
//     engines' secret key over "askance-record-v1", a zero byte, the length of the
//     subject (8 bytes, big-endian), the subject, the expected sequence (8 bytes,
//     big-endian) and the body.
//   - Askance-Shown: sha256: and the hash of the redacted body, if rules hide
//     something in it. Without it everything may be shown. Events and bodies with "v":2
//     have it always, whole if everything may be shown.
//   - Askance-Kind: the kind of an event record with "v":2.
//
// The body is JSON. With "v":2 it is a toolcall.EventRecord. A call's record has "v":3:
// call has the whole call, and change only what differs from what package toolcall
// derives from the record's base. The base is the record at prev, whose hash prev has,
// or the one that base names in the same way. At most three other records are needed
// to read one. [Journal] returns whole calls, and workers get them with "v":2.
//
// A message is not an event record if its MAC is wrong, if a header is missing or
// double, if it names another filter, or if headers and body disagree: readers report
// and skip it, and writers write behind it. A reader that cannot understand a message
// with a correct MAC must not change the entity: a newer engine wrote it. Read the last
// event record with $JS.API.STREAM.MSG.GET: a direct get or a consumer can lag.
//
// An event record is void if its expected sequence is before that of the last event record
// of its entity that is not void, or if its link names a void one. Treat it like a message that is no event record. On a
// stream with replicas only the leader compares, and one whose disk is full can lack what
// the others store.
//
// # Writing an event record
//
// Publish to its subject as a request. One filter per entity is the only lock: two
// filters over the same event records would be two locks. At most one event record
// of an entity may be in an atomic batch, because the server's check does not see what
// the batch itself writes. The server replies:
//
//   - stream and seq: stored. If duplicate is set, read what follows the expected
//     sequence and ensure that it is this event record: the server compares ids first,
//     so that the message at seq can be void.
//   - error 10071 or 10164: the entity has a newer event record. First read what
//     follows the expected sequence: if it is this event record, it is stored and its
//     acknowledgement was lost. Messages that are not event records do not count:
//     publish again behind the last of them. 10164 with nothing there means that an
//     event record of the entity is on its way, and may never be stored: publish again.
//   - error 10077 with "maximum bytes", 10023, 10047, 10028: full, nothing was written.
//   - error 10054, 10077 with "too large": too large, nothing was written.
//   - error 10158, 10008, 10009, or no responders: nothing was written, publish again.
//   - nothing within 2 seconds, or error 10063: unknown. Publish again, with the same id and the same
//     expected sequence.
//
// Events with an id get a Nats-Msg-Id of the form ev_…, so that sending them again
// within two minutes stores nothing.
//
// A server with sync_interval: always syncs each publish on its own, so [Batched]
// sends what waited as one atomic batch. The server refuses a batch as a whole and
// does not say why: each event record is then published alone, and so is each one of
// a batch without a reply. Its members have consecutive sequences. After a write error
// or a crash the server completes a batch that it began to store. It shows a batch
// before it syncs it: a member that is found after a batch without a reply counts when
// the server is well, or has stored a later record.
//
// # Complete or refused
//
// Nothing is ever deleted from the journal but what was archived, so an engine expects each sequence from 1
// to the end, the last signed record at its place, and at least what its anchor file
// knows. It checks this before it answers requests, after every reconnect, and every
// five seconds. Each acknowledgement must name a sequence above every one known when
// the write began, so the first write shows that a stream was cut or created again. A
// record that the server counts and cannot deliver is found within ten seconds; one
// that a start from a snapshot spared, while the engine reads on slowly. On a
// replicated stream the engine checks again for 30 seconds, because an election can
// hide records for a moment. Only the missing sequences of a loss that an operator
// accepted, and those of an archive that a checkpoint announced, may have no record. While
// announced records are still there, the missing sequences are compared one by one. An engine believes that an entity has no record only
// if the journal is complete, so it never runs a purged call again.
//
// # What it does not do
//
// It decides nothing and has no state of calls. The server authenticates names:
// package creds makes logins with the rights of [PermissionsFor] for embedded and
// other servers (CREDENTIALS.md). Without logins, each client acts under the name
// that it gives. Every worker of a tool can acknowledge the tool's tasks, so an
// acknowledgement proves nothing; only the engine's reply to a start does.
//
// # Decisions
//
//   - Each record names the hash of the one before it, in its body and under its MAC.
//     Anyone who can write to the stream could change a header. The hash does not
//     cover the sequence, so a restored journal can be compared.
//   - A record builds on the one before it, up to three deep. A full call has 4.0 kB
//     instead of 13.6 kB; if each built on the first alone, votes and grant would repeat:
//     6.7 kB. An unreadable base makes its record unreadable: nothing changes that call.
//     Who accepts a loss closes the calls whose base is lost.
//   - Each checkpoint has one Merkle tree, and checkpoints form a chain. With one
//     growing tree a proof needs several messages, and a purge destroys it.
//   - The key that authenticates records never changes; the key that signs grants
//     does. Each key vouches for its successor.
//   - Comparison with an anchor file and checkpoints detects damage, because NATS
//     truncates a damaged file and serves the rest. Counting records on each write
//     costs a round trip.
//   - A snapshot names records and repeats none, so no decision rests on it. A copy of
//     the state would start faster by a second and would have to be trusted.
//   - Blocks of the journal are not compressed, although S2 makes full calls a third and
//     local calls a fifth of their size at no cost: if a crash empties the newest block,
//     NATS 2.15.2 appends to the compressed one before it, and the stream is lost.
//     Archives are compressed.
//   - The anchor file is a high-water mark. Each record writes 512 bytes to the page
//     cache; a checkpoint flushes it.
//   - An archive is a signed removal: file, check, checkpoint, then deletion, so that
//     every crash leaves records that are there or are announced. Its index refuses whole
//     replies. A last record of each call in the journal would refuse ids without one, and
//     keeps half of the bytes. Archiving is offline: an engine that has not heard of an
//     archive could store a deleted id as new.
//   - A person accepts a loss, offline and signed. Lost sequences stay empty. Open
//     calls are finished: a blocked call could be offered again by mistake.
//   - An embedded server that broke restarts in its process once the disk has room.
//     The node first removes the index files of broken streams, because they count the
//     refused record. If the server does not start, the process exits with code 5.
//   - Engines exclude a hung engine by moving to the next generation of their queue
//     group. Retries would meet it with every second request; subjects with an
//     engine's name would make every client choose.
//   - Batches are for durability fsynced. A cluster of three syncs together what
//     arrives together: at a sync of 1 ms and 256 callers, 9,000 appends per second
//     become 10,000, where one server goes from 500 to 8,000 (make bench-slowdisk).
//   - Logins are NATS JWTs, so a new one works at once and a revocation ends
//     connections. A store that had credentials is not opened without them.
package bus
