package engine_test

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func declareCases() []engineCase {
	return []engineCase{
		{"a declared schema applies to the tool", declaredSchema},
		{"claims allow nothing", claimsAllowNothing},
		{"a changed definition is a new tool", changedDefinition},
		{"definitions outlive an engine", definitionsStay},
		{"definitions that are refused", refusedDefinitions},
		{"the engine's own definition wins", ownDefinitionWins},
		{"a preview reads definitions", previewDeclares},
		{"calls within calls", nestedCalls},
		{"parents that are refused", refusedParents},
	}
}

const picker = "picker"

const (
	pickOne  = `{"type":"object","required":["of"],"additionalProperties":false,"properties":{"of":{"type":"integer"}}}`
	pickMany = `{"type":"object","required":["of"],"additionalProperties":false,"properties":{"of":{"type":"array","items":{"type":"integer"}}}}`
)

// about is a rule for a tool that no tools file declares.
func about(name string, b message.Behavior, when string) permission.Rule {
	return permission.Rule{Name: name, Tools: []string{permission.Frontend + picker}, Behavior: b, When: when}
}

func define(schema string, a toolcall.ToolAnnotations) toolcall.ToolDefinition {
	return toolcall.ToolDefinition{Name: picker, Description: "Picks.", InputSchema: message.RawJSON(schema), Annotations: a}
}

// declares proposes calls with definitions.
func (r *replica) declares(defs []toolcall.ToolDefinition, calls ...message.ToolCallBlock) []*toolcall.Call {
	r.w.Helper()
	req := request(calls...)
	req.Tools = defs
	out, err := r.bot().Propose(r.w.Context(), req)
	if err != nil {
		r.w.Fatalf("propose: %v", err)
	}
	return out.Calls
}

// Arguments that do not fit are refused as for a tool of the tools file, even if an approver
// edits them or a later proposal does not repeat the definition.
func declaredSchema(w *world) {
	e := w.engine()
	one := []toolcall.ToolDefinition{define(pickOne, toolcall.ToolAnnotations{})}
	out := e.declares(one, call("bad", picker, `{"of":"x"}`), call("c", picker, `{"of":2}`))
	w.wantResult(out[0], message.ToolResultError, "the arguments do not fit the tool's schema")
	c := out[1]
	if c.State != message.ToolCallAsking || c.Placement != toolcall.PlaceExternal || c.Definition == nil || c.Definition.Changed() || c.Request.Definition.Hash != c.Definition.Hash {
		w.Fatalf("a call of a declared tool is %s with %+v", describe(c), c.Definition)
	}
	resp := approve(c)
	edited := `{"of":[3]}`
	resp.Input = &edited
	e.refuses("ann", resp, message.ErrInvalid)
	later := e.propose(call("d", picker, `{"of":"y"}`), call("e", picker, `{"of":5}`))
	w.wantResult(later[0], message.ToolResultError, "the arguments do not fit the tool's schema")
	if d := later[1].Definition; d == nil || d.Hash != c.Definition.Hash {
		w.Errorf("a later proposal has the definition %+v", d)
	}
	if again := e.declares(one, call("c", picker, `{"of":2}`))[0]; again.Seq != c.Seq {
		w.Errorf("the same proposal again moved the call to %d", again.Seq)
	}
	r := request(call("c", picker, `{"of":2}`))
	r.Tools = []toolcall.ToolDefinition{define(pickMany, toolcall.ToolAnnotations{})}
	_, err := e.bot().Propose(w.Context(), r)
	w.wantErr(err, message.ErrConflict)
}

// Rules read claims only from tool.claims; a tool's annotations adopt only claims that make
// rules stricter.
func claimsAllowNothing(w *world) {
	harmless, harmful := toolcall.ToolAnnotations{ReadOnly: true, Idempotent: true}, toolcall.ToolAnnotations{Destructive: true, OpenWorld: true}
	for i, row := range []struct {
		rules []permission.Rule
		claim toolcall.ToolAnnotations
		want  message.Behavior
	}{
		{nil, harmless, message.BehaviorAsk},
		{[]permission.Rule{about("trusts", message.BehaviorAllow, "tool.annotations.read_only || tool.annotations.idempotent")}, harmless, message.BehaviorAsk},
		{[]permission.Rule{about("trusts", message.BehaviorAllow, "tool.claims.read_only")}, harmless, message.BehaviorAllow},
		{[]permission.Rule{about("trusts", message.BehaviorAllow, "tool.claims.read_only")}, harmful, message.BehaviorAsk},
		{[]permission.Rule{about("stops", message.BehaviorDeny, "tool.annotations.destructive && tool.annotations.open_world")}, harmful, message.BehaviorDeny},
		{[]permission.Rule{about("stops", message.BehaviorDeny, "!tool.annotations.read_only")}, harmless, message.BehaviorDeny},
		{[]permission.Rule{about("pins", message.BehaviorAllow, `tool.hash == "`+hashOf(w, define(pickOne, harmless))+`" && !tool.changed`)}, harmless, message.BehaviorAllow},
		{[]permission.Rule{about("pins", message.BehaviorAllow, `tool.hash == "`+hashOf(w, define(pickOne, harmless))+`"`)}, harmful, message.BehaviorAsk},
	} {
		w.policy.use(w, row.rules...)
		c := w.engine().declares([]toolcall.ToolDefinition{define(pickOne, row.claim)}, call(message.CallID(fmt.Sprint("c", i)), picker, `{"of":1}`))[0]
		if c.Decision == nil || c.Decision.Behavior != row.want {
			w.Errorf("%d: a tool that claims %+v is decided with %+v, want %s", i, row.claim, c.Decision, row.want)
		}
	}
}

func hashOf(w *world, d toolcall.ToolDefinition) string {
	t, err := toolcall.Declare(d)
	w.must(err)
	return t.Hash
}

// A rule remembered under one definition does not apply to another definition, and people
// see that the definition changed.
func changedDefinition(w *world) {
	w.policy.use(w, about("stops", message.BehaviorDeny, "tool.changed && tool.claims.open_world"))
	e := w.engine()
	first, second := define(pickOne, toolcall.ToolAnnotations{}), define(pickMany, toolcall.ToolAnnotations{})
	plain := e.declares([]toolcall.ToolDefinition{first}, call("a", picker, `{"of":1}`))[0]
	resp := approve(plain)
	resp.Rules = plain.Suggested
	e.answers("ann", resp)
	if c := e.propose(call("b", picker, `{"of":2}`))[0]; c.State == message.ToolCallAsking {
		w.Fatalf("the remembered rule does not apply: %s", describe(c))
	}
	c := e.declares([]toolcall.ToolDefinition{second}, call("c", picker, `{"of":[1]}`))[0]
	w.wantBy(c, "")
	if !c.Definition.Changed() || c.Definition.First != plain.Definition.Hash || !c.Request.Definition.Changed() {
		w.Errorf("the call of the changed tool has %+v", c.Definition)
	}
	s := e.remember(c, toolcall.StandingTerms{Uses: 5})
	w.wantBy(e.propose(call("d", picker, `{"of":[2]}`))[0], s.ID) // the newest definition applies
	w.wantBy(e.declares([]toolcall.ToolDefinition{define(pickMany, toolcall.ToolAnnotations{Destructive: true})}, call("e", picker, `{"of":[2]}`))[0], "")
	if c := e.declares([]toolcall.ToolDefinition{first}, call("f", picker, `{"of":2}`))[0]; c.Definition.Changed() || c.State == message.ToolCallAsking {
		w.Errorf("with its first definition the tool is %s with %+v", describe(c), c.Definition)
	}
	if c := e.declares([]toolcall.ToolDefinition{define(pickOne, toolcall.ToolAnnotations{OpenWorld: true})}, call("g", picker, `{"of":2}`))[0]; c.Decision.Behavior != message.BehaviorDeny {
		w.Errorf("a rule about tool.changed decides %+v", c.Decision)
	}
	shown, err := e.ann().Show(w.Context(), toolcall.ShowRequest{Key: c.Key})
	w.must(err)
	if d := shown.Definition; d == nil || d.Hash != c.Definition.Hash || d.Description != "Picks." || string(d.InputSchema) != pickMany {
		w.Errorf("people are shown %+v", d)
	}
	why, err := e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: c.Key})
	w.must(err)
	if !why.Definition.Changed() {
		w.Errorf("the explanation has the definition %+v", why.Definition)
	}
}

// The next engine knows the definitions from the journal.
func definitionsStay(w *world) {
	e := w.engine()
	c := e.declares([]toolcall.ToolDefinition{define(pickOne, toolcall.ToolAnnotations{})}, call("c", picker, `{"of":1}`))[0]
	e.kill()
	e = w.engine()
	resp := approve(c)
	edited := `{"of":"x"}`
	resp.Input = &edited
	e.refuses("ann", resp, message.ErrInvalid)
	edited = `{"of":7}`
	if c = e.answers("ann", resp); c.State != message.ToolCallSubmitted || c.Input != edited {
		w.Errorf("approved with an edit it is %s", describe(c))
	}
	w.wantResult(e.propose(call("d", picker, `{}`))[0], message.ToolResultError, "the arguments do not fit the tool's schema")
}

func refusedDefinitions(w *world) {
	e := w.engine()
	long := define(`{"type":"object","description":"`+strings.Repeat("x", toolcall.MaxDefinitionBytes)+`"}`, toolcall.ToolAnnotations{})
	var many []toolcall.ToolDefinition
	for i := range toolcall.MaxDefinitions + 1 {
		many = append(many, toolcall.ToolDefinition{Name: fmt.Sprint("t", i)})
	}
	for name, row := range map[string]struct {
		defs []toolcall.ToolDefinition
		want *message.Error
		text string
	}{
		"a schema that does not compile": {[]toolcall.ToolDefinition{define(`{"type":"objekt"}`, toolcall.ToolAnnotations{})}, message.ErrInvalid, "tools[0]: the input_schema of the tool picker does not compile"},
		"a schema that is no object":     {[]toolcall.ToolDefinition{define(`[]`, toolcall.ToolAnnotations{})}, message.ErrInvalid, "does not compile"},
		"no name":                        {[]toolcall.ToolDefinition{{}}, message.ErrInvalid, "tools[0]: name is empty"},
		"declared twice":                 {[]toolcall.ToolDefinition{{Name: picker}, {Name: picker}}, message.ErrInvalid, "tools[1]: the tool picker is declared twice"},
		"of the engine":                  {[]toolcall.ToolDefinition{{Name: echo}}, message.ErrInvalid, "tools[0]: the tool echo is not run by the runtime: its placement is local"},
		"too long":                       {[]toolcall.ToolDefinition{long}, message.ErrTooLarge, "the limit is"},
		"too many":                       {many, message.ErrTooLarge, "the limit is"},
	} {
		r := request(call("c", picker, `{}`))
		r.Tools = row.defs
		for _, err := range []error{second(e.bot().Propose(w.Context(), r)), second(api.Preview.Call(w.Context(), e.bot(), api.PreviewRequest{ProposeRequest: r}))} {
			if e := w.refusal(err, row.want); !strings.Contains(e.What, row.text) {
				w.Errorf("%s: %v, want %s", name, e, row.text)
			}
		}
	}
	w.wantSize(0)
}

func ownDefinitionWins(w *world) {
	e := w.engine()
	d := toolcall.ToolDefinition{Name: external, InputSchema: message.RawJSON(pickOne)}
	if c := e.declares([]toolcall.ToolDefinition{d}, call("c", external, `{"any":true}`))[0]; c.State != message.ToolCallSubmitted || c.Definition != nil {
		w.Errorf("a call of the engine's tool is %s with %+v", describe(c), c.Definition)
	}
}

func previewDeclares(w *world) {
	w.policy.use(w, about("trusts", message.BehaviorAllow, "tool.claims.read_only && !tool.changed"))
	e := w.engine()
	e.declares([]toolcall.ToolDefinition{define(pickOne, toolcall.ToolAnnotations{ReadOnly: true})}, call("c", picker, `{"of":1}`))
	size := len(w.records())
	look := func(d ...toolcall.ToolDefinition) []api.PreviewedCall {
		r := request(call("d", picker, `{"of":2}`), call("e", picker, `{"of":[2]}`))
		r.Tools = d
		out, err := api.Preview.Call(w.Context(), e.bot(), api.PreviewRequest{ProposeRequest: r})
		w.must(err)
		return out.Calls
	}
	if out := look(); out[0].Decision == nil || out[0].Decision.Behavior != message.BehaviorAllow || !strings.Contains(out[1].Refused, "the arguments do not fit the tool's schema") {
		w.Errorf("with the session's definition the preview is %+v", out)
	}
	if out := look(define(pickMany, toolcall.ToolAnnotations{ReadOnly: true})); !out[0].Definition.Changed() || out[0].Refused == "" || out[1].Decision.Behavior != message.BehaviorAsk {
		w.Errorf("with a changed definition the preview is %+v", out)
	}
	w.wantSize(size)
}

// within proposes a call of another session within a call.
func (r *replica) within(c *toolcall.Call, session message.SessionID, b message.ToolCallBlock) (*toolcall.Call, error) {
	req := toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{b}, Parent: &toolcall.ParentKey{Session: c.Session, Reply: c.Reply, Call: c.Call}}
	out, err := r.bot().Propose(r.w.Context(), req)
	if err != nil {
		return nil, err
	}
	return out.Calls[0], nil
}

func nestedCalls(w *world) {
	w.policy.use(w, append(rules(),
		permission.Rule{Name: "not-nested", Tools: []string{deploy}, Behavior: message.BehaviorDeny, When: `call.depth > 0 && call.parent.tool == "external" && call.parent.user == caller.user && call.parent.agent == "agent"`},
		permission.Rule{Name: "by-parent", Tools: []string{note}, Behavior: message.BehaviorDeny, When: `has(call.parent) && caller.parent_agent == "agent"`},
	)...)
	e := w.engine()
	around := e.propose(call("outer", external, `{}`))[0]
	inner, err := e.within(around, "sub", call("c", deploy, `{}`))
	w.must(err)
	if p := inner.Parent; p == nil || p.Call != "outer" || p.Tool != external || p.Depth != 1 || p.Agent != "agent" || inner.Decision.Rule != "not-nested" {
		w.Errorf("the call within has the parent %+v and is decided with %+v", p, inner.Decision)
	}
	if c, err := e.within(around, "sub", call("d", note, `{}`)); err != nil || c.Decision.Rule != "by-parent" {
		w.Errorf("the agent of the parent is not seen: %v, %+v", err, c)
	}
	if c := e.ask("alone", deploy, `{}`); c.Parent != nil {
		w.Errorf("a call without a parent has %+v", c.Parent)
	}
	again, err := e.within(around, "sub", call("c", deploy, `{}`))
	w.must(err)
	if again.Seq != inner.Seq {
		w.Errorf("the same proposal again moved the call to %d", again.Seq)
	}
	r := toolcall.ProposeRequest{Session: "sub", Reply: "r", Calls: []message.ToolCallBlock{call("c", deploy, `{}`)}}
	out, err := e.bot().Propose(w.Context(), r)
	w.must(err)
	if c := out.Calls[0]; c.Seq != inner.Seq || c.Parent == nil {
		w.Errorf("proposed again without its parent it is %+v", c)
	}
	for i := range toolcall.MaxDepth {
		around, err = e.within(around, message.SessionID(fmt.Sprint("s", i)), call("c", external, `{}`))
		w.must(err)
	}
	if around.Depth() != toolcall.MaxDepth {
		w.Errorf("the depth is %d", around.Depth())
	}
	w.wantErr(second(e.within(around, "last", call("c", external, `{}`))), message.ErrTooLarge)
}

func refusedParents(w *world) {
	e := w.engine()
	asking, done := e.ask("asking", deploy, `{}`), e.propose(call("done", external, `{}`))[0]
	_, err := e.bot().Report(w.Context(), toolcall.ReportRequest{Key: done.Key, Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "ok"}}})
	w.must(err)
	denied := e.propose(call("denied", rm, `{}`))[0]
	stopped, err := e.within(done, "stopped", call("c", external, `{}`)) // a sub-agent that continues in the background
	w.must(err)
	child, err := e.within(stopped, "child", call("c", external, `{}`))
	w.must(err)
	_, err = e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "stopped", Reply: "r"})
	w.must(err)
	refused := e.propose(call("refused", external, `[]`))[0]
	answered := e.ask("answered", deploy, `{}`)
	answered, err = e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: answered.Key, Digest: answered.Digest, Kind: toolcall.ResponseRespond, Output: "done"})
	w.must(err)
	unknown := *done
	unknown.Call = "unknown"
	for name, row := range map[string]struct {
		parent *toolcall.Call
		want   *message.Error
	}{
		"unknown": {&unknown, message.ErrNotFound}, "without an id": {&toolcall.Call{}, message.ErrInvalid},
		"not allowed yet": {asking, message.ErrState}, "denied": {denied, message.ErrState}, "refused": {refused, message.ErrState}, "answered in place": {answered, message.ErrState}, "interrupted": {stopped, message.ErrInterrupted},
	} {
		_, err := e.within(row.parent, "new", call("c", external, `{}`))
		if !strings.Contains(w.refusal(err, row.want).What, "parent: ") {
			w.Errorf("%s: %v", name, err)
		}
	}
	_, err = e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "other"}).Propose(w.Context(), toolcall.ProposeRequest{
		Session: "other", Reply: "r", Calls: []message.ToolCallBlock{call("c", external, `{}`)}, Parent: &toolcall.ParentKey{Session: asking.Session, Reply: asking.Reply, Call: asking.Call},
	})
	if refused := w.refusal(err, message.ErrNotFound); refused.Call != nil || strings.Contains(refused.What, "allowed") {
		w.Errorf("the refusal shows another runtime the call: %v, %v", err, toolcall.CallOf(err))
	}
	again, err := e.within(stopped, "child", call("c", external, `{}`)) // a recorded call stays valid
	w.must(err)
	if again.Seq != child.Seq {
		w.Errorf("the same proposal again moved the call to %d", again.Seq)
	}
	r := request(call("self", external, `{}`))
	for _, id := range []message.CallID{"self", "done"} {
		r.Parent = &toolcall.ParentKey{Session: "s", Reply: "r", Call: id}
		w.wantErr(second(e.bot().Propose(w.Context(), r)), message.ErrInvalid)
	}
}
