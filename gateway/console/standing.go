package console

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// standingApprovalView is a standing approval on its page.
type standingApprovalView struct {
	*toolcall.StandingApproval
	State  toolcall.StandingState
	Rules  []string
	Same   []string
	Left   string
	From   string
	By     string
	Revoke bool // this person may revoke it
}

// rules is the page of standing approvals.
func (in *Console) standing(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "standing", "Standing approvals – askance")
	c, err := p.Reader()
	if err != nil {
		return err
	}
	all := r.URL.Query().Get("all") != ""
	page, err := c.StandingApprovals(r.Context(), toolcall.StandingApprovalsRequest{V: 1, All: all})
	if err != nil {
		return in.fail(w, s, err)
	}
	out := make([]standingApprovalView, 0, len(page.StandingApprovals))
	for _, l := range page.StandingApprovals {
		out = append(out, standingApprovalOf(l, p, s))
	}
	return in.write(w, http.StatusOK, "standing", struct {
		shell
		All               bool
		More              bool
		StandingApprovals []standingApprovalView
	}{s, all, page.Next != "", out})
}

func standingApprovalOf(l *toolcall.StandingApproval, p *gateway.Peer, s shell) standingApprovalView {
	v := standingApprovalView{StandingApproval: l, State: l.State(s.Now), Left: l.Text(), From: address(l.From, nil)}
	for _, rule := range l.Terms.Rules {
		v.Rules = append(v.Rules, asked.RuleText(rule))
	}
	for _, path := range slices.Sorted(maps.Keys(l.Same)) {
		v.Same = append(v.Same, path+" is "+l.Same[path])
	}
	mine := s.Operator
	for i, g := range l.GrantedBy {
		if i > 0 {
			v.By += ", "
		}
		v.By += asked.Who(g.By)
		mine = mine || s.Approver && g.By.Name == p.Name
	}
	v.Revoke = mine && v.State == toolcall.StandingActive
	return v
}

// revokeRule revokes a standing approval.
func (in *Console) revokeRule(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if _, err := readForm(r); err != nil {
		return err
	}
	s := in.shell(r, p, "standing", "Standing approvals – askance")
	c, err := p.As(manager(p))
	if err != nil {
		return in.fail(w, s, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	if _, err := c.RevokeStandingApproval(ctx, toolcall.RevokeStandingApprovalRequest{V: 1, ID: toolcall.StandingID(r.PostForm.Get("standing_approval"))}); err != nil {
		return in.fail(w, s, err)
	}
	http.Redirect(w, r, pathStanding+"?all=1", http.StatusSeeOther)
	return nil
}

// explanation is how the current policy decides a call. Problem says why there is
// none.
type explanation struct {
	Problem           string                    `json:"-"`
	StandingApprovals []toolcall.StandingStatus `json:"-"` // on which the recorded decision relies

	Decision string `json:"decision"`
	Mode     string `json:"mode"`
	Rule     string `json:"rule"`
	Source   string `json:"source"`
	Step     string `json:"step"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	NearMiss string `json:"near_miss"`
	// Suggested are the rules that the approval request offers to remember.
	Suggested []message.PermissionRule `json:"suggested_rules"`
	Trace     []traced                 `json:"trace"`
	Shell     []piece                  `json:"shell"`
}

type traced struct {
	Rule     string    `json:"rule"`
	Source   string    `json:"source"`
	Behavior string    `json:"behavior"`
	Matched  bool      `json:"matched"`
	Failed   bool      `json:"failed"`
	Reached  bool      `json:"reached"`
	Because  *because  `json:"because"`
	All      []because `json:"conjuncts"`
}

type because struct {
	Expr     string         `json:"expr"`
	Value    *bool          `json:"value"`
	Error    string         `json:"error"`
	Operands map[string]any `json:"operands"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
}

type piece struct {
	Text    string `json:"text"`
	Covered bool   `json:"covered"`
	Why     string `json:"why"`
}

// Offers words the suggested rules.
func (e *explanation) Offers() []string {
	out := make([]string, len(e.Suggested))
	for i, r := range e.Suggested {
		out[i] = asked.RuleText(r)
	}
	return out
}

// explain asks the engine, which leaves out redacted values.
func explain(ctx context.Context, client engine.Client, c *toolcall.Call) *explanation {
	out, err := client.Explain(ctx, toolcall.ExplainRequest{V: 1, Key: c.Key})
	switch {
	case err != nil:
		return &explanation{Problem: message.AsError("explain", err).What}
	case out.Withheld != "":
		return &explanation{Problem: "No explanation: " + out.Withheld}
	case len(out.Trace) == 0:
		return &explanation{Problem: "No explanation: this server has no policy that can explain a decision."}
	}
	e := &explanation{StandingApprovals: out.StandingApprovals}
	if err := strictjson.UnmarshalOpen(out.Trace, e); err != nil {
		return &explanation{Problem: "No explanation: the server returned one that this page cannot read."}
	}
	return e
}
