// Package auth says who sends a request to the gateway. Four ways are known,
// and each vote records which one it was:
//
//   - "http-token": a bearer token from a file that holds only hashes of tokens,
//     with a name, a space and roles ([Tokens]);
//   - "oidc:<issuer>": a log-in at an OpenID Connect provider, or a JWT that the
//     provider signed for this audience ([OIDC]);
//   - "unix-peer:<uid>": the user of the process that connected to a Unix socket,
//     as the kernel names it ([UnixPeers]);
//   - "http-loopback": none at all, from the same machine, as the one local user,
//     for as long as no credentials exist ([Loopback]).
//
// What a request's body says about its sender is never looked at. A credential
// that is there and wrong is refused, whatever else would be let in.
package auth
