package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/toolcall"
)

// as opens a new connection for a principal.
func (w *world) as(role toolcall.Role, name string) client {
	w.t.Helper()
	c, err := bus.NewClient(w.connect(name), space, toolcall.Principal{Role: role, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return client{c, w, newDice(w.t.Name(), fmt.Sprintf("%s %s", role, name))}
}

func (w *world) bot() client      { w.t.Helper(); return w.as(toolcall.RoleRuntime, botName) }
func (w *world) approver() client { w.t.Helper(); return w.as(toolcall.RoleApprover, approverName) }
func (w *world) operator() client { w.t.Helper(); return w.as(toolcall.RoleOperator, operatorName) }

// embedded describes an engine with an embedded NATS server, and makes the world use that server.
func (w *world) embedded() *process {
	w.t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	w.url = "nats://" + listen
	return w.serve("engine", "--listen", listen)
}

// replica describes an engine on the world's NATS.
func (w *world) replica(name string) *process {
	w.t.Helper()
	return w.serve(name, "--nats", w.url)
}

const (
	// servesSign is what engines print when they are ready.
	servesSign = "askance is running"
	// maxRestarts bounds how often one test restarts an engine that could not begin its work.
	maxRestarts = 10
)

func (w *world) serve(name string, more ...string) *process {
	w.t.Helper()
	anchor := filepath.Join(w.file("data-"+name), "anchors", string(space))
	if err := os.MkdirAll(filepath.Dir(anchor), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := journal.CreateAnchor(anchor); err != nil { // the test made the keys, so no engine has created an anchor for a new journal
		w.t.Fatal(err)
	}
	argv := append([]string{
		bin.askance, "serve", "--data", w.file("data-" + name), "--space", string(space), "--keys", w.file("engine.key"),
		"--policy", w.file("policy.yaml"), "--tools", w.file("tools.yaml"), "--log-level", "info",
		"--http", "off", "--checkpoint-every", "500ms", "--checkpoint-records", "100", // so that kills hit engines while they sign
	}, more...)
	p := w.process(name, servesSign, argv...)
	p.restarts = maxRestarts
	return p
}

// worker describes a worker for one tool.
func (w *world) worker(name, tool string) *process {
	w.t.Helper()
	argv := []string{
		bin.askance, "worker", "--data", w.file("data-" + name), "--nats", w.url, "--space", string(space),
		"--engine-key", w.file("engine.pub"), "--as", name, "--slots", "4", "--log-level", "info", "--tool", tool, "--",
	}
	return w.process(name, " runs ", append(argv, toolCommand(tool, w.effects())...)...)
}

// external describes a real nats-server that syncs every write to the disk, and makes the world use
// it. limit bounds its store; 0 means no limit.
func (w *world) external(limit int64) *process {
	w.t.Helper()
	w.port = freePort(w.t)
	w.url = fmt.Sprintf("nats://127.0.0.1:%d", w.port)
	w.natsConfig(limit)
	return w.process("nats", "Server is ready", bin.nats, "-c", w.file("nats.conf"))
}

func (w *world) natsConfig(limit int64) {
	w.t.Helper()
	bound := ""
	if limit > 0 {
		bound = fmt.Sprintf(", max_file_store: %d", limit)
	}
	w.write("nats.conf", fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream: {store_dir: %q, sync_interval: always%s}\n", w.port, w.file("store"), bound))
}
