// Package auth says who sends a request to the gateway. Three ways are known,
// and each vote records which one it was:
//
//   - "http-token": a bearer token from a file that holds only hashes of tokens,
//     with a name, a space and roles ([Tokens]);
//   - "oidc:<issuer>": a log-in at an OpenID Connect provider, or a JWT that the
//     provider signed for this audience ([OIDC]);
//   - "http-loopback": none at all, from the same machine, where nothing else is
//     set up ([Loopback]).
//
// What a request's body says about its sender is never looked at. A credential
// that is there and wrong is refused, whatever else would be let in.
package auth
