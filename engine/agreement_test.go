package engine_test

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// agreement is an approval request, the people around it, and the test's own record of
// their responses, with which the engine must agree.
type agreement struct {
	*rapid.T
	journal *engine.Memory
	eng     *engine.Engine
	rules   []permission.Rule
	people  engine.StaticDirectory
	call    *toolcall.Call
	said    map[string]map[string]bool // by digest: the people whose approval still stands
}

var crowd = []string{"ann", "bob", "cy", "dora", "bot"}

// After any sequence of answers, a call runs only if its arguments got the approvals that every
// matching rule requires, and only people who may answer change anything.
func TestAgreement(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAgreement(rt)
		defer a.eng.Close()
		for range rapid.IntRange(1, 25).Draw(rt, "answers") {
			if a.call.State != message.ToolCallAsking {
				return
			}
			a.answer()
		}
	})
}

func newAgreement(rt *rapid.T) *agreement {
	a := &agreement{T: rt, journal: engine.NewMemory(), people: engine.StaticDirectory{}, said: map[string]map[string]bool{}}
	groups := []string{"red", "blue"}
	for _, name := range crowd {
		a.people[name] = rapid.SliceOfNDistinct(rapid.SampledFrom(groups), 0, 2, rapid.ID).Draw(rt, name)
	}
	for i, name := range []string{"one", "two"}[:rapid.IntRange(1, 2).Draw(rt, "rules")] {
		r := permission.Rule{Name: name, Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: rapid.IntRange(0, 3).Draw(rt, "quorum")}
		switch rapid.IntRange(0, 2).Draw(rt, "who") {
		case 1:
			r.Approvers.Groups = []string{groups[i]}
		case 2:
			r.Approvers.Groups, r.Approvers.Users = []string{groups[i]}, []string{"cy"}
		}
		r.Approvers.ExcludeRequester = rapid.Bool().Draw(rt, "exclude requester")
		a.rules = append(a.rules, r)
	}
	policy, err := permission.Compile(permission.Policy{Rules: a.rules}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		rt.Fatal(err)
	}
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}
	if a.eng, err = engine.New("default", a.journal, policy, []engine.Tool{tool}, engine.WithDirectory(a.people)); err != nil {
		rt.Fatal(err)
	}
	if err := a.eng.Start(context.Background()); err != nil {
		rt.Fatal(err)
	}
	bot := a.eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	r, err := bot.Propose(context.Background(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{"n":0}`}}})
	if err != nil {
		rt.Fatal(err)
	}
	a.call = r.Calls[0]
	if a.call.State == message.ToolCallAsking != (a.call.Result == nil) {
		rt.Fatalf("the call is %s", a.call.State)
	}
	return a
}

// answer sends an answer by some person to the current or an older approval request, and
// checks its effect.
func (a *agreement) answer() {
	name := rapid.SampledFrom(crowd).Draw(a.T, "by")
	kinds := []toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseSkip, toolcall.ResponseDelegate, toolcall.ResponseRespond, toolcall.ResponseReject}
	ans := toolcall.Response{Key: a.call.Key, Kind: rapid.SampledFrom(kinds).Draw(a.T, "kind"), Digest: a.call.Digest}
	if ans.Kind == toolcall.ResponseDelegate {
		ans.To = rapid.SampledFrom(crowd).Draw(a.T, "to")
	}
	if ans.Kind == toolcall.ResponseApprove && rapid.IntRange(0, 3).Draw(a.T, "edit") == 0 {
		input := rapid.SampledFrom([]string{`{"n":0}`, `{"n":1}`}).Draw(a.T, "input")
		ans.Input = &input
	}
	if old := a.digests(); len(old) > 0 && rapid.IntRange(0, 4).Draw(a.T, "stale") == 0 {
		ans.Digest = rapid.SampledFrom(old).Draw(a.T, "digest")
	}
	before := a.size()
	c, err := a.eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name}).SubmitResponse(context.Background(), ans)
	switch {
	case err != nil:
		if a.size() != before {
			a.Fatalf("%s by %s was refused (%v) but changed the journal", ans.Kind, name, err)
		}
		return
	case !a.entitled(name):
		a.Fatalf("%s by %s counted, although they may not answer", ans.Kind, name)
	case ans.Digest != a.call.Digest:
		a.Fatalf("%s counted for another approval request", ans.Kind)
	}
	a.note(name, ans, c)
	if c.State == message.ToolCallSubmitted {
		a.mustAgree(c)
	}
	a.call = c
}

func (a *agreement) note(name string, ans toolcall.Response, c *toolcall.Call) {
	if c.Votes[len(c.Votes)-1].Edited { // an edit voids all earlier responses, even if it restores old arguments
		for _, by := range a.said {
			clear(by)
		}
	}
	if a.said[c.Digest] == nil {
		a.said[c.Digest] = map[string]bool{}
	}
	a.said[c.Digest][name] = ans.Kind == toolcall.ResponseApprove
}

// entitled reports whether a rule asks the person.
func (a *agreement) entitled(name string) bool {
	for _, r := range a.rules {
		if r.Approvers.ExcludeRequester && name == "bot" {
			return false
		}
	}
	named := false
	for _, r := range a.rules {
		if len(r.Approvers.Groups) > 0 {
			named = true
			if a.of(r, name) {
				return true
			}
		}
	}
	return !named
}

func (a *agreement) of(r permission.Rule, name string) bool {
	return len(r.Approvers.Groups) == 0 || slices.Contains(r.Approvers.Users, name) || slices.Contains(a.people[name], r.Approvers.Groups[0])
}

// mustAgree checks for each rule separately that enough of its approvers approved these arguments.
func (a *agreement) mustAgree(c *toolcall.Call) {
	for _, r := range a.rules {
		n := 0
		for name, yes := range a.said[c.Digest] {
			if yes && a.of(r, name) && a.entitled(name) {
				n++
			}
		}
		if n < max(r.Quorum, 1) {
			a.Fatalf("%s runs with %d approvals for the rule %s, which requires %d of %+v: %v", c.Input, n, r.Name, r.Quorum, r.Approvers, a.said[c.Digest])
		}
	}
	if digest, err := c.Request.Digest(); err != nil || digest != c.Digest || c.Request.Input != c.Input {
		a.Fatalf("the call that runs is not the one in the approval request: %s, %s, %v", digest, c.Digest, err)
	}
}

// digests returns the digests of earlier approval requests.
func (a *agreement) digests() []string {
	var out []string
	for d := range a.said {
		if d != a.call.Digest {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

func (a *agreement) size() int {
	records, _, err := a.journal.Read(context.Background(), a.call.SessionKey(), 0, 1<<20)
	if err != nil {
		a.Fatal(err)
	}
	return len(records)
}
