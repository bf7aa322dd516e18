// Package bus carries the requests of runtimes, people and workers over NATS: who may
// publish and read what, the service that answers for an engine, and the clients and
// workers that ask. It imports neither engine nor executor, and satisfies the interfaces
// that they declare. Package journal below it stores what happened: a *journal.Journal is
// the [TaskReader] and a *journal.Ledger the [AuditLedger] of a service. The other
// subpackages hold the keys (keyfile), the logins (creds) and the embedded server (embed).
//
// # An engine on NATS
//
// embed.Start runs a server in the process; [Connect] connects to one elsewhere.
// journal.Open opens the journal, and [Serve] answers requests:
//
//	srv, err := embed.Start(ctx, embed.Options{StoreDir: "data/nats", Listen: "127.0.0.1:4222"})
//	…
//	nc, err := srv.Connect(ctx, bus.ConnectOptions{Principal: "engine"})
//	…
//	keys, err := keyfile.LoadOrCreate("data/engine.key")
//	…
//	j, err := journal.Open(ctx, nc, "default", keys, journal.Options{
//		Durability: srv.Durability(), Health: srv.Health, Room: srv.Room,
//	})
//	…
//	e, err := engine.New("default", j, policy, tools,
//		engine.WithSignals(bus.NewSignals(nc, "default", log)), engine.WithSigningKey(keys.Signer()))
//	…
//	service, err := bus.Serve(ctx, nc, j, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
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
// clients and workers in other languages; [Operations] returns part of it as data.
//
// # Guarantees
//
//   - A request is executed for the principal in its subject, which NATS permissions
//     guard ([PermissionsFor]), and only if the reply goes to that principal's inbox.
//     Only engines can use JetStream, because it replies to any subject in its own
//     name, even to its own API.
//   - Connections, clients and workers survive restarts of the server and of engines.
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
// # What it does not do
//
// It decides nothing and keeps no state of calls. The server authenticates names:
// package creds makes logins with the permissions of [PermissionsFor] for embedded and
// other servers (CREDENTIALS.md). Without logins, each client acts under any name
// that it claims. Every worker of a tool can acknowledge the tool's tasks, so an
// acknowledgement proves nothing; only the engine's reply to a start does.
package bus
