// Package mcp is a gateway between MCP clients and MCP servers: it passes everything on
// and holds each tool call until askance has decided about it.
//
//	g, err := mcp.New(mcp.Config{Askance: client, Upstreams: []*mcp.Upstream{{Command: argv}}, Key: key})
//	err = g.ServeStdio(ctx, "ann", os.Stdin, os.Stdout) // one client
//	http.Handle("/mcp", g.Handler(mcp.HTTPConfig{Authenticate: who})) // many
//
// On the command line it is askance mcp. With --http, it writes "MCP gateway at URL"
// on standard error once it listens.
//
// It works on JSON-RPC messages, below any SDK: arguments, schemas, results and unknown members
// pass through as the bytes that arrived. It speaks the legacy revisions (2024-11-05 to
// 2025-11-25) and the modern one (2026-07-28), independently on each side.
//
// # Guarantees
//
//   - A tool runs only if askance allowed the call, with the arguments on record. The
//     gateway marks the call in the journal before it runs; only the first mark runs.
//   - A repeated request joins the open call of the same principal, tool and arguments.
//   - A call whose server died has an unknown outcome, and stays open until an operator resolves it,
//     unless the tool is idempotent.
//   - A definition that changed since the decision does not run.
//   - What a client returns (call ids, requestState) is authenticated.
//   - A client's credentials never reach a server, and a server's never a client.
package mcp
