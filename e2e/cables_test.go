package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/e2e/internal/link"
)

// cables are the connections between the servers of a cluster, and from each engine to each
// server. Tests can set faults on them. If nil, the processes are connected directly.
type cables struct {
	routes  [clusterSize][clusterSize]*link.Link // from the server that dials to the other
	engines [clusterSize][clusterSize]*link.Link // from an engine to a server
}

// lay makes all cables.
func (c *cables) lay(t testing.TB, urls, routes []string) {
	t.Helper()
	if c == nil {
		return
	}
	lay := func(url string) *link.Link {
		l, err := link.New(fmt.Sprintf("127.0.0.1:%d", freePort(t)), strings.TrimPrefix(url, "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	for i := range clusterSize {
		for n := range clusterSize {
			c.engines[i][n] = lay(urls[n])
			if i != n {
				c.routes[i][n] = lay(routes[n])
			}
		}
	}
}

// routesOf returns the addresses at which a server reaches the others, and the settings that stop
// servers from announcing the addresses behind the cables. They also make a server soon close
// a connection to a client that does not read.
func (c *cables) routesOf(i int, direct []string) (routes []string, more string) {
	if c == nil {
		return direct, "}"
	}
	for _, l := range c.routes[i] {
		if l != nil {
			routes = append(routes, "nats://"+l.Addr())
		}
	}
	return routes, ", no_advertise: true, advertise: \"127.0.0.1:1\"}\nmax_pending: 4MB\nwrite_deadline: \"2s\""
}

// urlOf returns the URL at which an engine reaches the servers.
func (c *cables) urlOf(engine int, direct string) string {
	if c == nil {
		return direct
	}
	var urls []string
	for _, l := range c.engines[engine] {
		urls = append(urls, "nats://"+l.Addr())
	}
	return strings.Join(urls, ",")
}

// around returns the cables between a server and the others.
func (c *cables) around(server int) []*link.Link {
	var out []*link.Link
	for i := range clusterSize {
		out = append(out, c.routes[server][i], c.routes[i][server])
	}
	return slices.DeleteFunc(out, func(l *link.Link) bool { return l == nil })
}

// all returns every cable.
func (c *cables) all() []*link.Link {
	var out []*link.Link
	for i := range clusterSize {
		out = append(append(out, c.around(i)...), c.engines[i][:]...)
	}
	return out
}
