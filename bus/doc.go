// Package bus carries askance over NATS: the journal on a JetStream stream, and the
// requests of runtimes, people and workers. It satisfies the interfaces that engine
// and executor declare, and imports neither. Its subpackages hold the keys
// (keyfile), the logins (creds) and the embedded server (embed).
//
// # An engine on NATS
//
// embed.Start runs a server in the process; [Connect] connects to one elsewhere.
// [OpenJournal] opens the journal, and [Serve] answers requests:
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
// In another process, a runtime, an approver or an operator uses a [Client], which
// has the methods of the embedded engine. A worker uses a [Worker], the transport
// that package executor needs:
//
//	nc, err := bus.Connect(ctx, "nats://127.0.0.1:4222", bus.ConnectOptions{Principal: "bot"})
//	…
//	client, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
//	…
//	reply, err := client.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: calls})
//
// PROTOCOL.md in this folder describes subjects, headers and requests for
// clients and workers in other languages; [Table] and [Operations] return the
// same information as data.
//
// # Guarantees
//
//   - An event record is stored only if its entity still ends where the writer
//     believes it does. One filter per entity ([Entity]) guards the compare-and-swap,
//     so only one of several engines wins.
//   - ErrConflict, ErrFull, ErrTooLarge and ErrUnavailable of [Journal.Append] mean
//     that nothing was written. If that is not certain, the error is
//     ErrUnknownOutcome.
//   - A message that no engine of the space wrote never counts as an event record:
//     each record has a MAC over its subject, its predecessor and its body. Readers
//     report such a message and skip it. They do not skip a genuine event record of a
//     newer version: its call stays unchanged until an engine can read the record.
//   - A request is executed for the principal in its subject, which NATS permissions
//     guard ([PermissionsFor]), and only if the reply goes to that principal's inbox.
//     Only engines can use JetStream, because it replies to any subject in its own
//     name, even to its own API.
//   - Nothing is evicted: a full stream refuses writes, and the last part of a bounded
//     stream is reserved for calls that have begun. A stream that another program
//     created, or whose guarantees were weakened, is refused and left unchanged.
//   - Connections, watches, clients and workers survive restarts of the server and of
//     engines. [Journal.Watch] skips nothing and repeats nothing.
//   - Ids can be any text: their encoding adds no token and no wildcard to a subject.
//
// # Generations of engines
//
// The queue group of all request subjects is askance in generation 0, and
// askance-<n> in generation n. All running engines of a space are in the group of
// one generation. NATS cannot remove a hung member while its connection is open, so
// the others move to the next generation, where they get every request; clients
// resend what the hung member received. Each engine publishes a [Presence] on
// presence.<engine> every second, or every ten seconds while it knows of no other
// engine, and subscribes to presence.*:
//
//   - An engine that hears of a higher generation moves to it: it subscribes in the
//     new group, and unsubscribes from the old one after it has handled what it
//     received there. An engine that hears of an unknown engine, or of a lower
//     generation, publishes its own presence at once.
//   - When another engine has been silent for 3 seconds, an engine moves to the next
//     generation, unless the other was already silent for 2 seconds when the current
//     generation began. An engine that announces leaving is not silent: the others forget it.
//   - An engine that starts first sends its presence as a request, and adopts the
//     generation of the first reply. If there are no subscribers, it stays in its own
//     generation (0 at the start). If there are subscribers but no reply within a
//     second, it begins a higher one: the time in milliseconds since 1970.
//   - An engine that was paused for 3 seconds while it knew of others leaves its
//     group, drops its waiting requests (others answered them) and starts as above.
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
//
// # What it does not do
//
// It decides nothing and keeps no state of calls. The server authenticates names:
// package creds makes logins with the permissions of [PermissionsFor] for embedded and
// other servers (CREDENTIALS.md). Without logins, each client acts under any name
// that it claims. Every worker of a tool can acknowledge the tool's tasks, so an
// acknowledgement proves nothing; only the engine's reply to a start does.
package bus
