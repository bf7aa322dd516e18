package bustest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
)

// startWithin bounds the start of a server of a cluster, and the election of a leader.
const startWithin = time.Minute

// Cluster is a cluster of NATS servers in this process. It does not work in a bubble.
type Cluster struct {
	t       testing.TB
	servers []*server.Server
	options []*server.Options
}

// NewCluster starts n servers, which stop when the test ends, with changed options.
func NewCluster(t testing.TB, n int, changes ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, servers: make([]*server.Server, n)}
	var routes []*url.URL
	for range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: FreeAddress()})
	}
	for i := range n {
		host, port := splitAddress(t, FreeAddress())
		_, route := splitAddress(t, routes[i].Host)
		c.options = append(c.options, &server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: host, Port: port, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "bustest", Host: host, Port: route},
		})
	}
	for i := range n {
		for _, change := range changes {
			change(c.options[i])
		}
		c.begin(i)
	}
	t.Cleanup(func() {
		for i := range n {
			c.Stop(i)
		}
	})
	for i := range n {
		if !c.servers[i].ReadyForConnections(startWithin) {
			t.Fatalf("server %d of the cluster does not start", i)
		}
	}
	c.await("the cluster elects no leader", func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == n
			}
		}
		return false
	})
	return c
}

func splitAddress(t testing.TB, address string) (string, int) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return host, n
}

func (c *Cluster) await(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(startWithin)
	for !ok() {
		if time.Now().After(deadline) {
			c.t.Fatal(what)
		}
		time.Sleep(20 * time.Millisecond) // servers do not signal when they are ready
	}
}

func (c *Cluster) begin(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	c.servers[i] = s
	s.Start()
}

// Start starts a stopped server again.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	c.begin(i)
	if !c.servers[i].ReadyForConnections(startWithin) {
		c.t.Fatalf("server %d of the cluster does not start again", i)
	}
}

// Stop stops a server.
func (c *Cluster) Stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// Index returns the number of the server with this name.
func (c *Cluster) Index(name string) int {
	c.t.Helper()
	for i, o := range c.options {
		if o.ServerName == name {
			return i
		}
	}
	c.t.Fatalf("no server is named %q", name)
	return 0
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	var all []string
	for _, o := range c.options {
		all = append(all, fmt.Sprintf("nats://%s:%d", o.Host, o.Port))
	}
	return strings.Join(all, ",")
}

// Conn opens a connection to any running server, which is closed when the test ends.
func (c *Cluster) Conn(principal string) *nats.Conn {
	c.t.Helper()
	nc, err := bus.Connect(context.Background(), c.URL(), bus.ConnectOptions{Principal: principal})
	if err != nil {
		c.t.Fatalf("connect as %s: %v", principal, err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}
