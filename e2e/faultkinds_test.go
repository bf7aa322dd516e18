//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/e2e/internal/link"
	"github.com/askance-dev/askance/internal/strictjson"
)

// faultKind is something that happens to a process of the cluster.
type faultKind struct {
	who   string                                 // format for the name, with the number
	begin func(r *faultRun, on int) (end func()) // on is the number of the server or engine
}

// faultKinds are the kinds of faults from which a plan draws.
var faultKinds = map[string]faultKind{
	"kill server": {"nats-%d", func(r *faultRun, on int) func() { return killed(r.nats[on]) }},
	"kill engine": {"engine-%d", func(r *faultRun, on int) func() { return killed(r.engines[on]) }},
	"kill worker": {"worker-%d", func(r *faultRun, on int) func() { return killed(r.workers[remote[on]]) }},
	"stop server": {"nats-%d", func(r *faultRun, on int) func() { return stopped(r.nats[on]) }},
	"stop engine": {"engine-%d", func(r *faultRun, on int) func() { return stopped(r.engines[on]) }},
	"stop worker": {"worker-%d", func(r *faultRun, on int) func() { return stopped(r.workers[remote[on]]) }},
	"isolate":     {"nats-%d", func(r *faultRun, on int) func() { return onCables(link.Fault{Cut: true}, r.cables.around(on)...) }},
	"silence":     {"nats-%d", func(r *faultRun, on int) func() { return onCables(link.Fault{Held: true}, r.cables.around(on)...) }},
	"delay":       {"nats-%d", func(r *faultRun, on int) func() { return onCables(link.Fault{Delay: 60 * ms}, r.cables.around(on)...) }},
	"split":       {"nats-%d", split},
	"cut engine":  {"engine-%d", func(r *faultRun, on int) func() { return onCables(link.Fault{Cut: true}, r.cables.engines[on][:]...) }},
	"hold engine": {"engine-%d", func(r *faultRun, on int) func() { return onCables(link.Fault{Held: true}, r.cables.engines[on][:]...) }},
	"delay engine": {"engine-%d", func(r *faultRun, on int) func() {
		return onCables(link.Fault{Delay: 40 * ms}, r.cables.engines[on][:]...)
	}},
	"slow consumer": {"engine-%d", func(r *faultRun, on int) func() {
		return onCables(link.Fault{Rate: 8 << 10}, r.cables.engines[on][:]...)
	}},
	"unread":    {"reader of nats-%d", unread},
	"flood":     {"flood %d", flood},
	"full disk": {"nats-%d", (*faultRun).fullDisk},
}

func killed(p *process) (end func()) {
	p.kill()
	return p.start
}

func stopped(p *process) (end func()) {
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }
}

func onCables(f link.Fault, cables ...*link.Link) (end func()) {
	for _, l := range cables {
		l.Set(f)
	}
	return func() {
		for _, l := range cables {
			l.Set(link.Fault{})
		}
	}
}

// split disconnects a server from the next one; the third server reaches both.
func split(r *faultRun, on int) (end func()) {
	next := (on + 1) % clusterSize
	return onCables(link.Fault{Cut: true}, r.cables.routes[on][next], r.cables.routes[next][on])
}

// unread connects a client that subscribes to everything and reads nothing.
func unread(r *faultRun, on int) (end func()) {
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.Split(r.url, ",")[on], "nats://"), time.Second)
	if err != nil {
		return func() {} // the server is not running
	}
	_, _ = c.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB > 1\r\n")) // the server may be stopping
	return func() { _ = c.Close() }
}

// floodSize is the number of proposals in a flood: more than engines accept from one principal.
const floodSize = 2500

// flood sends many proposals of another runtime at once, and does not read the replies.
func flood(r *faultRun, on int) (end func()) {
	name := fmt.Sprint("flood-", on)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	nc, err := bus.Connect(ctx, r.url, bus.ConnectOptions{Principal: name})
	if err != nil {
		return func() {} // no server runs, and this goroutine ends the faults that keep them down
	}
	for i := range floodSize {
		request := proposal(name+"-"+r.session(), "r", r.block(fmt.Sprint("c", i), note, effect.Input{N: i, Forbid: true, Pad: strings.Repeat("x", 500)}))
		body, err := strictjson.Marshal(request)
		if err != nil {
			r.t.Fatal(err)
		}
		_ = nc.PublishRequest("askance.v1."+string(space)+".propose."+name, nc.Opts.InboxPrefix+".unread", fmt.Appendf(nil, `{"v":1,"op":"propose","body":%s}`, body)) // fails without a connection
	}
	return nc.Close
}
