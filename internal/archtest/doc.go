// Package archtest keeps the architecture true: it compares what the documents say about
// the module with the module.
//
// [Rules] is the table of allowed imports, with the reason for every row. [Table.Check]
// judges one import, [Reach] finds how a package depends on another, [Table.Markdown] renders
// the table for docs/imports.md. They are plain functions over plain values, so the tests can
// also pass made-up imports and see them refused.
//
// The tests of this package read the module and fail when
//
//   - an import is not in the table, or a folder has no row in it;
//   - a type of product code has more than 30 methods;
//   - a test library is reachable from code that is not a test;
//   - a package has no doc comment, or an example no README;
//   - a fuzz target is not in the Makefile's list, or the list names a missing one;
//   - the import table or the state diagram in the documents is not the one in
//     the code;
//   - a file names this machine, its registries, or files outside the module;
//   - the product is larger than its ceilings;
//   - a copied test vector differs from the original, where the original is available.
//
// After a change to the table or of the state machine,
//
//	go test ./internal/archtest -update
//
// writes both into the documents.
//
// It does not judge style, which is left to the linters.
//
// # Where to add things
//
//   - a transition: toolcall/table.go, an event in toolcall/event.go, its handling in
//     machine.go or attempt.go, what it emits in events.go
//   - an operation: its row in message/api/table.go and its handler in engine; every
//     transport loops over the table
//   - a block or event type: message, with its row in the decoder table and a vector
//   - a permission source or tool matcher: permission.Matcher, permission.Kind
//   - a key of rule files: a field with tags in permission/internal/rulefile/keys.go;
//     reader, editor schema and reference follow
//   - a requirement: how it joins in permission/requirement.go, and engine.Duties once
//     the engine carries it out
//   - a finding of lint: a code in permission/lint/lint.go, its check, and a folder
//     in permission/lint/testdata
//   - a wire format: structs with tags for message/internal/wire, the one codec, and a
//     mapper below message/; every loss in the table of its package documentation,
//     with a test
//   - a surface over HTTP: a gateway.Surface below gateway/, one line in
//     cmd/askance/internal/web/web.go; gateway/gatewaytest is the world for its
//     tests
//   - a way to run tools: engine.Executor in process; otherwise anything that speaks the
//     worker protocol over NATS or HTTP, tested by executor/executortest
//   - a journal: engine.Journal, tested by engine/journaltest
package archtest
