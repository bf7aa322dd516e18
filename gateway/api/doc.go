// Package api is askance's own API over HTTP: REST with JSON, server-sent
// events for what happens, and an OpenAPI 3.1 document of all of it, made from
// the very types and table that serve it.
//
//	gateway.Config{Surfaces: []gateway.Surface{api.New(api.Config{Version: "1.2.0"})}}
//
// The words are those of the requests in package message. A call is named by
// its path, /v1/calls/{session_id}/{reply_id}/{tool_call_id}; the space is that
// of the credentials. API.md is the guide.
//
// # Guarantees
//
//   - Unknown members, unknown or doubled query parameters and wrong types are
//     refused with what, where and how to mend it, before anything is done.
//   - Who answers is who is authenticated: no body or parameter names a person.
//   - The parameter as chooses among the roles that the credentials have; it
//     gives none.
//   - A request with an Idempotency-Key is carried out once: sent again within a
//     day it gets the first answer, with other content it is refused. After a
//     restart, or beyond what is remembered (see Config), it is carried out anew,
//     which the engine makes harmless: a proposal gives the present state, an
//     answer that is on record already is answered with the call.
//   - Errors are problem details (RFC 9457) with a closed list of codes.
//   - An event stream goes on from Last-Event-ID without a gap or a doubling.
package api
