package embed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/askance-dev/askance/message"
)

// Cluster is a cluster of NATS servers in this process, to measure or try out what replicas
// cost. A cluster in one process protects against nothing: a real one has each server on its
// own machine. Its methods are safe for concurrent use.
type Cluster struct {
	servers []*server.Server
}

// StartCluster starts n servers on free ports of this machine, each with its own store in
// dir, and returns when they have elected a leader. Its errors are *message.Error.
func StartCluster(ctx context.Context, dir string, n int) (*Cluster, error) {
	fail := func(what string, err error) error {
		return &message.Error{Code: message.CodeUnavailable, Op: "start a cluster of NATS servers", What: what, Hint: "check that ports of 127.0.0.1 are free and " + dir + " can be written", Err: err}
	}
	c := new(Cluster)
	ports, err := freePorts(ctx, 2*n)
	if err != nil {
		return nil, fail("cannot find a free port", err)
	}
	var routes []*url.URL
	for _, port := range ports[n:] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i := range n {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("askance-%d", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprintf("nats-%d", i)), MaxPayload: defaultMaxPayload, Routes: routes,
			Cluster: server.ClusterOpts{Name: "askance", Host: "127.0.0.1", Port: ports[n+i]},
		})
		if err != nil {
			c.Close()
			return nil, fail("a server refuses its options", err)
		}
		c.servers = append(c.servers, s)
		s.Start()
	}
	if err := c.waitForLeader(ctx); err != nil {
		c.Close()
		return nil, fail("the servers did not elect a leader", err)
	}
	return c, nil
}

// freePorts returns ports of this machine that were free a moment ago.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	var open []net.Listener // all open at the same time, so that all ports differ
	defer func() {
		for _, l := range open {
			_ = l.Close() // it accepted no connection
		}
	}()
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// waitForLeader waits until one server leads and knows all others.
func (c *Cluster) waitForLeader(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, readyTimeout, errors.New("they had "+readyTimeout.String()))
	defer stop()
	look := time.NewTicker(20 * time.Millisecond) // servers do not announce an election
	defer look.Stop()
	for {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers) {
				return nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	var all []string
	for _, s := range c.servers {
		all = append(all, s.ClientURL())
	}
	return strings.Join(all, ",")
}

// Messages returns how many messages all servers received and sent since they started,
// including those between servers.
func (c *Cluster) Messages() (in, out int64, err error) {
	for _, s := range c.servers {
		v, err := s.Varz(nil)
		if err != nil {
			return 0, 0, err
		}
		in, out = in+v.InMsgs, out+v.OutMsgs
	}
	return in, out, nil
}

// Close stops all servers and waits until they have stopped.
func (c *Cluster) Close() {
	for _, s := range c.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
}
