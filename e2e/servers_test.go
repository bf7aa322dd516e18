package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// clusterSize is the number of NATS servers and of engines in a cluster.
const clusterSize = 3

// servers is a stage on a cluster of real NATS servers.
type servers struct {
	*stage
	nats    []*process
	engines []*process
	cables  *cables // nil: the processes are connected directly
}

// newServers starts three NATS servers and three engines, whose durability is quorum.
func newServers(t testing.TB) *servers {
	t.Helper()
	c := &servers{stage: &stage{world: newWorld(t), workers: map[string]*process{}}}
	c.launch()
	return c
}

// launch starts the processes and connects the principals of the test.
func (s *servers) launch() {
	t, w := s.t, s.world
	t.Helper()
	var urls, routes []string
	for range clusterSize {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", freePort(t)))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", freePort(t)))
	}
	w.url = strings.Join(urls, ",")
	s.cables.lay(t, urls, routes)
	for i := range clusterSize {
		conf := fmt.Sprintf("nats-%d.conf", i)
		peers, more := s.cables.routesOf(i, routes)
		w.write(conf, fmt.Sprintf("server_name: nats-%d\nlisten: %q\njetstream: {store_dir: %q}\ncluster: {name: e2e, listen: %q, routes: [%s]%s\n",
			i, strings.TrimPrefix(urls[i], "nats://"), w.file(fmt.Sprintf("store-%d", i)), strings.TrimPrefix(routes[i], "nats://"), quotedList(peers), more))
		s.nats = append(s.nats, w.process(fmt.Sprintf("nats-%d", i), "Server is ready", bin.nats, "-c", w.file(conf)))
		s.nats[i].start()
	}
	for _, p := range s.nats {
		p.up()
	}
	for i := range clusterSize {
		p := w.serve(fmt.Sprintf("engine-%d", i), "--nats", s.cables.urlOf(i, w.url), "--durability", "quorum")
		p.argv[0] = cmp.Or(os.Getenv(oldVar), p.argv[0])
		p.start() // ends with the exit code for "try again later" while the servers elect a leader
		s.engines = append(s.engines, p)
	}
	for _, p := range s.engines {
		p.up()
	}
	s.open()
}

// leader returns the server that leads the journal.
func (s *servers) leader() *process {
	s.t.Helper()
	name := ""
	eventually(s.t, "the journal has a leader", func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
		defer cancel()
		all, err := journal.Replication(ctx, s.conn, space)
		if err != nil || all[0].Leader == "" {
			return false
		}
		name = all[0].Leader
		return true
	})
	for _, p := range s.nats {
		if p.name == name {
			return p
		}
	}
	s.t.Fatalf("no process is the leader %q", name)
	return nil
}

// whole waits until every server has every message of the space.
func (s *servers) whole() {
	s.t.Helper()
	eventually(s.t, "every server has every message", func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
		defer cancel()
		all, err := journal.Replication(ctx, s.conn, space)
		if err != nil || len(all) == 0 {
			return false
		}
		for _, r := range all {
			if r.Replicas != clusterSize || !r.Complete() {
				return false
			}
		}
		return true
	})
}

// probe is a client that proposes calls all the time and never retries. Every error fails the
// test.
type probe struct {
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	n       int
	slowest time.Duration
}

// probeLimit is how long a request of a probe may take: longer than in ordinary programs, because a
// busy machine also delays the election of a leader.
const probeLimit = time.Minute

// probe starts to propose calls of a tool that runs in the engines.
func (s *servers) probe(session string) *probe {
	p := &probe{stop: make(chan struct{})}
	cl := s.as(toolcall.RoleRuntime, "probe-"+session)
	p.done.Go(func() {
		tick := time.NewTicker(20 * ms)
		defer tick.Stop()
		for n := 0; !isClosed(p.stop); n++ {
			request := proposal(session, fmt.Sprintf("r%d", n), s.block("c", note, effect.Input{N: n}))
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
			reply, err := cl.Propose(ctx, request)
			cancel()
			took := time.Since(began)
			if err != nil {
				s.t.Errorf("a client saw an error after %s: %v", took, err)
				return
			}
			s.acknowledged("propose", reply.Calls...)
			p.mu.Lock()
			p.n++
			p.slowest = max(p.slowest, took)
			p.mu.Unlock()
			<-tick.C
		}
	})
	s.t.Cleanup(p.end)
	return p
}

// take returns the number of requests and the slowest one since the last take.
func (p *probe) take() (n int, slowest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, slowest = p.n, p.slowest
	p.n, p.slowest = 0, 0
	return n, slowest
}

// answered waits for the reply to a request.
func (p *probe) answered(t testing.TB) {
	t.Helper()
	eventually(t, "a reply", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.n > 0
	})
}

func (p *probe) end() {
	if !isClosed(p.stop) {
		close(p.stop)
	}
	p.done.Wait()
}

// TestRollingRestart restarts every server and every engine of a cluster, one after the other and
// under load, and kills the server that leads the journal. If the environment names the command of
// an earlier version, the engines are upgraded from it. No client sees an error, nothing is lost,
// and nothing runs twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	tr := c.begin("bot", 2)
	p := c.probe("steady")
	c.more(20)
	n, slowest := p.take()
	t.Logf("without restarts: %d requests, the slowest %s", n, slowest)
	for _, part := range [][]*process{c.nats, c.engines} {
		for _, victim := range part {
			victim.stop()
			c.more(5) // the other processes continue
			if victim.sign == servesSign {
				victim.argv[0] = bin.askance
			}
			victim.start()
			victim.up()
			c.whole()
			n, slowest := p.take()
			t.Logf("%s restarted: %d requests, the slowest %s", victim.name, n, slowest)
		}
	}
	for range c.leaderKills() {
		c.killLeader(p)
	}
	p.end()
	tr.end()
	c.finish()
	c.claims("quorum")
}

// leaderKillsVar is how often TestRollingRestart kills the leader; default once.
const leaderKillsVar = "ASKANCE_E2E_LEADER_KILLS"

func (s *servers) leaderKills() int {
	text := os.Getenv(leaderKillsVar)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", leaderKillsVar, err)
	}
	return n
}

// ownPause is what the engines and their clients may add to the time in which the servers elect
// another leader.
const ownPause = time.Second

// killLeader kills the server that leads the journal, and measures the time until there is another
// leader, an appended record, and a proposed call.
func (s *servers) killLeader(p *probe) {
	t := s.t
	t.Helper()
	elected := make(chan string, 100)
	for url := range strings.SplitSeq(s.url, ",") { // one of these connections ends with the leader
		nc, err := bus.Connect(t.Context(), url, bus.ConnectOptions{Principal: "listener"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+bus.StreamName(space), func(m *nats.Msg) { elected <- string(m.Data) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	victim := s.leader()
	busy := s.busy()
	p.take()
	victim.kill()
	began := time.Now()
	<-elected
	leader := time.Since(began)
	before := s.obs.count()
	eventually(t, "a record", func() bool { return s.obs.count() > before })
	record := time.Since(began)
	s.more(10)
	p.answered(t)
	n, slowest := p.take()
	t.Logf("%s, the leader, killed: another one after %s, a record %s later; %d requests, the slowest %s: %s later", victim.name,
		leader.Round(ms), (record - leader).Round(ms), n, slowest.Round(ms), (slowest - leader).Round(ms))
	if limit := leader + ownPause + slack + busy(); n == 0 || slowest > limit {
		t.Errorf("after the leader was killed, %d requests were answered and one took %s, want at most %s", n, slowest, limit)
	}
	victim.start()
	victim.up()
	s.whole()
}

// claims checks the durability that an engine reports.
func (s *servers) claims(want string) {
	s.t.Helper()
	info, err := s.operator.Info(s.t.Context())
	if err != nil || info.Durability != want || info.NotReady != "" {
		s.t.Errorf("info = %+v, %v, want %s and ready", info, err, want)
	}
}
