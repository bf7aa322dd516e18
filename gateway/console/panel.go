package console

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// The actions on a call.
const (
	doApprove   = "approve"
	doEdit      = "edit"
	doReject    = "reject"
	doRespond   = "respond"
	doDelegate  = "delegate"
	doSkip      = "skip"
	doResolve   = "resolve"
	doRevoke    = "revoke"
	doInterrupt = "interrupt"
)

// form is a form that a person sent. Nothing in it is trusted.
type form struct {
	Do       string
	Digest   string // of the approval request on the page
	Input    string
	Feedback string
	Output   string
	Note, To string

	Remember string // "", letter, terms
	Rules    []int  // indexes of the suggested ones
	Contents map[int]string
	Scope    string
	Last     string // a duration; "": as long as the policy permits
	Uses     string
	Path     string // of a budget
	Limit    string

	Link string // the token of the link that led here
	Then string // thenNext: open the next request after this one

	Outcome string // of the call to resolve
	Attempt int
}

// panel is the open form of one action.
type panel struct {
	form
	Stale   string // why the form cannot be sent, if it cannot
	Broken  string // why the edited text is not a JSON object
	Faults  []fault
	Diff    []change
	Preview *previewed
	Ruled   []ruleChoice
	Limits  *toolcall.RememberLimits
	CanTerm bool           // a standing approval may have limits
	Stated  []asked.Stated // what resolve can state
	People  []string       // who may respond after a delegation, as far as is known
	Hidden  bool
	Post    string
	Back    string // the page without the form
}

// Heading is the heading of the form.
func (p *panel) Heading() string {
	switch p.Do {
	case doEdit:
		return "Edit and approve"
	case doResolve, doRevoke:
		return capitalize(p.Do) + " the call"
	case doInterrupt:
		return "Interrupt the reply"
	}
	return capitalize(p.Do)
}

// ruleChoice is a rule that a standing approval can contain.
type ruleChoice struct {
	Index   int
	Text    string
	Content string
	Chosen  bool
}

// openPanel opens the form that f names for the current approval request. A form for an older
// request is shown as stale.
func (c *card) openPanel(p *gateway.Peer, f *form) {
	if f == nil || f.Do == "" {
		return
	}
	managed := slices.Contains([]string{doResolve, doRevoke, doInterrupt}, f.Do)
	known := managed || slices.Contains([]string{doApprove, doEdit, doReject, doRespond, doDelegate, doSkip}, f.Do)
	if !known || managed && !slices.ContainsFunc(c.Manage, func(a action) bool { return a.Do == f.Do }) {
		return
	}
	v := &panel{form: *f, Hidden: c.Redacted, Post: "/inbox/response", Back: c.Href}
	c.Panel = v
	if managed {
		v.Post, v.Attempt, v.Stated = "/inbox/"+f.Do, c.Call.Attempt.Number, asked.Outcomes(c.Call)
		return
	}
	own, responded := ownResponse(c.Call, p.Name, f)
	switch {
	case responded && (!c.Open || f.Digest != c.Call.Digest):
		v.Stale = "You " + asked.Outcome(own, c.Call) + "."
	case !c.Open:
		v.Stale = "Decided meanwhile: " + cmp.Or(c.Over, "the call is "+string(c.Call.Phase())) + ". Nothing was sent."
	case c.Forged != "":
		v.Stale = c.Forged
	case c.NotYours != "":
		v.Stale = c.NotYours
	case f.Digest != "" && f.Digest != c.Call.Digest:
		v.Stale = "This request changed after you opened it. Nothing was sent. Review it again, then respond."
	}
	if v.Stale == "" {
		v.Stale = obstacleTo(c.Call, p, f.Do)
	}
	v.Digest = c.Call.Digest
	if f.Do == doEdit {
		c.fillEdit(p, v)
	}
	if f.Do == doApprove || f.Do == doEdit {
		c.offerStanding(v)
	}
}

// ownResponse finds the response that a person sent with a form, to which a browser can go back.
func ownResponse(c *toolcall.Call, who string, f *form) (resp toolcall.Response, ok bool) {
	for _, v := range slices.Backward(c.Votes) {
		if toolcall.IsSamePerson(v.By.Name, who) && v.Kind == kindOf(f.Do) && v.Digest == f.Digest {
			return toolcall.Response{Kind: v.Kind, Digest: cmp.Or(v.Made, v.Digest)}, true
		}
	}
	return resp, false
}

// offerPeople offers the reviewers to whom the request can be delegated.
func (c *card) offerPeople(ctx context.Context, client engine.Client, who string) {
	if c.Panel == nil || c.Panel.Do != doDelegate || c.Panel.Stale != "" {
		return
	}
	load, err := client.Load(ctx, toolcall.LoadRequest{V: 1})
	if err != nil {
		return // the name can be typed
	}
	for _, r := range load.People {
		if !toolcall.IsSamePerson(r.Name, who) && asked.MayRespond(c.Call, r.Name) != asked.No {
			c.Panel.People = append(c.Panel.People, r.Name)
		}
	}
}

// Rows is the number of lines of the edit field.
func (p *panel) Rows() int { return min(24, max(6, strings.Count(p.Input, "\n")+3)) }

func (c *card) fillEdit(p *gateway.Peer, v *panel) {
	if v.Input == "" {
		v.Input = asked.Editable(c.Call.Input)
		return
	}
	v.checkInput(p.Space, c.Call)
}

// offerStanding offers the standing approvals that the policy permits.
func (c *card) offerStanding(v *panel) {
	req := c.Call.Request
	if req == nil || c.Redacted {
		return
	}
	v.Limits = req.Requirement.Remember
	v.CanTerm = v.Limits != nil || req.Rule == ""
	if !v.CanTerm {
		return
	}
	for i, r := range c.Suggest {
		ch := ruleChoice{Index: i, Text: asked.RuleText(r), Chosen: v.Remember == "" || slices.Contains(v.Rules, i)}
		if r.RuleContent != nil {
			ch.Content = *r.RuleContent
		}
		if mine, ok := v.Contents[i]; ok {
			ch.Content = mine
		}
		v.Ruled = append(v.Ruled, ch)
	}
}

func readForm(r *http.Request) (*form, error) {
	if err := r.ParseForm(); err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read form", What: "the form is not valid", Hint: "load the page again", Err: err}
	}
	q := r.PostForm
	f := &form{
		Do: q.Get("do"), Digest: q.Get("digest"), Input: strings.TrimSpace(strings.ReplaceAll(q.Get("input"), "\r\n", "\n")), Feedback: strings.TrimSpace(q.Get("feedback")),
		Output: strings.ReplaceAll(q.Get("output"), "\r\n", "\n"), Note: strings.TrimSpace(q.Get("note")), To: strings.TrimSpace(q.Get("to")),
		Remember: q.Get("remember"), Scope: q.Get("scope"), Last: q.Get("last"), Uses: strings.TrimSpace(q.Get("uses")),
		Path: strings.TrimSpace(q.Get("budget_path")), Limit: strings.TrimSpace(q.Get("budget_limit")), Outcome: q.Get("outcome"), Link: q.Get("link"), Then: q.Get("then"), Contents: map[int]string{},
	}
	f.Attempt, _ = strconv.Atoi(q.Get("attempt")) // 0 means none, which the engine refuses
	for _, text := range q["rule"] {
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= toolcall.MaxStandingRules {
			return nil, &message.Error{Code: message.CodeInvalid, Op: "read form", What: "the form selects an unknown rule", Hint: "load the page again"}
		}
		f.Rules = append(f.Rules, i)
		if q.Has("content_" + text) {
			f.Contents[i] = strings.TrimSpace(q.Get("content_" + text))
		}
	}
	return f, nil
}

// kindOf returns the kind of response: the actions have the names of the kinds, and an edit is an
// approval.
func kindOf(do string) toolcall.ResponseKind {
	if do == doEdit {
		return toolcall.ResponseApprove
	}
	return toolcall.ResponseKind(do)
}

func inputOf(f *form) *string {
	if f.Do != doEdit {
		return nil
	}
	return &f.Input
}

// responseOf builds the response from a form, with the form's digest.
func responseOf(f *form, k toolcall.Key, suggested []message.PermissionRule, now time.Time) (toolcall.Response, error) {
	resp := toolcall.Response{V: 1, Key: k, Digest: f.Digest, Kind: kindOf(f.Do), Input: inputOf(f)}
	switch f.Do {
	case doReject:
		resp.Feedback = f.Feedback
	case doRespond:
		resp.Output = f.Output
	case doDelegate:
		resp.To, resp.Note = f.To, f.Note
	case doSkip:
		resp.Note = f.Note
	case doApprove, doEdit:
		return resp, f.addTerms(&resp, suggested, now)
	}
	return resp, nil
}

func (f *form) addTerms(resp *toolcall.Response, suggested []message.PermissionRule, now time.Time) error {
	if f.Remember == "" {
		return nil
	}
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "remember", What: what, Hint: hint}
	}
	var rules []message.PermissionRule
	for _, i := range f.Rules {
		if i >= len(suggested) {
			return bad("the rule is no longer offered", "review the request again")
		}
		r := suggested[i]
		if text, ok := f.Contents[i]; ok && f.Remember == "terms" && (r.RuleContent != nil && text != *r.RuleContent || r.RuleContent == nil && text != "") {
			r.RuleContent = &text
		}
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		return bad("no rule is selected", "select a rule, or approve only this call")
	}
	if f.Remember == "letter" {
		resp.Rules = rules
		return nil
	}
	t := &toolcall.StandingTerms{Rules: rules, Scope: toolcall.StandingScope(f.Scope)}
	if f.Last != "" {
		d, err := time.ParseDuration(f.Last)
		if err != nil || d <= 0 {
			return bad("the duration is not valid", "select one of the offered durations")
		}
		t.Until = now.Add(d).UTC().Truncate(time.Second)
	}
	if f.Uses != "" {
		n, err := strconv.Atoi(f.Uses)
		if err != nil || n < 1 {
			return bad("the number of uses is not a positive number", "enter a positive number, or leave the field empty")
		}
		t.Uses = n
	}
	if f.Path != "" || f.Limit != "" {
		t.Budget = &toolcall.Budget{Path: f.Path, Limit: f.Limit}
	}
	resp.Remember = t
	return nil
}

// button sends a form.
type button struct {
	Panel       *panel
	Label, Tone string
	Next        string // label of the button that also opens the next request
}

// choice is an option of a list.
type choice struct{ Value, Label string }

// scopes are the possible scopes of a standing approval. Without limits from a rule it ends with
// the session.
func scopes(limits *toolcall.RememberLimits) []choice {
	all := []toolcall.StandingScope{toolcall.ScopeSession, toolcall.ScopeCallLike, toolcall.ScopeAgent, toolcall.ScopeUser, toolcall.ScopeSpace}
	if limits == nil {
		all = all[:2]
	}
	out := make([]choice, 0, len(all))
	for _, s := range all {
		out = append(out, choice{string(s), asked.Scope(s)})
	}
	return out
}

// lasts are the durations offered for a standing approval.
var lasts = []choice{{"", "as long as the policy permits"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"8h", "8 hours"}, {"24h", "1 day"}, {"168h", "7 days"}}

// fault is an error in arguments; At is a JSON pointer.
type fault struct{ At, Text string }

// faulty is an error with several locations, such as package permission returns.
type faulty interface {
	error
	Faults() iter.Seq2[string, string]
}

// check checks arguments while a person edits them: against the tool's schema, and what they
// change. It decides nothing; the engine checks the response again.
func (in *Console) check(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	k, err := keyOf(r.PostForm, p.Space.ID)
	if err != nil {
		return err
	}
	c, err := p.As(toolcall.RoleApprover)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	shown, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return err
	}
	v := panel{form: *f}
	v.checkInput(p.Space, shown.Call)
	if len(v.Faults) == 0 && len(v.Diff) > 0 {
		v.Preview = previewEdit(ctx, c, k, f)
	}
	return in.write(w, http.StatusOK, "verdict", v)
}

// previewed is what the policy would decide about an edit.
type previewed struct {
	api.PreviewedCall
	Problem string // why there is no preview
	From    []string
}

// previewEdit asks the engine what an edit would do. The engine decides again when the edit is
// sent, so a failed preview does not prevent sending.
func previewEdit(ctx context.Context, c engine.Client, k toolcall.Key, f *form) *previewed {
	out, err := api.Preview.Call(ctx, c, api.PreviewRequest{
		ProposeRequest: toolcall.ProposeRequest{V: 1, Session: k.Session, Reply: k.Reply},
		Edit:           &api.PreviewEdit{Call: k.Call, Digest: f.Digest, Input: f.Input},
	})
	if err != nil {
		return &previewed{Problem: reveal.Line(asked.Refusal(message.AsError("preview", err)))}
	}
	if len(out.Calls) != 1 {
		return &previewed{Problem: "the server returned no decision"}
	}
	p := &previewed{PreviewedCall: out.Calls[0]}
	if p.Needs != nil {
		for _, part := range p.Needs.Parts {
			p.From = append(p.From, asked.People(part.Users, part.Groups))
		}
	}
	return p
}

// checkInput sets the faults of the edited arguments, and what they change.
func (p *panel) checkInput(space *gateway.Space, c *toolcall.Call) {
	if err := asked.CheckInput(p.Input); err != nil {
		p.Broken = sentence(err.Error())
		return
	}
	p.Diff = diff(asked.Editable(c.Input), p.Input)
	i := slices.IndexFunc(space.Tools, func(t engine.Tool) bool { return t.Name == c.Tool })
	if i < 0 || space.Tools[i].Schema == nil || c.Hides() { // the engine restores hidden values and then checks
		return
	}
	err := space.Tools[i].Schema.Validate([]byte(p.Input))
	if several := faulty(nil); errors.As(err, &several) {
		for at, text := range several.Faults() {
			p.Faults = append(p.Faults, fault{at, text})
		}
	}
	if err != nil && len(p.Faults) == 0 {
		p.Faults = []fault{{Text: err.Error()}}
	}
}
