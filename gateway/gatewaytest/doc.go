// Package gatewaytest provides a world for tests of the gateway: an embedded NATS server with its
// journal, two spaces with an engine each, a policy that allows, asks and denies, tools of every
// kind, people in groups, and a gateway that serves all this to HTTP clients with tokens.
//
//	func TestMain(m *testing.M) { gatewaytest.Main(m) }
//
//	func TestSurface(t *testing.T) {
//		w := gatewaytest.New(t, gatewaytest.Surfaces(func(w *gatewaytest.World) []gateway.Surface {
//			return []gateway.Surface{mysurface.New()}
//		}))
//		key := w.A.Ask("s1", "r1", "c1") // a call of the tool "pay", which asks
//		res, err := w.A.HTTP(gatewaytest.Ann).Get(w.URL + "/…")
//		w.A.Approve(gatewaytest.Ann, key)
//		w.A.Finished(key)
//	}
//
// Everything ends with the test. Inside a testing/synctest bubble pass [In] with a folder that
// was created outside the bubble, and [Piped], which connects clients through memory instead of a
// socket.
package gatewaytest
