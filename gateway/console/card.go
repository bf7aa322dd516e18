package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

type card struct {
	ID, Href string
	Back     string
	Call     *toolcall.Call
	State    state
	Title    string
	Asks     string // the text of the request, if it says more than the title
	Open     bool   // its approval request is open
	Over     string // the outcome of the request; "" while it is open
	Forged   string // why no one may respond
	NotYours string // why this person may not respond
	MyVote   string // what this person has responded
	Revise   string // the address with the responses that are still possible; "": none

	Needs    []need
	Excluded []string
	Signed   bool // approvals need the approver's signature, which browsers cannot make
	Votes    []vote
	Ends     time.Time
	Left     string // urgent, soon or calm
	NextStep time.Time
	NextWho  string
	Agent    string
	For      string // see row
	Parent   string // address of the call within which it was made
	Inner    string // address of all calls within that one
	Why      []string
	Values   []value // that the deciding rule read
	Rule     string
	InPolicy ruleOfCard

	Runs     []block // what runs, for people; the other arguments are in Args
	Args     arguments
	Changed  []change // since it was proposed
	Redacted bool
	Suggest  []message.PermissionRule

	Actions []action
	Panel   *panel
	Manage  []action // of operators

	Result            string
	ResultOK          bool
	Pictures          []picture // of the result
	Blocked           string
	Running           bool
	Progress          []line
	Steps             []step
	Chart             *gantt // where the call was, over time; nil: it ended immediately
	Session           timeline
	StandingApprovals []toolcall.StandingApproval

	Explained *explanation
	ExplainAt string
	Timeline  string // address
	Now       time.Time
}

// cardPage is a page with a call. View is "list" if the call is just the first of the list.
type cardPage struct {
	shell
	Card *card
	View string
}

// need is a group of approvers who must agree.
type need struct {
	From      string
	Rule      string
	Approved  []string
	Approvers []string // with how their names were authenticated
	Quorum    int
	Missing   []int // one for each missing approval, for the template
}

type vote struct {
	Name, Said, Words, Auth string
	At                      time.Time
	Good, Bad, Earlier      bool
}

type action struct{ Do, Label, Key, Tone, Href string }

func (in *Console) call(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	q := r.URL.Query()
	s := in.shell(r, p, "inbox", "Inbox – askance")
	k, err := keyOf(q, p.Space.ID)
	if err != nil {
		return in.fail(w, s, err)
	}
	f := &form{Do: q.Get("do"), Digest: q.Get("digest")}
	return in.showCall(r.Context(), w, p, s, k, q, f, http.StatusOK)
}

// showCall writes the page of a call, with the form that f names, if any.
func (in *Console) showCall(ctx context.Context, w http.ResponseWriter, p *gateway.Peer, s shell, k toolcall.Key, q url.Values, f *form, status int) error {
	side, err := makeSide(ctx, p, filterOf(q), k, in.now())
	if err != nil {
		return in.fail(w, s, err)
	}
	s.Side = side
	c, err := in.card(ctx, p, k, q, f)
	if err != nil {
		return in.fail(w, s, err)
	}
	if s.Flash == nil && q.Get("sent") != "" {
		s.Flash = sentFlash(c.Call, p.Name, q.Get("sent"))
	}
	if was := q.Get("was"); was != "" && s.Flash == nil {
		s.Flash = flashOf(ctx, p, was, q.Get("did"))
	}
	if s.Flash != nil {
		if next := nextRequest(side, c.ID); next != nil {
			s.Flash.Next = next.Href
		}
	}
	s.Title = reveal.Line(c.Title) + " – askance"
	return in.write(w, status, "card", cardPage{s, c, "card"})
}

// flashOf reports what the person did with the call before this one.
func flashOf(ctx context.Context, p *gateway.Peer, name, do string) *flash {
	k, err := parseKey(name, p.Space.ID)
	if err != nil {
		return nil
	}
	client, err := p.Reader()
	if err != nil {
		return nil
	}
	shown, err := client.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return nil
	}
	f := sentFlash(shown.Call, p.Name, do)
	if f != nil {
		f.Text += " " + reveal.Line(asked.Title(shown.Call))
	}
	return f
}

// nextRequest returns the next request that the person can respond to: the first of rows still
// listed, otherwise the one after id, or nil if there is none.
func nextRequest(s *side, id string, rows ...string) *row {
	for _, want := range rows {
		if i := slices.IndexFunc(s.Rows, func(r row) bool { return r.ID == want && r.Mine }); i >= 0 {
			return &s.Rows[i]
		}
	}
	at := slices.IndexFunc(s.Rows, func(r row) bool { return r.ID == id })
	for i := range s.Rows {
		if r := &s.Rows[(at+1+i)%len(s.Rows)]; r.Mine && r.ID != id {
			return r
		}
	}
	return nil
}

// rowsBehind returns the rows after id, wrapping around to the top.
func rowsBehind(s *side, id string) []string {
	at := slices.IndexFunc(s.Rows, func(r row) bool { return r.ID == id })
	var out []string
	for i := range s.Rows {
		if r := s.Rows[(at+1+i)%len(s.Rows)]; r.ID != id {
			out = append(out, r.ID)
		}
	}
	return out
}

func (in *Console) card(ctx context.Context, p *gateway.Peer, k toolcall.Key, q url.Values, f *form) (*card, error) {
	client, err := p.Reader()
	if err != nil {
		return nil, err
	}
	shown, err := client.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return nil, err
	}
	call := shown.Call
	base := filterOf(q).Fields()
	c := &card{
		ID: domID(k), Href: address(k, base), Back: filterOf(q).listAddress(), Call: call, State: stateOf(call), Now: in.now(),
		Agent: agentOf(call), Rule: asked.Rule(call), Redacted: call.Hides(), Suggest: call.Suggested, StandingApprovals: call.StandingApprovals,
		Steps: stepsOf(shown.History), Blocked: blockedText(call), ExplainAt: address(k, base, "explain", "1"),
		For: parentAgentOf(call), Timeline: pathTimeline + "?" + formKey(k),
	}
	if in := call.Parent; in != nil {
		parent := toolcall.Key{Session: in.Session, Reply: in.Reply, Call: in.Call}
		c.Parent = address(parent, base)
		c.Inner = withParams(pathFind, url.Values{"within": {formKey(parent)}})
	}
	if spans, marks := spansOf(shown, c.Now); len(spans) > 0 {
		c.Chart = drawGantt("Where the call was", []ganttCall{{ganttRow{Name: reveal.Line(call.Tool)}, spans, marks}}, true)
	}
	c.Runs, c.Args = readable(call.Input)
	can, err := isMine(ctx, client, p, call)
	if err != nil {
		return nil, err
	}
	c.addRequest(p, shown.History, can)
	c.addExecution(in.progress.linesOf(k))
	c.Session, err = readTimeline(ctx, client, call)
	if err != nil {
		return nil, err
	}
	if c.Session.Proposed != "" && !c.Redacted {
		c.Changed = diff(c.Session.Proposed, call.Input)
	}
	c.addActions(p, base, q.Get("revise") != "" || f != nil && f.Do != "")
	c.openPanel(p, f)
	c.offerPeople(ctx, client, p.Name)
	if c.Open || q.Get("explain") != "" {
		c.Explained = explain(ctx, client, call)
		c.Explained.Folded = c.Open && q.Get("explain") == ""
	}
	if c.Rule != "" {
		c.InPolicy = findRule(ctx, p, c.Rule, c.Explained)
		c.Values = decidingValues(c.Explained, c.Rule)
	}
	return c, nil
}

func (c *card) addRequest(p *gateway.Peer, history []toolcall.HistoryEntry, can bool) {
	call := c.Call
	c.Title = asked.Title(call)
	if call.Request == nil {
		return
	}
	if d := call.Decision; d != nil && asked.SaysMore(call, d.Message) {
		c.Asks = d.Message
	}
	c.Open = call.State == message.ToolCallAsking
	c.Why = asked.Why(call)
	c.Votes = votesOf(call)
	c.Excluded = asked.Excluded(call)
	c.Signed = call.Request.Requirement.Signed
	if !c.Open {
		if asked.WasAsked(call) {
			c.Over = asked.Verdict(call, lastMover(history))
		}
		return
	}
	c.Forged = asked.Forged(call, call.Digest)
	w, _ := call.Waiting(time.Now())
	c.Ends, c.NextStep, c.Left = w.Ends, w.NextStep, urgency(w.Ends, c.Now)
	if !w.NextStep.IsZero() {
		c.NextWho = asked.People(w.NextUsers, w.NextGroups)
	}
	for _, part := range w.Parts {
		c.Needs = append(c.Needs, need{From: asked.People(part.Users, part.Groups), Rule: part.Rule, Approved: part.Approved, Approvers: asked.Approvers(w.Tally, part), Quorum: part.Quorum, Missing: make([]int, part.Missing)})
	}
	if v, ok := call.VoteOf(p.Name); ok {
		c.MyVote = asked.Said(v)
	}
	switch {
	case !p.Has(toolcall.RoleApprover):
		c.NotYours = "You can view this request. Only approvers can respond."
	case !can && c.MyVote == "":
		c.NotYours = asked.WhyNotAsked(call, p.Name)
	}
}

// WhyTitle is the heading for the reasons of the decision.
func (c *card) WhyTitle() string {
	d := c.Call.Decision
	switch {
	case c.Open:
		return "Why it needs approval"
	case asked.WasAsked(c.Call) || d == nil:
		return "Why it needed approval"
	case d.Behavior == message.BehaviorAllow:
		return "Why it was allowed"
	}
	return "Why it was denied"
}

// lastMover is the author of the last transition.
func lastMover(history []toolcall.HistoryEntry) string {
	for _, h := range slices.Backward(history) {
		if h.Note == nil {
			return h.By.Name
		}
	}
	return ""
}

func votesOf(c *toolcall.Call) []vote {
	out := make([]vote, 0, len(c.Votes))
	for _, v := range c.Votes {
		out = append(out, vote{
			Name: v.By.Name, Said: asked.Said(v) + asked.Uncounted(v), Words: v.Feedback + v.Note, Auth: asked.Authenticated(v.By.Auth), At: v.At,
			Good: v.Void == "" && (v.Kind == toolcall.ResponseApprove || v.Kind == toolcall.ResponseRespond), Bad: v.Kind == toolcall.ResponseReject, Earlier: !v.On(c.Digest),
		})
	}
	return out
}

func (c *card) addExecution(lines []line) {
	call := c.Call
	c.Running = call.State == message.ToolCallAllowed || call.State == message.ToolCallSubmitted // from ready to blocked
	if c.Running || len(lines) > 0 {
		c.Progress = lines
	}
	if call.Result != nil && call.State == message.ToolCallFinished {
		c.Pictures = picturesOf(call.Result.Output)
		c.Result, c.ResultOK = cmp.Or(asked.Output(call.Result.Output), "No output."), call.Result.State == message.ToolResultSuccess
	}
}

// responseActions are the buttons of an open request.
var responseActions = []action{
	{Do: doApprove, Label: "Approve", Key: "a", Tone: "good"}, {Do: doEdit, Label: "Edit", Key: "e"}, {Do: doReject, Label: "Reject", Key: "r", Tone: "bad"},
	{Do: doRespond, Label: "Respond", Key: "t"}, {Do: doDelegate, Label: "Delegate", Key: "h"}, {Do: doSkip, Label: "Skip", Key: "s"},
}

// obstacleTo says why a person cannot send a response to a request here, or returns "" if they can.
func obstacleTo(call *toolcall.Call, p *gateway.Peer, do string) string {
	bad := asked.Obstacle(call, p.Name, toolcall.Response{Kind: kindOf(do), Input: inputOf(&form{Do: do})})
	if bad == "" && do == doApprove && call.Request.Requirement.Signed {
		bad = "Approvals need your own signature, which a browser cannot make."
	}
	return bad
}

// addActions adds the buttons that this person may use. After a response only more cautious ones
// remain, and only for a person who wants to revise it.
func (c *card) addActions(p *gateway.Peer, base url.Values, revise bool) {
	k := c.Call.Key
	request := c.Call.Digest // a form that names it becomes stale with it
	add := func(to *[]action, do, label, key, tone string) {
		at := "#act"
		if do == doApprove { // without the script, a person reads down to the button
			at = "#args"
		}
		*to = append(*to, action{do, label, key, tone, address(k, base, "do", do, "digest", request) + at})
	}
	if c.Open && c.NotYours == "" && c.Forged == "" {
		if _, voted := c.Call.VoteOf(p.Name); voted && !revise {
			c.Revise = address(k, base, "revise", "1") + "#act"
		} else {
			for _, a := range responseActions {
				if obstacleTo(c.Call, p, a.Do) == "" {
					add(&c.Actions, a.Do, a.Label, a.Key, a.Tone)
				}
			}
		}
	}
	request = ""
	if p.Has(toolcall.RoleOperator) && c.Call.CanResolve() && c.Call.BlockedReason == "" {
		add(&c.Manage, doResolve, "Resolve", "", "good")
	}
	if (p.Has(toolcall.RoleOperator) || p.Has(toolcall.RoleApprover)) && c.Call.Open() {
		if c.Running && !c.Call.Started() {
			add(&c.Manage, doRevoke, "Revoke", "", "")
		}
		add(&c.Manage, doInterrupt, "Interrupt the reply", "", "")
	}
}

// state is the phase of a call with a tone: ask, work, good, bad or plain.
type state struct{ Word, Tone string }

func stateOf(c *toolcall.Call) state {
	tone := "plain"
	switch c.Phase() {
	case toolcall.PhaseAsking:
		tone = "ask"
	case toolcall.PhaseBlocked:
		tone = "bad"
	case toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		tone = "work"
	case toolcall.PhaseFinished:
		word, good := asked.Ended(c)
		if !good {
			return state{word, "bad"}
		}
		return state{word, "good"}
	case toolcall.PhaseWaiting:
	}
	word := string(c.Phase())
	return state{capitalize(word), tone}
}

func blockedText(c *toolcall.Call) string {
	why := asked.WhyBlocked(c)
	if why == "" || c.BlockedReason != "" {
		return why
	}
	why = capitalize(why) + "."
	if c.Blocked == toolcall.BlockedReturned {
		why += " Correct the worker, then resolve the call."
	}
	return why
}

// change is one line of a diff; Mark is "+", "-" or " ".
type change struct{ Mark, Text string }

// diff returns the lines that an edit changes, or nil if both inputs are equal.
func diff(before, after string) []change { return changesOf(asked.Changes(before, after)) }

func changesOf(lines []string) []change {
	var out []change
	for _, l := range lines {
		out = append(out, change{l[:1], l[2:]})
	}
	return out
}

// ruleOfCard is the rule that decided a call.
type ruleOfCard struct {
	Href string    // on the page of the policy
	File string    // "": not known
	Line int       // 0: not known
	Text *ruleText // nil: the policy in force has no such rule, or this person may not read it
}

// findRule finds the deciding rule in the policy in force.
func findRule(ctx context.Context, p *gateway.Peer, rule string, e *explanation) ruleOfCard {
	out := ruleOfCard{Href: policyAddress("rule", rule) + "#rule"}
	if e != nil {
		for _, t := range e.Trace {
			if t.Rule == rule && t.Because != nil {
				out.File, out.Line = t.Because.File, t.Because.Line
			}
		}
	}
	c, err := p.Reader()
	if err != nil {
		return out
	}
	text, err := api.PolicyText.Call(ctx, c, api.PolicyTextRequest{V: 1, Rule: rule})
	if err != nil || len(text.Rules) != 1 {
		return out
	}
	r := text.Rules[0]
	out.File, out.Line, out.Text = r.File, r.Line, &ruleText{PolicyRuleText: r, Lines: numberLines(r.Text, r.Line)}
	return out
}

// value is a value that a condition of a rule read.
type value struct{ Name, Value string }

// decidingValues are the values that the conditions of a rule read, in order.
func decidingValues(e *explanation, rule string) []value {
	if e == nil {
		return nil
	}
	values := map[string]string{}
	for _, t := range e.Trace {
		if t.Rule != rule || !t.Matched {
			continue
		}
		all := t.All
		if t.Because != nil {
			all = append(all, *t.Because)
		}
		for _, b := range all {
			for name, v := range b.Operands {
				values[name] = fmt.Sprint(v)
			}
		}
	}
	out := make([]value, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, value{name, values[name]})
	}
	return out
}
