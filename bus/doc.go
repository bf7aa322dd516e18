// Package bus carries askance over NATS: the journal on a JetStream stream, the
// requests of runtimes, people and workers, and an embedded server. It is the
// only package that knows NATS. It satisfies the interfaces that engine and
// executor declare without importing either.
//
// # An engine on NATS
//
// [embed.Start] runs a server in the process, [Connect] reaches one elsewhere.
// [OpenJournal] gives the engine its store, [Serve] answers requests with it:
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
// # What holds
//
//   - An event record is stored only if its entity still ends where the writer believes. The
//     compare-and-swap is guarded by one filter per entity ([Entity]), so of any
//     number of engines one wins. ErrConflict, ErrFull, ErrTooLarge and
//     ErrUnavailable of [Journal.Append] mean that nothing was written; whenever
//     that is not certain the error is ErrUnknownOutcome.
//   - What no engine of the space wrote is never taken for an event record: each carries a
//     MAC over its subject, what it follows and its body. It is reported
//     ([message.Record.Invalid]), passed over, and blocks nothing. A genuine event record
//     that this version cannot read is not passed over: its call stays as it is
//     until an engine comes that can.
//   - A request is carried out for the principal in its subject, which NATS
//     permissions guard ([PermissionsFor]), and only if the answer goes to that
//     principal's own inbox. Nobody but engines may use JetStream: it answers to
//     wherever it is told, in its own name, even onto its own API.
//   - Nothing is evicted: a full stream refuses, the last part of a bounded one is
//     kept for finishing what has begun. A stream that something else made, or
//     that was weakened, is refused and left as it is.
//   - Connections, watches, clients and workers outlive restarts of the server and
//     of engines; a [Journal.Watch] leaves no gap and repeats nothing.
//   - Ids may be any text: they are encoded, so that none can add a token or a
//     wildcard to a subject.
//
// # What it does not do
//
// It decides nothing and keeps no state of calls. Who is who is the server's to
// know: [PermissionsFor] says what a principal needs, and [creds.Folder] makes logins
// with just that, for an embedded server ([embed.Options.Trust]) and for others
// (CREDENTIALS.md). Without logins everybody who reaches the server acts as
// whoever they name themselves. Tasks of one tool can be
// acknowledged by every worker of that tool, so an acknowledgement proves
// nothing; only the engine's answer to a start does. Event records are collected into
// one write per call, not several calls' into one; a [Publisher] that does that
// can be put in.
package bus
