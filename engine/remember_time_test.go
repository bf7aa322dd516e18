package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// memo is what an approver remembered, and what the test knows about it.
type memo struct {
	terms   toolcall.StandingTerms
	from    payment
	until   time.Time
	revoked bool // a revocation has returned
	uses    int
}

// payment is a call as its runtime proposed it.
type payment struct {
	runtime, agent, to string
	key                toolcall.Key
}

// covers reports whether a later call has what the scope and the rule demand.
func (m *memo) covers(p payment) bool {
	same := map[toolcall.StandingScope]bool{
		toolcall.ScopeCallLike: p.key.Session == m.from.key.Session,
		toolcall.ScopeSession:  p.key.Session == m.from.key.Session,
		toolcall.ScopeAgent:    p.runtime == m.from.runtime && p.agent == m.from.agent,
		toolcall.ScopeUser:     p.runtime == m.from.runtime,
		toolcall.ScopeSpace:    true,
	}
	return same[m.terms.Scope] && p.to == m.from.to
}

// notebook is a space with two engines in which people remember approvals.
type notebook struct {
	*rapid.T
	journal *engine.Memory
	engines []*engine.Engine
	policy  engine.Policy
	ttl     time.Duration
	most    int // uses, by the rule; 0 means no limit
	n       int

	mu    sync.Mutex // guards all below
	memos map[toolcall.StandingID]*memo
	open  []payment // allowed by a standing approval and not begun
	early []func()  // notes uses of standing approvals whose response had not returned
}

// TestStandingApprovalsOverTime: calls at once on two engines, restarts, ends and revocations: no call
// is allowed, and none begins, outside of what its approver remembered.
func TestStandingApprovalsOverTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := newNotebook(rt)
			defer func() {
				for _, e := range m.engines {
					_ = e.Close() // its error does not matter to a test
				}
			}()
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				m.step()
			}
		})
	})
}

func newNotebook(rt *rapid.T) *notebook {
	m := &notebook{T: rt, journal: engine.NewMemory(), memos: map[toolcall.StandingID]*memo{}, ttl: time.Duration(rapid.IntRange(1, 4).Draw(rt, "ttl")) * 2 * time.Minute}
	m.most = rapid.SampledFrom([]int{0, 3}).Draw(rt, "uses")
	var err error
	m.policy, err = permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "ask", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Remember: &permission.Remember{TTL: m.ttl, Uses: m.most, Scope: []string{"args.to"}},
	}}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		rt.Fatal(err)
	}
	m.start()
	m.start()
	return m
}

func (m *notebook) start() {
	tool := engine.Tool{Tool: permission.Tool{Name: "pay"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	e, err := engine.New("sp", m.journal, m.policy, []engine.Tool{tool})
	if err != nil {
		m.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		m.Fatal(err)
	}
	m.engines = append(m.engines, e)
}

func (m *notebook) as(role toolcall.Role, name string) *engine.Port {
	return m.engines[rapid.IntRange(0, 1).Draw(m.T, "engine")].As(toolcall.Principal{Role: role, Name: name})
}

func (m *notebook) step() {
	switch rapid.IntRange(0, 7).Draw(m.T, "step") {
	case 0:
		time.Sleep(time.Duration(rapid.IntRange(0, 6).Draw(m.T, "minutes"))*time.Minute + time.Duration(rapid.IntRange(0, 2).Draw(m.T, "late"))*time.Nanosecond)
		if rapid.Bool().Draw(m.T, "settle") {
			synctest.Wait()
		}
	case 1:
		i := rapid.IntRange(0, 1).Draw(m.T, "stops")
		if err := m.engines[i].Close(); err != nil {
			m.Fatal(err)
		}
		m.engines = append(m.engines[:i], m.engines[i+1:]...)
		m.start()
	case 2, 3:
		m.begin()
	default:
		var each []func()
		for range rapid.IntRange(1, 3).Draw(m.T, "at once") {
			each = append(each, m.propose())
		}
		if rapid.IntRange(0, 2).Draw(m.T, "revokes") == 0 {
			each = append(each, m.revoke())
		}
		var all sync.WaitGroup
		for _, f := range each {
			all.Go(f)
		}
		all.Wait()
		early := m.early
		m.early = nil
		for _, note := range early {
			note()
		}
		if len(m.early) > 0 {
			m.Fatal("a standing approval that no response created has allowed a call")
		}
	}
}

// propose returns a function that proposes a call and, if a person is asked, may approve it.
func (m *notebook) propose() func() {
	m.n++
	p := payment{runtime: rapid.SampledFrom([]string{"bot", "eve"}).Draw(m.T, "runtime"), agent: rapid.SampledFrom([]string{"", "a", "b"}).Draw(m.T, "agent"), to: rapid.SampledFrom([]string{"x", "y"}).Draw(m.T, "to")}
	session := message.SessionID(p.runtime + rapid.SampledFrom([]string{"1", "2"}).Draw(m.T, "session"))
	p.key = toolcall.Key{Space: "sp", Session: session, Reply: "r", Call: message.CallID(fmt.Sprint("c", m.n))}
	port := m.as(toolcall.RoleRuntime, p.runtime)
	resp := toolcall.Response{Kind: toolcall.ResponseApprove}
	answers := rapid.Bool().Draw(m.T, "answers")
	if rapid.Bool().Draw(m.T, "remembers") {
		scopes := []toolcall.StandingScope{toolcall.ScopeCallLike, toolcall.ScopeSession, toolcall.ScopeUser, toolcall.ScopeSpace}
		if p.agent != "" {
			scopes = append(scopes, toolcall.ScopeAgent)
		}
		resp.Remember = &toolcall.StandingTerms{Scope: rapid.SampledFrom(scopes).Draw(m.T, "scope"), Uses: rapid.IntRange(0, 2).Draw(m.T, "uses")}
		if rapid.Bool().Draw(m.T, "until") {
			resp.Remember.Until = time.Now().Add(min(m.ttl, time.Duration(rapid.IntRange(1, 3).Draw(m.T, "minutes"))*time.Minute))
		}
	}
	ann := m.as(toolcall.RoleApprover, "ann")
	known := map[toolcall.StandingID]bool{} // what was revoked before the proposal
	for id, memo := range m.memos {
		known[id] = memo.revoked
	}
	return func() {
		began := time.Now()
		out, err := port.Propose(context.Background(), toolcall.ProposeRequest{Session: p.key.Session, Reply: "r", Agent: p.agent,
			Calls: []message.ToolCallBlock{{ID: p.key.Call, Name: "pay", Input: fmt.Sprintf(`{"to":%q}`, p.to)}}})
		if err != nil {
			m.Error(err)
			return
		}
		c := out.Calls[0]
		switch {
		case c.Decision.Standing != "":
			m.noteUse(p, c, known, began)
		case c.State == message.ToolCallAsking && answers:
			resp.Key, resp.Digest = c.Key, c.Digest
			after, err := ann.SubmitResponse(context.Background(), resp)
			if err != nil {
				m.Error(err)
				return
			}
			m.noteGrant(p, after, resp)
		}
	}
}

func (m *notebook) noteGrant(p payment, c *toolcall.Call, resp toolcall.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range c.StandingApprovals {
		m.memos[s.ID] = &memo{terms: *resp.Remember, from: p, until: time.Now().Add(m.ttl)}
		m.memos[s.ID].terms.Uses = cmp.Or(resp.Remember.Uses, m.most)
		if u := resp.Remember.Until; !u.IsZero() && u.Before(m.memos[s.ID].until) {
			m.memos[s.ID].until = u
		}
	}
}

func (m *notebook) noteUse(p payment, c *toolcall.Call, revoked map[toolcall.StandingID]bool, began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo := m.memos[c.Decision.Standing]
	if memo == nil {
		m.early = append(m.early, func() { m.noteUse(p, c, revoked, began) }) // granted at the same time
		return
	}
	memo.uses++
	switch {
	case c.State != message.ToolCallSubmitted && c.State != message.ToolCallAllowed:
	case revoked[c.Decision.Standing], !began.Before(memo.until), !memo.covers(p), memo.terms.Uses > 0 && memo.uses > memo.terms.Uses:
		m.Errorf("%+v was allowed by %+v", p, memo)
	}
	m.open = append(m.open, p)
}

// revoke returns a function that revokes a standing approval.
func (m *notebook) revoke() func() {
	var active []toolcall.StandingID
	for _, id := range slices.Sorted(maps.Keys(m.memos)) {
		if !m.memos[id].revoked {
			active = append(active, id)
		}
	}
	if len(active) == 0 {
		return func() {}
	}
	id, olga := rapid.SampledFrom(active).Draw(m.T, "revoked"), m.as(toolcall.RoleOperator, "olga")
	return func() {
		_, err := olga.RevokeStandingApproval(context.Background(), toolcall.RevokeStandingApprovalRequest{ID: id})
		m.mu.Lock()
		defer m.mu.Unlock()
		m.memos[id].revoked = err == nil
	}
}

// begin begins a call that a standing approval allowed.
func (m *notebook) begin() {
	if len(m.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(m.T, "begins")
	p := m.open[i]
	c, err := m.as(toolcall.RoleRuntime, p.runtime).Begin(context.Background(), toolcall.BeginRequest{Key: p.key, Claim: "x"})
	if err != nil {
		return
	}
	m.open = append(m.open[:i], m.open[i+1:]...)
	memo := m.memos[c.Decision.Standing]
	if memo != nil && (memo.revoked || !time.Now().Before(memo.until)) {
		m.Fatalf("%+v begins at %s after the end of %+v", p, time.Now(), memo)
	}
}
