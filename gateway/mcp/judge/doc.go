// Package judge tests the MCP gateway as its users run it: real processes of
// askance serve and askance mcp, judged by programs that other people published.
// It has no code of its own, only tests.
//
//   - The conformance suite runs against a bare server and against the same server
//     behind the gateway. A check that passes bare must pass behind the gateway.
//   - Published clients, of TypeScript and Go, call tools that the policy allows,
//     denies and asks about.
//   - An upstream in the test records the exact bytes that it gets, and fails in
//     every way that a test needs: it dies, hangs, or answers with garbage.
//
// The programs of testdata/node are installed by make node.
package judge
