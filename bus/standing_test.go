package bus_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Standing approvals end to end over hours of fake time: people list and show them, the clock ends
// them, and their author revokes them.
func TestStandingApprovalsOverNATS(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		sp := testSpace()
		sp.rules = sp.rules[:1] // nothing is said about pay: it asks, and offers a rule
		w.engineOf(sp, bus.ServiceOptions{})
		bot, ann, bob := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleApprover, "bob")
		olga, eve := w.client(toolcall.RoleOperator, "olga"), w.client(toolcall.RoleAuditor, "eve")
		give := func(id string, terms toolcall.StandingTerms) toolcall.StandingID {
			t.Helper()
			q := propose(t, bot, toolCall(id, pay, `{}`))[0]
			c, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: q.Key, Kind: toolcall.ResponseApprove, Digest: q.Digest, Remember: &terms})
			if err != nil || len(c.StandingApprovals) != 1 {
				t.Fatalf("approve %s: %+v, %v", q.State, c, err)
			}
			return c.StandingApprovals[0].ID
		}
		by := func(id string) toolcall.StandingID {
			t.Helper()
			return propose(t, bot, toolCall(id, pay, `{}`))[0].Decision.Standing
		}

		short := give("c1", toolcall.StandingTerms{Until: time.Now().Add(6 * time.Minute), Uses: 10})
		time.Sleep(5 * time.Minute)
		if got := by("c2"); got != short {
			t.Errorf("after 5 minutes it is allowed by %q", got)
		}
		time.Sleep(time.Minute)
		if got := by("c3"); got != "" {
			t.Errorf("after 6 minutes it is allowed by %q", got)
		}

		long := give("c4", toolcall.StandingTerms{})
		for name, c := range map[string]*bus.Client{"approver": bob, "operator": olga, "auditor": eve} {
			list, err := c.StandingApprovals(t.Context(), toolcall.StandingApprovalsRequest{All: true})
			if err != nil || len(list.StandingApprovals) != 2 {
				t.Errorf("%s lists %+v, %v", name, list.StandingApprovals, err)
			}
			show, err := c.ShowStandingApproval(t.Context(), toolcall.ShowStandingApprovalRequest{ID: short})
			if err != nil || len(show.Uses) != 1 || show.Uses[0].Call.Call != "c2" {
				t.Errorf("%s is shown %+v, %v", name, show, err)
			}
		}
		for name, c := range map[string]*bus.Client{"approver": bob, "operator": olga, "auditor": eve} {
			x, err := c.Explain(t.Context(), toolcall.ExplainRequest{Key: bustest.CallKey("c2")})
			if err != nil || len(x.StandingApprovals) != 1 || x.StandingApprovals[0].Standing.ID != short || x.StandingApprovals[0].State != toolcall.StandingExpired || len(x.Trace) == 0 {
				t.Errorf("to %s it is explained as %+v, %v", name, x, err)
			}
		}
		if _, err := bot.StandingApprovals(t.Context(), toolcall.StandingApprovalsRequest{}); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("a runtime lists: %v", err)
		}
		for name, c := range map[string]*bus.Client{"another approver": bob, "auditor": eve, "runtime": bot} {
			if _, err := c.RevokeStandingApproval(t.Context(), toolcall.RevokeStandingApprovalRequest{ID: long}); !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%s revokes: %v", name, err)
			}
		}
		if got := by("c5"); got != long {
			t.Errorf("it is allowed by %q, want %s", got, long)
		}
		if s, err := ann.RevokeStandingApproval(t.Context(), toolcall.RevokeStandingApprovalRequest{ID: long}); err != nil || s.Revoked == nil {
			t.Errorf("revoked: %+v, %v", s, err)
		}
		if s, err := olga.RevokeStandingApproval(t.Context(), toolcall.RevokeStandingApprovalRequest{ID: long}); err != nil || s.Revoked.By.Name != "ann" {
			t.Errorf("revoked again: %+v, %v", s, err)
		}
		if got := by("c6"); got != "" {
			t.Errorf("after the revocation it is allowed by %q", got)
		}
	})
}
