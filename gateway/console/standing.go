package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

type standingRow struct {
	*toolcall.StandingApproval
	State  toolcall.StandingState
	Rules  []string
	Same   []string
	Scope  string
	Limits string // session, agent or runtime of the scope
	Uses   int    // left; -1: not counted
	Share  int    // percent of the uses that are left
	Last   time.Time
	From   string
	Href   string
	By     string
	Revoke bool // this person can revoke it
}

type standingView struct {
	shell
	Ended  bool
	Tool   string
	Rows   []standingRow
	Next   string
	One    *standingRow // the one whose calls are shown
	Calls  []standingCall
	Active string // addresses
	Past   string
}

// standingCall is a call that a standing approval allowed.
type standingCall struct {
	Href, Name, Amount string
	At                 time.Time
}

func (in *Console) standing(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	q := r.URL.Query()
	v := standingView{shell: in.shell(r, p, "standing", "Standing approvals – askance"), Ended: q.Get("all") != "", Tool: strings.TrimSpace(q.Get("tool"))}
	err := readPage(r, p, func(ctx context.Context, c engine.Client) error { return v.read(ctx, c, p, q) })
	return in.writeOrFail(w, "standing", v.shell, v, err)
}

func (v *standingView) read(ctx context.Context, c engine.Client, p *gateway.Peer, q url.Values) error {
	link := func(all bool, after toolcall.StandingID) string {
		to := setParams(url.Values{}, "tool", v.Tool, "after", string(after))
		if all {
			to.Set("all", "1")
		}
		return withParams(pathStanding, to)
	}
	v.Active, v.Past = link(false, ""), link(true, "")
	page, err := c.StandingApprovals(ctx, toolcall.StandingApprovalsRequest{V: 1, All: v.Ended, Tool: v.Tool, After: toolcall.StandingID(q.Get("after"))})
	if err != nil {
		return err
	}
	for _, s := range page.StandingApprovals {
		if row := standingRowOf(s, p, v.shell); v.Ended == (row.State != toolcall.StandingActive) {
			v.Rows = append(v.Rows, row)
		}
	}
	slices.SortStableFunc(v.Rows, func(a, b standingRow) int { return b.GrantedAt.Compare(a.GrantedAt) })
	if page.Next != "" {
		v.Next = link(v.Ended, page.Next)
	}
	id := toolcall.StandingID(q.Get("id"))
	if id == "" {
		return nil
	}
	show, err := c.ShowStandingApproval(ctx, toolcall.ShowStandingApprovalRequest{V: 1, ID: id})
	if err != nil {
		return err
	}
	one := standingRowOf(show.Standing, p, v.shell)
	v.One = &one
	for _, u := range slices.Backward(show.Uses) {
		v.Calls = append(v.Calls, standingCall{address(u.Call, nil), string(u.Call.Session) + " / " + string(u.Call.Reply) + " / " + string(u.Call.Call), u.Amount, u.At})
	}
	return nil
}

func standingRowOf(sa *toolcall.StandingApproval, p *gateway.Peer, s shell) standingRow {
	r := standingRow{StandingApproval: sa, State: sa.State(s.Now), Rules: ruleTexts(sa.Terms.Rules), Scope: asked.Scope(sa.Terms.Scope), From: address(sa.From, nil), Uses: -1, Href: pathStanding + "?" + url.Values{"id": {string(sa.ID)}}.Encode()}
	for _, path := range slices.Sorted(maps.Keys(sa.Same)) {
		r.Same = append(r.Same, path+" is "+sa.Same[path])
	}
	switch sa.Terms.Scope {
	case toolcall.ScopeSession, toolcall.ScopeCallLike:
		r.Limits = "session " + string(sa.Session)
	case toolcall.ScopeAgent:
		r.Limits = "agent " + sa.Agent + " of " + sa.User
	case toolcall.ScopeUser:
		r.Limits = "runtime " + sa.User
	case toolcall.ScopeSpace:
	}
	if sa.Counted() {
		r.Uses = sa.UsesLeft()
		r.Share = 100 * r.Uses / sa.Terms.Uses
	}
	if sa.Use != nil {
		r.Last = sa.Use.At
	}
	mine := s.Operator
	for i, g := range sa.GrantedBy {
		if i > 0 {
			r.By += ", "
		}
		r.By += asked.Who(g.By)
		mine = mine || s.Approver && toolcall.IsSamePerson(g.By.Name, p.Name)
	}
	r.Revoke = mine && r.State == toolcall.StandingActive
	return r
}

func (in *Console) revokeStanding(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
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

// explanation is how the current policy decides a call. Problem says why there is none.
type explanation struct {
	Folded            bool                      `json:"-"`
	Problem           string                    `json:"-"`
	StandingApprovals []toolcall.StandingStatus `json:"-"` // that the recorded decision relies on

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

func (e *explanation) Offers() []string { return ruleTexts(e.Suggested) }

func ruleTexts(rules []message.PermissionRule) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
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
