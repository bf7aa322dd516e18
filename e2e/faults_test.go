//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/e2e/internal/link"
	"github.com/askance-dev/askance/internal/lineartest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	shortFaults  = 2 // runs when TestFaults runs together with the other tests
	faultClients = 4
	faultSteps   = 14 // for each client, at most
	faultCalls   = 3  // in each run
	faultsBegin  = 3 * time.Second
	faultLasts   = 3 * time.Second // at most
)

// faultRuns is a cluster on cables, and what its clients saw.
type faultRuns struct {
	*servers
	disks   bool // the servers have small disks
	clients []faultClient
	total   map[lineartest.Seen]int
	did     map[string]int // faults by kind
	stories []string       // of all runs
}

// faultClient proposes as a runtime and responds as a person.
type faultClient struct{ runtime, person client }

// TestFaults sends requests to a cluster of three servers and three engines while some of them
// are killed, stopped, cut off, slowed down, out of disk space or overloaded. Each run has its own
// seed. One order of its requests must explain all replies to its clients. After all runs the
// journal and the tools must agree, as after other tests.
func TestFaults(t *testing.T) {
	t.Parallel()
	runs := shortFaults
	if text := os.Getenv(faultsVar); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", faultsVar, err)
		}
	}
	c := newFaultRuns(t)
	for i := range uint64(runs) {
		c.run(seed + i)
	}
	defer c.tellStories()
	c.approveOne()
	c.finish()
	t.Logf("%d runs: outcomes %v, faults %v", runs, c.total, c.did)
	approved, rejected := c.total[lineartest.Approved], c.total[lineartest.Rejected]
	if approved+rejected == 0 || runs > shortFaults && min(approved, rejected) == 0 { // a short test may have no approval
		t.Errorf("no call was decided, so the runs check nothing")
	}
}

// approveOne lets a call run: in a short series people may have rejected every call, and the proof
// needs one.
func (c *faultRuns) approveOne() {
	c.t.Helper()
	p := proposal("calm", "r", c.block("c", "note", effect.Input{Ask: true}))
	var asked *toolcall.Call
	for _, did := range []lineartest.Request{lineartest.Propose, lineartest.Approve} {
		eventually(c.t, string(did)+" a call after all faults", func() bool {
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			defer cancel()
			call, err := c.clients[0].send(ctx, did, p, asked)
			if err != nil {
				return did == lineartest.Approve && errors.Is(err, message.ErrFinished) // by the first try
			}
			c.acknowledged(string(did), call)
			asked = call
			return did == lineartest.Approve || call.State == message.ToolCallAsking
		})
	}
}

// tellStories writes what happened in all runs to a file if the test has failed.
func (c *faultRuns) tellStories() {
	if !c.t.Failed() {
		return
	}
	f, err := os.CreateTemp("", "askance-faults-*.txt") // the file must remain after the test
	if err != nil {
		c.t.Error(err)
		return
	}
	defer f.Close()
	for _, story := range c.stories {
		_, _ = f.WriteString(story) // the failure is already reported
	}
	c.t.Logf("the session of a call names its run; the stories of all runs are in %s", f.Name())
}

func newFaultRuns(t *testing.T) *faultRuns {
	t.Helper()
	w := newWorld(t)
	c := &faultRuns{
		servers: &servers{stage: &stage{world: w, workers: map[string]*process{}}, cables: new(cables)},
		disks:   smallDisks(w), total: map[lineartest.Seen]int{}, did: map[string]int{},
	}
	c.launch()
	c.obs.allowVoid(c.disks)
	for _, p := range c.procs {
		p.restarts = 1 << 20 // without a quorum a process asks again and again to be restarted
	}
	for i := range faultClients {
		c.clients = append(c.clients, faultClient{c.world.bot(), c.as(toolcall.RoleApprover, fmt.Sprint("person-", i))})
	}
	return c
}

// faultRun is one run.
type faultRun struct {
	*faultRuns
	lineartest.History
	seed  uint64
	began time.Time
}

func (r *faultRun) dice(actor string) *dice { return seededDice(r.seed, "faults", actor) }

// session returns the session of all calls of the run.
func (r *faultRun) session() string { return fmt.Sprint("run-", r.seed) }

// run carries out one run, and checks what its clients saw.
func (c *faultRuns) run(seed uint64) {
	c.t.Helper()
	r := &faultRun{faultRuns: c, seed: seed, began: time.Now()}
	exclusive := map[toolcall.Key]bool{}
	for n := range faultCalls {
		block, k := r.call(n)
		exclusive[k] = !idempotent(block.Name)
	}
	r.Exclusive = func(k toolcall.Key) bool { return exclusive[k] }
	defer func() {
		if c.t.Failed() {
			c.t.Logf("to repeat: make faults SEED=%d\n%s", seed, r.Transcript())
		}
	}()
	plan := r.plan()
	var clients sync.WaitGroup
	for id := range c.clients {
		clients.Go(func() { r.client(id) })
	}
	r.strike(plan)
	clients.Wait()
	c.whole()
	c.ready()
	r.readAll()
	r.Count(c.total)
	c.stories = append(c.stories, fmt.Sprintf("run %d began at %s\n%s\n", seed, r.began.Format(time.StampMicro), r.Transcript()))
	if err := r.Check(); err != nil {
		c.t.Fatal(err)
	}
}

// client sends each request once; the library sends it again if it is not answered.
func (r *faultRun) client(id int) {
	d, c := r.dice(fmt.Sprint("client ", id)), r.clients[id]
	seen := map[toolcall.Key]*toolcall.Call{}
	for n := 0; n < faultSteps && time.Since(r.began) < faultsBegin+faultLasts; n++ {
		<-time.After(d.between(0, 400*ms))
		block, k := r.call(d.pick(faultCalls))
		did := []lineartest.Request{lineartest.Propose, lineartest.Propose, lineartest.Approve, lineartest.Reject}[d.pick(4)]
		if did != lineartest.Propose && seen[k] == nil {
			did = lineartest.Propose // a response needs the digest
		}
		ctx, cancel := context.WithTimeout(context.Background(), d.between(200*ms, 3*time.Second))
		began := r.Begin()
		call, err := c.send(ctx, did, proposal(r.session(), string(k.Reply), block), seen[k])
		cancel()
		saw := lineartest.Outcome(call, err)
		r.End(id, did, k, saw, began)
		if err == nil {
			r.acknowledged(string(did), call)
		}
		if did == lineartest.Propose && err == nil {
			seen[k] = call
		}
		why := ""
		if err != nil {
			why = ": " + err.Error()
		}
		r.tell("client %d: %s %s: %s%s", id, did, block.ID, saw, why)
	}
}

func (c faultClient) send(ctx context.Context, did lineartest.Request, r toolcall.ProposeRequest, asked *toolcall.Call) (*toolcall.Call, error) {
	if did == lineartest.Propose {
		reply, err := c.runtime.Propose(ctx, r)
		if err != nil {
			return nil, err
		}
		return reply.Calls[0], nil
	}
	kind := toolcall.ResponseApprove
	if did == lineartest.Reject {
		kind = toolcall.ResponseReject
	}
	return c.person.SubmitResponse(ctx, toolcall.Response{Key: asked.Key, Digest: asked.Digest, Kind: kind})
}

// ready waits until an engine reports that the journal accepts calls.
func (c *faultRuns) ready() {
	c.t.Helper()
	eventually(c.t, "an engine is ready", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		defer cancel()
		info, err := c.operator.Info(ctx)
		return err == nil && info.NotReady == ""
	})
}

// call returns one of the calls of the run, the same for every client. It is the only call of its
// reply, so it does not wait for others.
func (r *faultRun) call(n int) (message.ToolCallBlock, toolcall.Key) {
	d := r.dice(fmt.Sprint("call ", n))
	k := key(r.session(), fmt.Sprint("r", n), fmt.Sprint("c", n))
	return r.block(fmt.Sprint("c", n), d.tool(), effect.Input{N: n, Ask: true, Before: int64(d.pick(15)), After: int64(d.pick(15))}), k
}

// readAll reads the journal at the end of the run.
func (r *faultRun) readAll() {
	r.t.Helper()
	for n := range faultCalls {
		_, k := r.call(n)
		began := r.Begin()
		entry, err := r.records.Last(r.t.Context(), k)
		saw := lineartest.Absent
		if err == nil {
			saw = lineartest.Of(entry.Record.Call)
		}
		r.End(len(r.clients), lineartest.Read, k, saw, began)
	}
}

// tell notes what happened, with the time.
func (r *faultRun) tell(format string, args ...any) {
	r.Tell("%6.3fs  %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// fault is one planned fault.
type fault struct {
	kind         string
	on           int // the number of the server or engine
	after, lasts time.Duration
}

// plan draws the faults of a run. Faults of one process do not overlap.
func (r *faultRun) plan() []fault {
	d := r.dice("plan")
	names := slices.Sorted(maps.Keys(faultKinds))
	busy := map[string]time.Duration{}
	var out []fault
	for at := d.between(0, 500*ms); at < faultsBegin; at += d.between(100*ms, 1200*ms) {
		f := fault{kind: names[d.pick(len(names))], after: at, lasts: d.between(100*ms, faultLasts)}
		if f.on = d.pick(clusterSize); strings.HasSuffix(f.kind, "worker") {
			f.on %= len(remote)
		}
		if who := f.who(); busy[who] <= at {
			busy[who] = at + f.lasts
			out = append(out, f)
		}
	}
	return out
}

// who returns the name of what is struck.
func (f fault) who() string { return fmt.Sprintf(faultKinds[f.kind].who, f.on) }

// strike carries out the plan, and leaves every process running without faults.
func (r *faultRun) strike(plan []fault) {
	r.t.Helper()
	type op struct {
		after time.Duration
		what  string
		do    func()
	}
	var ops []op
	for _, f := range plan {
		var end func()
		ops = append(ops,
			op{f.after, fmt.Sprintf("%s %s for %s", f.kind, f.who(), f.lasts.Round(ms)), func() { end = faultKinds[f.kind].begin(r, f.on) }},
			op{f.after + f.lasts, fmt.Sprintf("end of %s %s", f.kind, f.who()), func() { end() }})
		r.did[f.kind]++
	}
	slices.SortStableFunc(ops, func(a, b op) int { return int(a.after - b.after) })
	for _, o := range ops {
		<-time.After(time.Until(r.began.Add(o.after)))
		r.mind()
		r.tell("%s", o.what)
		o.do()
	}
	for _, l := range r.cables.all() {
		l.Set(link.Fault{})
	}
	for _, p := range r.procs {
		p.up()
	}
}
