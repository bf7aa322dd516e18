//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// shortCampaign is the length of the campaign when it runs together with the other tests.
const shortCampaign = 25 * time.Second

// strikeOn is one planned kill or freeze of a process.
type strikeOn struct {
	victim string
	freeze bool
	after  time.Duration // since the beginning of the campaign
	lasts  time.Duration // until the process is started again or continues
}

// campaign is a cluster and its players. Each process is killed or frozen at random.
type campaign struct {
	*stage
	book    *notebook
	procs   map[string]*process
	names   []string // the names of procs, in the order of creation
	players []*process
}

// TestCampaign lets two runtimes propose and two approvers answer, with a NATS server, two engines
// and four workers. Any process is killed or frozen at any moment. In the end nothing is lost,
// nothing ran twice, and nothing ran without approval.
func TestCampaign(t *testing.T) {
	t.Parallel()
	c, length, plan := newCampaign(t)
	c.must(c.book.note(noted{Did: "campaign", Seed: seed, MS: length.Milliseconds()}))
	for _, s := range plan {
		c.must(c.book.note(noted{Did: s.plan(), On: s.victim, AfterMS: s.after.Milliseconds(), MS: s.lasts.Milliseconds()}))
	}
	c.strikes(plan)
	c.write(calmFile, "")
	for _, p := range c.players {
		if strings.HasPrefix(p.name, "runtime") {
			p.stop()
		}
	}
	c.answers = func(string) error { return nil } // the players answer
	c.finish()
	c.judge()
}

// newCampaign starts everything. The length comes from the environment and the strikes are drawn,
// or both come from the transcript that the environment names.
func newCampaign(t *testing.T) (*campaign, time.Duration, []strikeOn) {
	t.Helper()
	length := shortCampaign
	if text := os.Getenv(campaignVar); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", campaignVar, err)
		}
	}
	w := newWorld(t)
	w.write("policy.yaml", campaignPolicy())
	t.Cleanup(func() { keepTranscript(t, w.dir) })
	book, err := openNotebook(w.dir, "campaign")
	if err != nil {
		t.Fatal(err)
	}
	nats := w.external(0)
	nats.start()
	nats.up()
	c := &campaign{stage: &stage{world: w, workers: map[string]*process{}}, book: book, procs: map[string]*process{}}
	c.add(nats)
	for _, name := range []string{"engine-a", "engine-b"} {
		c.add(w.replica(name))
		c.procs[name].start()
	}
	c.open()
	for _, tool := range remote {
		c.add(c.workers[tool])
		second := w.worker("worker2-"+tool, tool)
		second.start()
		c.add(second)
	}
	for _, name := range []string{"runtime-a", "runtime-b", "alice", "bob"} {
		role := toolcall.RoleApprover
		if strings.HasPrefix(name, "runtime") {
			role = toolcall.RoleRuntime
		}
		p := w.process(name, playerSign, os.Args[0], playerArg, string(role), name, w.url, strconv.FormatUint(seed, 10), w.dir)
		p.start()
		c.players = append(c.players, p)
		c.add(p)
	}
	for _, name := range c.names {
		c.procs[name].up()
		c.procs[name].restarts = 1000 * (1 + int(length/time.Minute))
	}
	plan := c.plan(length)
	if path := os.Getenv(replayVar); path != "" {
		if length, plan, err = replayed(path); err != nil {
			t.Fatal(err)
		}
	}
	return c, length, plan
}

func (c *campaign) add(p *process) {
	c.procs[p.name] = p
	c.names = append(c.names, p.name)
}

// campaignPolicy asks two people about some calls, and lets approvals of others be remembered.
func campaignPolicy() string {
	var b strings.Builder
	b.WriteString("version: 1\nname: campaign\nrules:\n")
	for _, tool := range allTools {
		fmt.Fprintf(&b, `  - {name: forbidden-%[1]s, tool_name: %[1]s, behavior: deny, when: args.forbid}
  - {name: two-%[1]s, tool_name: %[1]s, behavior: ask, quorum: 2, when: args.ask && args.n %% 5 == 0}
  - {name: asked-%[1]s, tool_name: %[1]s, behavior: ask, remember: {ttl: 10m, max_uses: 3}, when: args.ask && args.n %% 5 != 0}
  - {name: allowed-%[1]s, tool_name: %[1]s, behavior: allow, when: "!args.ask && !args.forbid"}
`, tool)
	}
	return b.String()
}

// plan draws the strikes of a campaign. A process is struck again only after it has had time to
// come back.
func (c *campaign) plan(length time.Duration) []strikeOn {
	d := newDice("campaign", "plan")
	busy := map[string]time.Duration{}
	var out []strikeOn
	for at := d.between(500*ms, time.Second); at < length; at += d.between(100*ms, 700*ms) {
		s := strikeOn{victim: c.names[d.pick(len(c.names))], freeze: d.pick(5) < 2, after: at, lasts: d.between(0, 2500*ms)}
		if s.victim == "nats" {
			s.lasts /= 3
		}
		if busy[s.victim] > at {
			continue
		}
		busy[s.victim] = at + s.lasts + time.Second
		out = append(out, s)
	}
	return out
}

const (
	planKill   = "plan kill"
	planFreeze = "plan freeze"
)

func (s strikeOn) plan() string {
	if s.freeze {
		return planFreeze
	}
	return planKill
}

// replayed reads the length and the strikes from a transcript.
func replayed(path string) (length time.Duration, plan []strikeOn, err error) {
	notes, err := readNotes(path)
	if err != nil {
		return 0, nil, err
	}
	for _, n := range notes {
		switch n.Did {
		case "campaign":
			length = time.Duration(n.MS) * ms
		case planKill, planFreeze:
			plan = append(plan, strikeOn{victim: n.On, freeze: n.Did == planFreeze, after: time.Duration(n.AfterMS) * ms, lasts: time.Duration(n.MS) * ms})
		}
	}
	if length == 0 {
		return 0, nil, fmt.Errorf("%s is not the transcript of a campaign", path)
	}
	return length, plan, nil
}

// strikes carries out the plan, and leaves every process running.
func (c *campaign) strikes(plan []strikeOn) {
	c.t.Helper()
	type op struct {
		after time.Duration
		did   string
		on    string
		do    func(*process)
	}
	var ops []op
	for _, s := range plan {
		begin, end := op{s.after, "kill", s.victim, func(p *process) { p.kill() }}, op{s.after + s.lasts, "start", s.victim, (*process).start}
		if s.freeze {
			begin.did, begin.do = "freeze", func(p *process) { p.signal(syscall.SIGSTOP) }
			end.did, end.do = "thaw", func(p *process) { p.signal(syscall.SIGCONT) }
		}
		ops = append(ops, begin, end)
	}
	slices.SortStableFunc(ops, func(a, b op) int { return int(a.after - b.after) })
	for began := time.Now(); len(ops) > 0; ops = ops[1:] {
		<-time.After(time.Until(began.Add(ops[0].after)))
		c.mind()
		c.must(c.book.note(noted{Did: ops[0].did, On: ops[0].on}))
		ops[0].do(c.procs[ops[0].on])
	}
	for _, name := range c.names {
		c.procs[name].up()
	}
}

// judge checks the transcript against the journal.
func (c *campaign) judge() {
	c.t.Helper()
	notes, err := readTranscript(c.dir)
	c.must(err)
	turns, open, revoked := 0, map[string]bool{}, map[toolcall.StandingID]time.Time{}
	for _, n := range notes {
		switch {
		case n.Did == "begin":
			open[n.Who+" "+n.On] = true
		case n.Did == "propose":
			delete(open, n.Who+" "+n.On)
		case n.Did == "turn":
			turns++
		case n.Did == revokedRule && n.Error == "":
			revoked[toolcall.StandingID(n.On)] = n.At
		}
		for _, a := range n.Calls {
			c.acknowledged(n.Who+" "+n.Did, a.call())
		}
	}
	for what := range open {
		c.t.Errorf("%s was never answered", what)
	}
	c.verify(false)
	calls, approved, twice := c.obs.all(), 0, 0
	for _, call := range calls {
		for _, r := range c.obs.history(call.Key) {
			if took(r.Record, toolcall.CauseApprove) {
				approved++
				twice += c.agreed(r.Record.Call)
			}
			c.notRevoked(r, revoked)
		}
	}
	c.t.Logf("%d turns, %d calls, %d approved, %d of them by two people, %d rules revoked, %d acknowledgements found in the journal", turns, len(calls), approved, twice, len(revoked), c.tally.acked)
	if turns == 0 || approved == 0 {
		c.t.Error("no turn was completed or no call approved, so the campaign checks nothing")
	}
}

// agreed checks that as many people approved a call as its approval request requires, and returns
// 1 if that is more than one person.
func (c *campaign) agreed(call *toolcall.Call) int {
	c.t.Helper()
	by := map[string]bool{}
	for _, v := range call.Votes {
		if v.Kind == toolcall.ResponseApprove && (v.Digest == call.Digest || v.Made == call.Digest) {
			by[v.By.Name] = true
		}
	}
	want := max(1, call.Request.Requirement.Quorum)
	if len(by) < want {
		c.t.Errorf("%s: %d people approved it, want %d", describe(call), len(by), want)
	}
	return want - 1
}

// notRevoked checks that no call began under a standing approval after its
// revocation was acknowledged.
func (c *campaign) notRevoked(r toolcall.JournalEntry, revoked map[toolcall.StandingID]time.Time) {
	c.t.Helper()
	if !took(r.Record, toolcall.CauseStart) {
		return
	}
	for _, id := range r.Record.Call.Decision.StandingApprovals() {
		if at, ok := revoked[id]; ok && r.Time.After(at) {
			c.t.Errorf("%s: the call began %s after the rule %s was revoked", describe(r.Record.Call), r.Time.Sub(at), id)
		}
	}
}
