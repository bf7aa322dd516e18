// Package bustest provides tests with a real embedded NATS server with JetStream, on the real
// clock or inside a testing/synctest bubble, where ten minutes pass at once.
//
//	func TestMain(m *testing.M) { bustest.Main(m) }
//
//	func TestLease(t *testing.T) {
//		dir := bustest.Dir(t) // made before the bubble
//		synctest.Test(t, func(t *testing.T) {
//			b := bustest.New(t, bustest.In(dir))
//			j := b.Journal("default")
//			…
//		})
//	}
//
// Two precautions make the server work on fake time. [Main] starts the server's ticker outside
// every bubble; otherwise fake time stands still and the test hangs. And within a bubble, use
// only those calls of nats.go that take a context: the others take timers from a pool of the
// whole process and crash the second bubble. Package bus keeps to that.
//
// On the real clock, a bus made with [Listening] can be restarted with [Bus.Restart] under
// the connections that [Bus.Dial] made.
//
// Everything that was started inside a bubble must end inside it; [New] registers clean-ups
// that close connections before the server. Clusters, TLS and TCP listeners do not work in a
// bubble.
package bustest
