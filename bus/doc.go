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
// # What it does not do
//
// It decides nothing and has no state of calls. The server authenticates names:
// package creds makes logins with the rights of [PermissionsFor] for embedded and
// other servers (CREDENTIALS.md). Without logins, each client acts under the name
// that it gives. Every worker of a tool can acknowledge the tool's tasks, so an
// acknowledgement proves nothing; only the engine's reply to a start does. A
// [Publisher] can collect the event records of several calls into one write.
package bus
