package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// The views of the page Policy.
const (
	policyRules    = "rules"
	policyFiles    = "files"
	policyTry      = "try"
	policyShadow   = "shadow"
	policyVersions = "versions"
)

type policyView struct {
	shell
	Status api.PolicyStatusReply
	View   string
	Tabs   []tab
	Heads  []columnHead
	Rules  []ruleRow
	Open   *ruleText // the rule of the address
	Files  []policyFile
	Text   api.PolicyTextReply
	Try    *playground
	Diff   *policyDiff
	None   string // why there is nothing to show

	HitsSince time.Time
}

type ruleRow struct {
	api.PolicyRuleCount
	Href  string
	Place string
	Share int // relative to the most frequent rule, in percent
	Tools []string
	Open  bool
}

type ruleText struct {
	api.PolicyRuleText
	Lines []numbered
}

type numbered struct {
	N    int
	Text string
	Rule string // the rule that starts here
	Hits uint64
}

// policyFile is a rule file with its numbered lines.
type policyFile struct {
	api.PolicyFileText
	Lines []numbered
}

// policyDiff compares two versions.
type policyDiff struct {
	From, To string
	Files    []fileDiff
}

// fileDiff is a file that differs. Lines is empty if TooLarge.
type fileDiff struct {
	Name     string
	Lines    []change
	TooLarge bool // the engine sends no text for a policy this large
}

func (in *Console) policy(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := policyView{shell: in.shell(r, p, "policy", "Policy – askance"), View: r.URL.Query().Get("view")}
	c, err := v.readStatus(r.Context(), p)
	if err != nil {
		return in.fail(w, v.shell, err)
	}
	if !slices.Contains([]string{policyFiles, policyTry, policyShadow, policyVersions}, v.View) {
		v.View = policyRules
	}
	v.addTabs()
	q := r.URL.Query()
	switch v.View {
	case policyTry:
		v.Try = newPlayground(p.Space, q)
	case policyVersions:
		err = v.addVersions(r.Context(), c, q)
	case policyFiles, policyRules:
		if err = v.addHits(r.Context(), c); err == nil {
			err = v.addText(r.Context(), c, q)
		}
	}
	return in.writeOrFail(w, "policy", v.shell, v, err)
}

func (v *policyView) readStatus(ctx context.Context, p *gateway.Peer) (engine.Client, error) {
	c, err := p.Reader()
	if err == nil {
		v.Status, err = api.PolicyStatus.Call(ctx, c, struct{}{})
	}
	return c, err
}

func (v *policyView) addTabs() {
	shadow := -1
	if v.Status.Shadow != nil {
		shadow = int(min(v.Status.Shadow.Differing, 1e9))
	}
	for _, t := range []tab{
		{Name: policyRules, Label: "Rules", Count: v.Status.Rules},
		{Name: policyFiles, Label: "Files", Count: len(v.Status.Files)},
		{Name: policyTry, Label: "Playground", Count: -1},
		{Name: policyShadow, Label: "Shadow", Count: shadow},
		{Name: policyVersions, Label: "Versions", Count: len(v.Status.Versions)},
	} {
		t.Href, t.Selected = policyAddress("view", t.Name), t.Name == v.View
		v.Tabs = append(v.Tabs, t)
	}
}

// policyAddress links to the page with parameters in pairs; empty ones and the default view are
// left out.
func policyAddress(pairs ...string) string {
	q := setParams(url.Values{}, pairs...)
	if q.Get("view") == policyRules {
		q.Del("view")
	}
	return withParams(pathPolicy, q)
}

// hitsFor is the period of the hits on the page. The journal counts them, because engines' own
// counts end with each restart and each new version of a rule.
const hitsFor = 30 * 24 * time.Hour

// addHits takes the hits of the rules from the journal.
func (v *policyView) addHits(ctx context.Context, c engine.Client) error {
	v.HitsSince = v.Now.Add(-hitsFor)
	activity, err := api.Activity.Call(ctx, c, toolcall.ActivityRequest{V: 1, Since: v.HitsSince})
	if err != nil {
		return err
	}
	hits := map[string]uint64{}
	for _, r := range activity.ByRule {
		hits[r.Name] = uint64(r.Decided())
	}
	for i := range v.Status.ByRule {
		v.Status.ByRule[i].Decided = hits[v.Status.ByRule[i].Rule]
	}
	if activity.CompleteSince.After(v.HitsSince) {
		v.HitsSince = activity.CompleteSince
	}
	return nil
}

func (v *policyView) addText(ctx context.Context, c engine.Client, q url.Values) error {
	var err error
	if v.Text, err = api.PolicyText.Call(ctx, c, api.PolicyTextRequest{V: 1}); err != nil && message.AsError("", err).Code != message.CodeNotFound {
		return err
	}
	v.addRules(q)
	hits := map[string]uint64{}
	for _, r := range v.Status.ByRule {
		hits[r.Rule] = r.Decided
	}
	for _, f := range v.Text.Files {
		out := policyFile{PolicyFileText: f, Lines: numberLines(f.Text, 1)}
		for _, r := range v.Text.Rules {
			if r.File == f.Name && r.Line >= 1 && r.Line <= len(out.Lines) {
				out.Lines[r.Line-1].Rule, out.Lines[r.Line-1].Hits = r.Rule, hits[r.Rule]
			}
		}
		v.Files = append(v.Files, out)
	}
	rule := q.Get("rule")
	if rule == "" {
		return nil
	}
	one, err := api.PolicyText.Call(ctx, c, api.PolicyTextRequest{V: 1, Rule: rule})
	switch {
	case err != nil && message.AsError("", err).Code == message.CodeNotFound:
		v.None = "The policy in force has no rule " + rule + "."
		return nil
	case err != nil:
		return err
	}
	v.Open = &ruleText{PolicyRuleText: one.Rules[0], Lines: numberLines(one.Rules[0].Text, one.Rules[0].Line)}
	return nil
}

func numberLines(text string, first int) []numbered {
	var out []numbered
	for i, l := range splitLines(text) {
		out = append(out, numbered{N: first + i, Text: strings.TrimSuffix(l, "\r")})
	}
	return out
}

func (v *policyView) addRules(q url.Values) {
	tools := map[string][]string{}
	for _, r := range v.Text.Rules {
		tools[r.Rule] = r.Tools
	}
	most := uint64(1)
	for _, r := range v.Status.ByRule {
		most = max(most, r.Decided)
	}
	for _, r := range v.Status.ByRule {
		row := ruleRow{PolicyRuleCount: r, Share: int(r.Decided * 100 / most), Tools: tools[r.Rule], Open: r.Rule == q.Get("rule")}
		row.Href = policyAddress("rule", r.Rule, "sort_rules", q.Get("sort_rules")) + "#rule"
		if r.File != "" {
			row.Place = path.Base(r.File)
		}
		v.Rules = append(v.Rules, row)
	}
	v.Heads = sortRows(pathPolicy, q, "rules", v.Rules, ruleColumns, 3)
}

var ruleColumns = []sortColumn[ruleRow]{
	{"Rule", "", func(a, b ruleRow) int { return compareNames(a.Rule, b.Rule) }},
	{"Verdict", "severity", func(a, b ruleRow) int { return cmp.Compare(b.Behavior, a.Behavior) }}, // deny, ask, allow: most severe first
	{"Tools", "", nil},
	{"Hits", numeric, func(a, b ruleRow) int { return cmp.Compare(b.Decided, a.Decided) }},
	{"Failed", numeric, func(a, b ruleRow) int { return cmp.Compare(b.Failed, a.Failed) }},
	{"Where", "", func(a, b ruleRow) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) }},
}

// addVersions compares the versions in the address, by default the one in force with the previous
// one.
func (v *policyView) addVersions(ctx context.Context, c engine.Client, q url.Values) error {
	known := v.Status.Versions
	if len(known) < 2 {
		return nil
	}
	from, to := cmp.Or(q.Get("from"), known[1].Bundle), cmp.Or(q.Get("to"), known[0].Bundle)
	texts := make([]api.PolicyTextReply, 2)
	for i, bundle := range []string{from, to} {
		var err error
		if texts[i], err = api.PolicyText.Call(ctx, c, api.PolicyTextRequest{V: 1, Bundle: bundle}); err != nil {
			if message.AsError("", err).Code == message.CodeNotFound {
				v.None = "The engine no longer has this version."
				return nil
			}
			return err
		}
	}
	v.Diff = comparePolicies(texts[0], texts[1])
	return nil
}

// comparePolicies returns the files that differ, line by line. Digests identify those files,
// because large policies come without text.
func comparePolicies(from, to api.PolicyTextReply) *policyDiff {
	out := &policyDiff{From: from.Bundle, To: to.Bundle}
	before, after := filesByName(from), filesByName(to)
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	large := hasNoTexts(from) || hasNoTexts(to)
	for _, name := range slices.Compact(names) {
		was, is := before[name], after[name]
		if was.Digest == is.Digest {
			continue
		}
		d := fileDiff{Name: name, TooLarge: large}
		if !large {
			d.Lines = nearChanges(changesOf(linediff.Lines(splitLines(was.Text), splitLines(is.Text))))
		}
		out.Files = append(out.Files, d)
	}
	return out
}

func filesByName(r api.PolicyTextReply) map[string]api.PolicyFileText {
	out := map[string]api.PolicyFileText{}
	for _, f := range r.Files {
		out[f.Name] = f
	}
	return out
}

// hasNoTexts reports whether the engine left out the texts because of their size.
func hasNoTexts(r api.PolicyTextReply) bool {
	return slices.ContainsFunc(r.Files, func(f api.PolicyFileText) bool { return f.Text == "" && f.Digest != message.Digest(nil) })
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// nearChanges drops lines that are not near a change.
func nearChanges(diff []change) (out []change) {
	near := areNear(diff)
	for i, l := range diff {
		switch {
		case near[i]:
			out = append(out, l)
		case i == 0 || near[i-1]:
			out = append(out, change{" ", "…"})
		}
	}
	return out
}

// playground is a call to try and the policy's decision about it.
type playground struct {
	Tools       []string
	Tool, Input string
	Agent       string
	Session     string
	Problem     string
	Result      *api.PreviewedCall
	Explained   *explanation
	Behavior    string
}

const maxTryInput = 256 << 10

func newPlayground(space *gateway.Space, q url.Values) *playground {
	return &playground{Tools: toolNames(space), Tool: q.Get("tool"), Input: cmp.Or(q.Get("input"), "{}"), Agent: q.Get("agent"), Session: q.Get("session")}
}

// tryCall asks for the policy's decision about a call that a person wrote.
func (in *Console) tryCall(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := policyView{shell: in.shell(r, p, "policy", "Policy – askance"), View: policyTry}
	r.Body = http.MaxBytesReader(w, r.Body, maxTryInput)
	if err := r.ParseForm(); err != nil {
		return in.fail(w, v.shell, &message.Error{Code: message.CodeTooLarge, Op: "try a call", What: "the form is too large or unreadable", Hint: "send at most 256 KiB"})
	}
	c, err := v.readStatus(r.Context(), p)
	if err != nil {
		return in.fail(w, v.shell, err)
	}
	v.addTabs()
	v.Try = newPlayground(p.Space, r.PostForm)
	v.Try.decide(r.Context(), c)
	return in.write(w, http.StatusOK, "policy", v)
}

// decide fills in the engine's decision about the call.
func (p *playground) decide(ctx context.Context, c engine.Client) {
	if strings.TrimSpace(p.Tool) == "" {
		p.Problem = "Name the tool of the call."
		return
	}
	if err := asked.CheckInput(p.Input); err != nil {
		p.Problem = "The arguments are not JSON: " + err.Error()
		return
	}
	external := []string{}
	if !slices.Contains(p.Tools, p.Tool) {
		external = append(external, p.Tool)
	}
	reply, err := api.Preview.Call(ctx, c, api.PreviewRequest{ProposeRequest: toolcall.ProposeRequest{
		V: 1, Session: message.SessionID(cmp.Or(p.Session, "playground")), Reply: "playground", Agent: p.Agent, External: external,
		Calls: []message.ToolCallBlock{{ID: "playground", Name: p.Tool, Input: p.Input}},
	}})
	switch {
	case err != nil:
		e := message.AsError("try a call", err)
		p.Problem = strings.TrimSuffix(e.What+". "+e.Hint, ". ") + "."
		return
	case len(reply.Calls) != 1:
		p.Problem = "The engine returned no decision."
		return
	}
	p.Result = &reply.Calls[0]
	switch {
	case p.Result.Refused != "":
		p.Behavior = "refused"
	case p.Result.Decision != nil:
		p.Behavior = string(p.Result.Decision.Behavior)
	}
	if len(p.Result.Trace) > 0 {
		p.Explained = &explanation{}
		if err := strictjson.UnmarshalOpen(p.Result.Trace, p.Explained); err != nil {
			p.Explained = &explanation{Problem: "No explanation: the server returned one that this page cannot read."}
		}
	}
}
