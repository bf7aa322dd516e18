// Package api is the table of the operations that askance offers.
//
// A row says of one operation its name, its request and its reply, who may use
// it, which capacity it takes, and on which transports it exists. [Table] has
// every row. The engine in process, the NATS service and client, the HTTP API
// with its OpenAPI document and the documentation are made by loops over it.
//
//	reply, err := api.List.Call(ctx, client, message.ListRequest{})
//
// A transport is a [Caller]. [Methods] gives it one method per operation, the
// [Client].
//
// # How to add an operation
//
// Declare its request, its reply and its row here, add the row to the table,
// and carry it out in package engine. Tests fail until every transport that the
// row names has it.
//
// # What it does not do
//
// It decides nothing and checks nothing: the engine checks the role.
package api
