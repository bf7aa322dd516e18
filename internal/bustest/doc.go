// Package bustest gives tests a real embedded NATS server with JetStream, on
// the real clock or inside a testing/synctest bubble, where ten minutes pass in
// no time.
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
// Two precautions make the server work on fake time. [Main] starts the
// server's ticker outside every bubble; without it fake time stands still and
// the test hangs. And within a bubble only those calls of nats.go may be used
// that take a context: the others draw timers from a pool of the whole
// process and crash the second bubble. Everything in package bus keeps to that.
//
// On the real clock, a bus that was made with [Listening] can be restarted with
// [Bus.Restart] under the connections that [Bus.Dial] made.
//
// Inside a bubble everything that was started must end inside it; [New]
// registers clean-ups that close connections before the server, in the right
// order. Clusters, TLS and TCP listeners do not work in a bubble.
package bustest
