package agenthook

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// overtaken is a client that loses every race: before each of its events, the same event is
// written with another call as the holder.
type overtaken struct{ engine.Client }

func (o overtaken) Emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	first := r
	first.Events = []message.RawJSON{message.RawJSON(strings.Replace(string(r.Events[0]), `"holder":"late"`, `"holder":"early"`, 1))}
	if _, err := o.Client.Emit(ctx, first); err != nil {
		return toolcall.EmitReply{}, err
	}
	return o.Client.Emit(ctx, r)
}

// The first claim in the journal counts, regardless of when it is read.
func TestFirstClaimCounts(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	call := w.A.Propose("s", "r", "c", gatewaytest.Browse, `{}`)
	bot := w.A.Client(gatewaytest.Bot)
	of := func(id string, c engine.Client) *gate {
		return &gate{c: c, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
	}
	claim := func(id string, c engine.Client, want bool) {
		t.Helper()
		if mine, err := of(id, c).claim(t.Context(), call); err != nil || mine != want {
			t.Errorf("claim of %s: %t, %v", id, mine, err)
		}
	}
	claim("other", bot, false) // its hook is still waiting
	if err := of("other", bot).release(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	claim("other", bot, false) // only the holder can release it
	if err := of("c", bot).release(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	claim("late", overtaken{bot}, false)
	claim("early", bot, true)
	claim("other", bot, false)
}

// away is a server that cannot be reached when a call begins.
type away struct{ engine.Client }

func (away) Begin(context.Context, toolcall.BeginRequest) (*toolcall.Call, error) {
	return nil, &message.Error{Code: message.CodeUnavailable, What: "away"}
}

// An approved call whose begin fails is not lost: the agent does not run it, and its next call with
// the same arguments does.
func TestBeginFails(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	bot := w.A.Client(gatewaytest.Bot)
	for i, c := range []engine.Client{away{bot}, bot} {
		g := &gate{c: c, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: []string{"first", "second"}[i], Tool: gatewaytest.Lookup, Input: message.RawJSON(`{}`)}}
		if v, err := g.decide(t.Context()); (err == nil) != (i == 1) || err == nil && v.Behavior != message.BehaviorAllow {
			t.Errorf("hook %d: %+v, %v", i+1, v, err)
		}
	}
	list, err := bot.List(t.Context(), toolcall.ListRequest{All: true})
	if err != nil || len(list.Calls) != 1 || list.Calls[0].Phase() != toolcall.PhaseRunning {
		t.Errorf("the calls are %+v, %v; want one that runs", list.Calls, err)
	}
}

// keyless is an engine that does not know an approver's key while unknown is set.
type keyless struct {
	engine.Client
	unknown *bool
}

func (k keyless) mark(c *toolcall.Call) *toolcall.Call {
	if c = c.Clone(); *k.unknown && c.Phase() == toolcall.PhaseQueued {
		c.Blocked, c.BlockedReason = toolcall.BlockedKey, "the key of bob is unknown"
	}
	return c
}

func (k keyless) Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	out, err := k.Client.Show(ctx, r)
	if err == nil {
		out.Call = k.mark(out.Call)
	}
	return out, err
}

func (k keyless) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	if !*k.unknown {
		return k.Client.Begin(ctx, r)
	}
	shown, err := k.Show(ctx, toolcall.ShowRequest{Key: r.Key})
	if err != nil {
		return nil, err
	}
	return nil, &message.Error{Code: message.CodeUnavailable, Call: toolcall.ErrorCall(shown.Call), What: "the key of bob is unknown", Hint: "try again"}
}

// A call whose approver's key is unknown has not run: the agent is told why, and runs it once the key
// is known.
func TestUnknownApproverKey(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	unknown := true
	c := keyless{w.A.Client(gatewaytest.Bot), &unknown}
	decide := func() (dialect.Verdict, error) {
		g := &gate{c: c, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: "c", Tool: gatewaytest.Lookup, Input: message.RawJSON(`{}`)}}
		return g.decide(t.Context())
	}
	for range 2 {
		v, err := decide()
		if err == nil {
			t.Fatalf("a call that cannot begin: %+v", v)
		}
		if text := failureText(err); !strings.Contains(text, "the key of bob is unknown. try again") {
			t.Errorf("the agent is told %q", text)
		}
	}
	unknown = false
	if v, err := decide(); err != nil || v.Behavior != message.BehaviorAllow {
		t.Errorf("once the key is known: %+v, %v", v, err)
	}
}

// If a call cannot begin, it is released also after an earlier request about it claimed it and died.
func TestBeginFailsAfterRepeat(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	bot, call := w.A.Client(gatewaytest.Bot), w.A.Propose("s", "r", "c", gatewaytest.Browse, `{}`)
	of := func(id string, c engine.Client) *gate {
		return &gate{c: c, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Turn: "r", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
	}
	if mine, err := of("c", bot).claim(t.Context(), call); err != nil || !mine {
		t.Fatal(mine, err)
	}
	w.A.Approve(gatewaytest.Ann, call.Key)
	if v, err := of("c", away{bot}).decide(t.Context()); err == nil {
		t.Errorf("a call that cannot begin: %+v", v)
	}
	if v, err := of("next", bot).decide(t.Context()); err != nil || v.Behavior != message.BehaviorAllow {
		t.Errorf("the next call: %+v, %v", v, err)
	}
}

// The claim of a call has a limit, ids of agents have another.
func TestLongCallIDs(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	for _, id := range []string{strings.Repeat("x", maxHolder), strings.Repeat("x", maxHolder+1)} {
		for range 2 {
			g := &gate{c: w.A.Client(gatewaytest.Bot), ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: id, Tool: gatewaytest.Lookup, Input: message.RawJSON(`{"n":` + fmt.Sprint(len(id)) + `}`)}}
			if v, err := g.decide(t.Context()); err != nil || v.Behavior != message.BehaviorAllow {
				t.Errorf("an id of %d bytes: %+v, %v", len(id), v, err)
			}
		}
	}
}

// A request that ends after the agent has repeated its event frees nothing: otherwise two calls
// would run on one approval.
func TestLateReleaseOfRepeatedEvent(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	call := w.A.Propose("s", "r", "c", gatewaytest.Browse, `{}`)
	of := func(id string) *gate {
		return &gate{c: w.A.Client(gatewaytest.Bot), ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Turn: "r", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
	}
	claim := func(g *gate, want bool) {
		t.Helper()
		if mine, err := g.claim(t.Context(), call); err != nil || mine != want {
			t.Errorf("claim of %s: %t, %v", g.ev.Call, mine, err)
		}
	}
	release := func(g *gate) {
		t.Helper()
		if err := g.release(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	proposer, second, third := of("c"), of("c"), of("c")
	claim(second, true)
	release(proposer)
	claim(of("other"), false)
	claim(third, true)
	release(second)
	claim(of("other"), false)
	release(third)
	claim(of("other"), true)
}

// A request that loses the claim of one call releases the call that it proposes instead, so that a
// later call can take it.
func TestReleaseAfterLostClaim(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	bot, first := w.A.Client(gatewaytest.Bot), w.A.Propose("s", "r", "c1", gatewaytest.Browse, `{}`)
	of := func(id string, c engine.Client) *gate {
		return &gate{c: c, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
	}
	if err := of("c1", bot).release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if v, err := of("late", overtaken{bot}).decide(t.Context()); err != nil || v.Behavior != message.BehaviorDeny {
		t.Fatalf("the request that gives up: %+v, %v", v, err)
	}
	second := toolcall.Key{Session: "s", Reply: "late", Call: "late"}
	w.A.Approve(gatewaytest.Ann, second)
	if v, err := of("next", bot).decide(t.Context()); err != nil || v.Behavior != message.BehaviorAllow {
		t.Errorf("the later call: %+v, %v", v, err)
	}
	if c := w.A.Show(second); c.Attempt.Claim != "next" {
		t.Errorf("the approved call is %s for %q", c.Phase(), c.Attempt.Claim)
	}
}

// Of two free calls, a later one takes the call that is decided.
func TestDecidedCallIsTaken(t *testing.T) {
	for decided := range 2 {
		w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
			return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
		}))
		of := func(id string) *gate {
			return &gate{c: w.A.Client(gatewaytest.Bot), ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
		}
		var keys []toolcall.Key
		for _, id := range []string{"c0", "c1"} {
			c := w.A.Propose("s", "r"+id, id, gatewaytest.Browse, `{}`)
			if err := of(id).release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			keys = append(keys, c.Key)
		}
		w.A.Approve(gatewaytest.Ann, keys[decided])
		if v, err := of("next").decide(t.Context()); err != nil || v.Behavior != message.BehaviorAllow {
			t.Errorf("call %d is decided: %+v, %v", decided, v, err)
		}
	}
}

// A release counts, however many records of other replies come before it.
func TestReleaseAfterManyRecords(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{New(func(toolcall.SpaceID) string { return "" })}
	}))
	call := w.A.Propose("s", "r", "c", gatewaytest.Browse, `{}`)
	bot := w.A.Client(gatewaytest.Bot)
	of := func(id string) *gate {
		return &gate{c: bot, ev: &dialect.Event{Dialect: dialect.ClaudeCode, Session: "s", Call: id, Tool: gatewaytest.Browse, Input: message.RawJSON(`{}`)}}
	}
	elsewhere := call.Key
	elsewhere.Reply = "another"
	for range 1100 { // a page has 1000 records
		if err := of("x").emit(t.Context(), elsewhere, "note", map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := of("c").release(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if mine, err := of("next").claim(t.Context(), call); err != nil || !mine {
		t.Errorf("claim of a released call: %t, %v", mine, err)
	}
}
