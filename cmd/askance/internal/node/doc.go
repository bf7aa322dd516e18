// Package node wires an engine: keys and journal of a data folder (or of a NATS
// cluster), policy, tools, and the service that takes requests.
//
//	n, err := node.Start(ctx, node.Config{Dir: dir, Listen: "127.0.0.1:4222", Policy: paths, Tools: tools})
//	…
//	defer n.Close()
//
// A data folder has:
//
//	engine.key     the secrets of the space's engines (mode 0600)
//	engine.pub     what workers check grants with
//	nats/          the store of the embedded server; one process at a time
//	endpoint       the URL of the embedded server, while it runs
//	last-run.yaml  what the engine last ran with (written by package cli)
//
// OpenReader reads the journal of a folder in which no server runs, and
// changes nothing in it: no timer fires, no call is resumed.
package node
