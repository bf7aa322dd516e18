package engine_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// standingApprovalModel computes what the terms of the answers permit, in parallel with two
// engines on one journal.
type standingApprovalModel struct {
	t                 *rapid.T
	engines           []*engine.Engine
	standingApprovals map[toolcall.StandingID]*modelStandingApproval
	calls             []message.ToolCallBlock
	n                 int
}

type modelStandingApproval struct {
	uses, left int // of the budget, in cents
	by         map[message.CallID]bool
	revoked    bool
}

func (m *standingApprovalModel) as(role toolcall.Role, name string) *engine.Port {
	i := rapid.IntRange(0, len(m.engines)-1).Draw(m.t, "engine")
	return m.engines[i].As(toolcall.Principal{Role: role, Name: name})
}

func (m *standingApprovalModel) propose(b message.ToolCallBlock) *toolcall.Call {
	out, err := m.as(toolcall.RoleRuntime, "bot").Propose(m.t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{b}})
	if err != nil {
		m.t.Fatal(err)
	}
	c := out.Calls[0]
	if c.Decision == nil || c.Decision.Standing == "" {
		return c
	}
	l := m.standingApprovals[c.Decision.Standing]
	if l == nil {
		m.t.Fatalf("%s was allowed by %s, which no person granted", c.Call, c.Decision.Standing)
	}
	if l.by[c.Call] {
		return c // proposed again
	}
	l.by[c.Call] = true
	l.uses--
	cents, err := strconv.Atoi(c.Input[len(`{"cents":`) : len(c.Input)-1])
	if l.left -= cents; err != nil || l.uses < 0 || l.left < 0 || l.revoked {
		m.t.Fatalf("%s with %s was allowed: %d uses and %d cents were left, revoked %v", c.Call, c.Input, l.uses+1, l.left+cents, l.revoked)
	}
	return c
}

// For any order of answers, proposals, repeated proposals and revocations, on any engine, no
// standing approval allows more than its terms or anything after its end.
func TestStandingApprovalsAllowNoMoreThanTheySay(t *testing.T) {
	tool := engine.Tool{Tool: permission.Tool{Name: "pay"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "ask", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Remember: &permission.Remember{TTL: time.Hour, Uses: 4},
	}}}, permission.Options{Tools: []permission.Tool{tool.Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &standingApprovalModel{t: t, standingApprovals: map[toolcall.StandingID]*modelStandingApproval{}}
		journal := engine.NewMemory()
		for range 2 {
			e, err := engine.New("sp", journal, policy, []engine.Tool{tool})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			m.engines = append(m.engines, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"propose": func(t *rapid.T) {
				m.t, m.n = t, m.n+1
				b := message.ToolCallBlock{ID: message.CallID(fmt.Sprint("c", m.n)), Name: "pay", Input: fmt.Sprintf(`{"cents":%d}`, rapid.IntRange(0, 40).Draw(t, "cents"))}
				m.calls = append(m.calls, b)
				m.answer(m.propose(b))
			},
			"propose again": func(t *rapid.T) {
				if m.t = t; len(m.calls) > 0 {
					m.propose(rapid.SampledFrom(m.calls).Draw(t, "call"))
				}
			},
			"revoke": func(t *rapid.T) {
				m.t = t
				for id, l := range m.standingApprovals {
					if _, err := m.as(toolcall.RoleOperator, "olga").RevokeStandingApproval(t.Context(), toolcall.RevokeStandingApprovalRequest{ID: id}); err == nil {
						l.revoked = true
					}
					return
				}
			},
		})
	})
}

// answer approves a call that asks, half of the time with something to remember.
func (m *standingApprovalModel) answer(c *toolcall.Call) {
	if c.State != message.ToolCallAsking || rapid.Bool().Draw(m.t, "leave it open") {
		return
	}
	resp := toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}
	uses, cents := rapid.IntRange(1, 4).Draw(m.t, "uses"), rapid.IntRange(0, 100).Draw(m.t, "budget")
	if rapid.Bool().Draw(m.t, "remember") {
		resp.Remember = &toolcall.StandingTerms{Scope: toolcall.ScopeSpace, Uses: uses, Budget: &toolcall.Budget{Path: "args.cents", Limit: strconv.Itoa(cents)}}
	}
	after, err := m.as(toolcall.RoleApprover, "ann").SubmitResponse(m.t.Context(), resp)
	if err != nil {
		m.t.Fatal(err)
	}
	if (len(after.StandingApprovals) == 1) != (resp.Remember != nil) {
		m.t.Fatalf("the answer %+v creates %+v", resp.Remember, after.StandingApprovals)
	}
	for _, s := range after.StandingApprovals {
		m.standingApprovals[s.ID] = &modelStandingApproval{uses: uses, left: cents, by: map[message.CallID]bool{}}
	}
}
