package engine_test

import (
	"context"
	"errors"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func requesterCases() []engineCase {
	return []engineCase{
		{"rules read the groups of the requester", requesterGroups}, {"people who requested a call around this one", requesterAround},
		{"only people who requested a call around this one could respond", onlyRequestersAround},
	}
}

// The groups come from the directory, are recorded with the call and apply to its later
// decisions. Unknown groups never allow a call.
func requesterGroups(w *world) {
	rules := []permission.Rule{
		{Name: "support", Tools: []string{deploy}, Behavior: message.BehaviorAllow, When: `"support" in caller.groups`},
		{Name: "insiders", Tools: []string{echo}, Behavior: message.BehaviorAllow, When: `!("contractors" in caller.groups)`},
	}
	w.policy.use(w, rules...)
	known := w.engine(engine.WithDirectory(engine.StaticDirectory{"bot": {"support", "contractors"}}))
	if c := known.propose(call("a", deploy, `{"n":1}`))[0]; c.Decision.Rule != "support" || len(c.Groups()) != 2 || c.Requester.From != "static" {
		w.Errorf("a member's call is decided %+v, with groups %v of %+v", c.Decision, c.Groups(), c.Requester)
	}
	if c := known.propose(call("b", echo, `{}`))[0]; c.Decision.Rule == "insiders" || c.State != message.ToolCallAsking {
		w.Errorf("a contractor's call is %s by %+v", c.State, c.Decision)
	}
	stranger := w.engine(engine.WithDirectory(engine.StaticDirectory{}))
	if c := stranger.propose(call("c", echo, `{}`))[0]; c.Decision.Rule != "insiders" || c.Groups() == nil {
		w.Errorf("the call of a requester without groups is decided %+v with groups %#v", c.Decision, c.Groups())
	}
	for name, dir := range map[string]engine.Directory{
		"no source": noSource{}, "an error": directoryFunc(func(context.Context) ([]string, error) { return []string{"support"}, errors.New("down") }),
		"too many": engine.StaticDirectory{"bot": {"support", strings.Repeat("x", 9000)}},
	} {
		e := w.engine(engine.WithDirectory(dir))
		for _, tool := range []string{deploy, echo} {
			if c := e.propose(call(message.CallID(name+tool), tool, `{"n":1}`))[0]; c.State != message.ToolCallAsking || c.Groups() != nil {
				w.Errorf("%s: the call of %s is %s, groups %#v", name, tool, c.State, c.Groups())
			}
		}
	}
	w.policy.use(w, permission.Rule{Name: "all", Tools: []string{deploy}, Behavior: message.BehaviorAllow})
	if c := known.propose(call("d", deploy, `{"n":2}`))[0]; c.Groups() != nil {
		w.Errorf("no rule reads the groups, but the call has %v", c.Groups())
	}
}

// A person who may not approve their own request may not approve what other runtimes request within
// it, however deep.
func requesterAround(w *world) {
	w.policy.use(w, permission.Rule{Name: "first", Tools: []string{external}, Behavior: message.BehaviorAllow},
		permission.Rule{Name: "four eyes", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{ExcludeRequester: true}})
	e := w.engine()
	c := e.proposeWithin("ann", "helper", "bob", "worker")
	for _, name := range []string{"ann", "Ann", "helper", "bob", "worker"} {
		e.refuses(name, approve(c), message.ErrForbidden)
		to := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseDelegate, To: name}
		e.refuses("cy", to, message.ErrForbidden)
	}
	e.answers("cy", approve(c))
}

// If only people who requested a call around this one could respond, the policy denies it at once.
func onlyRequestersAround(w *world) {
	rule := func(users ...string) {
		w.policy.use(w, permission.Rule{Name: "first", Tools: []string{external}, Behavior: message.BehaviorAllow},
			permission.Rule{Name: "four eyes", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: users, ExcludeRequester: true}})
	}
	e := w.engine()
	rule("ann", "bob")
	if c := e.proposeWithin("Ann", "bob", "worker"); c.State != message.ToolCallFinished || !strings.Contains(c.Decision.Reason, "too few people can respond") {
		w.Errorf("the call is %s by %+v, but no one can respond", c.State, c.Decision)
	}
	rule("ann", "cy")
	if c := e.proposeWithin("ann", "helper", "tester"); c.State != message.ToolCallAsking {
		w.Errorf("the call is %s by %+v, but cy can respond", c.State, c.Decision)
	}
}

// proposeWithin proposes a call of each runtime within that of the one before, and returns the last
// call, which deploys.
func (r *replica) proposeWithin(runtimes ...string) *toolcall.Call {
	r.w.Helper()
	var c *toolcall.Call
	for i, runtime := range runtimes {
		req := toolcall.ProposeRequest{Session: message.SessionID("of " + strings.Join(runtimes[:i+1], " ")), Reply: "r", Calls: []message.ToolCallBlock{call("c", external, `{"n":1}`)}}
		if c != nil {
			req.Parent = &toolcall.ParentKey{Session: c.Session, Reply: c.Reply, Call: c.Call}
		}
		if i == len(runtimes)-1 {
			req.Calls[0].Name = deploy
		}
		out, err := r.as(toolcall.RoleRuntime, runtime).Propose(r.w.Context(), req)
		r.w.must(err)
		c = out.Calls[0]
	}
	return c
}

type noSource struct{}

func (noSource) Groups(context.Context, toolcall.Principal) (engine.Membership, error) {
	return engine.Membership{}, nil
}
