// Package gateway serves askance over HTTP. It holds what every surface
// shares: who a request comes from, what it may do, errors, limits, streams,
// and the live feeds of sessions and of a space. A surface is one wire format:
// a list of Routes in a package of its own below this one.
//
//	srv, err := gateway.New(gateway.Config{Spaces: spaces, Auth: authenticator, Surfaces: surfaces})
//	…
//	http.Server{Handler: srv}
//
// # Guarantees
//
//   - A route is reached only by a Peer that its Access admits. Everything a
//     route does with calls goes through an engine.Client of that peer, so that
//     the engine checks the role once more and every vote carries the name that
//     was authenticated, never one from a body.
//   - A peer belongs to one space and has no way to name another.
//   - A stream never has a gap and ends when its peer's credentials do. A reader
//     that is too slow is cut off and goes on from its last id.
//
// # What it does not do
//
// It decides nothing, keeps nothing and knows no NATS: the engine is whatever
// implements engine.Client.
package gateway
