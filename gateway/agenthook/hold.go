package agenthook

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The holder of an open call is the agent's call for which it stands. First that is the call that
// was proposed. When its hook stops waiting, it releases the call, and the next call with the
// same arguments claims it. Two calls must never run on one approval, so releases and claims are
// events in the journal, and their order there decides.

// The names of the events.
const (
	eventReleased   = "hook.released"
	eventClaimed    = "hook.claimed"
	eventRanUnasked = "hook.ran_unasked"
)

type holderEvent struct {
	Type  message.EventType `json:"type"`
	Name  string            `json:"name"`
	Value struct {
		Call   message.CallID `json:"tool_call_id"`
		Holder message.CallID `json:"holder"`
	} `json:"value"`
}

// settleWithin bounds the time to record a release after the agent has gone.
const settleWithin = 10 * time.Second

// isInvocation reports whether the agent gave the call no id.
func isInvocation(id message.CallID) bool { return strings.HasPrefix(string(id), "hook-") }

func (g *gate) emit(ctx context.Context, k toolcall.Key, name string, value map[string]any) error {
	raw, err := strictjson.Marshal(&message.Custom{EventHeader: message.NewHeader(""), Name: name, Value: value})
	if err != nil {
		return err
	}
	_, err = g.c.Emit(ctx, toolcall.EmitRequest{Session: k.Session, Reply: k.Reply, Events: []message.RawJSON{raw}})
	return err
}

// holder returns the agent's call for which c stands, or "" if no hook waits for c.
func (g *gate) holder(ctx context.Context, c *toolcall.Call) (message.CallID, error) {
	holder := c.Call
	r := toolcall.EventsRequest{Session: c.Session, Reply: c.Reply, After: c.First}
	for {
		page, err := g.c.Events(ctx, r)
		if err != nil {
			return "", err
		}
		for _, e := range page.Events {
			var ev holderEvent
			if err := strictjson.UnmarshalOpen(e.Event, &ev); err != nil || ev.Type != message.EventCustom || ev.Value.Call != c.Call {
				continue
			}
			switch {
			case ev.Name == eventReleased && ev.Value.Holder == holder:
				holder = ""
			case ev.Name == eventClaimed && holder == "":
				holder = ev.Value.Holder
			}
		}
		if page.Next <= r.After || len(page.Events) == 0 {
			return holder, nil
		}
		r.After = page.Next
	}
}

// claim makes the event's call the holder of c, if no hook waits for c.
func (g *gate) claim(ctx context.Context, c *toolcall.Call) (mine bool, err error) {
	holder, err := g.holder(ctx, c)
	if err != nil || holder != "" {
		return holder == g.id(), err
	}
	if err := g.emit(ctx, c.Key, eventClaimed, map[string]any{"tool_call_id": string(c.Call), "holder": string(g.id())}); err != nil {
		return false, err
	}
	holder, err = g.holder(ctx, c)
	return holder == g.id(), err
}

// release records that the event's call no longer waits for c.
func (g *gate) release(ctx context.Context, c *toolcall.Call) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	return g.emit(ctx, c.Key, eventReleased, map[string]any{"tool_call_id": string(c.Call), "holder": string(g.id())})
}

// report records the result of a tool that ran.
func (g *gate) report(ctx context.Context) error {
	c, err := g.reported(ctx)
	if err != nil {
		return err
	}
	if c == nil {
		return g.noteUnasked(ctx, g.key(), "no call with this id was proposed")
	}
	res := g.ev.Result
	text := shortenResult(res.Text)
	why := "" // the call was not allowed to run like this
	if c.Tool != g.ev.Tool || !dialect.SameRun(g.ev, c.Input) {
		why = "the call ran with another tool or other arguments"
	}
	switch {
	case c.Open():
		r := toolcall.ReportRequest{Key: c.Key, Unasked: true, Result: message.ToolResultBlock{
			ID: c.Call, Name: c.Tool, State: res.State, Output: message.Content{Text: cmp.Or(text, "(no output)")},
		}}
		if !isDecided(c) {
			r.Result.Metadata = map[string]any{"decided_by": "local user", "evidence": "agent-prompt"}
		}
		_, err = g.c.Report(ctx, r)
	case !slices.Contains([]toolcall.Cause{toolcall.CauseResult, toolcall.CauseBypass, toolcall.CauseResolve}, toolcall.Cause(c.Cause)): // else its outcome is known
		why = "the call was " + string(c.State) + " (" + c.Cause + ") when the agent ran it"
	}
	if err != nil || why == "" {
		return err
	}
	return g.noteUnasked(ctx, c.Key, why)
}

// shortenResult cuts a text that is too long for a result, whose limit is on its JSON form.
func shortenResult(text string) string {
	const rest, limit = "\n… the rest is not recorded", toolcall.MaxOutputBytes - 256 // state and metadata follow
	size, cut := 0, 0
	for i, r := range text {
		if size <= limit-2*len(rest) {
			cut = i
		}
		switch {
		case strings.ContainsRune("\"\\\b\f\n\r\t", r):
			size += 2
		case r < ' ':
			size += 6
		default:
			size += utf8.RuneLen(r)
		}
	}
	if size <= limit {
		return text
	}
	return text[:cut] + rest
}

// reported returns the call that the agent ran, or nil if none was proposed.
func (g *gate) reported(ctx context.Context) (*toolcall.Call, error) {
	if g.ev.Call != "" {
		shown, err := g.c.Show(ctx, toolcall.ShowRequest{Key: g.key()})
		if err == nil {
			return shown.Call, nil
		}
		if message.AsError("show", err).Code != message.CodeNotFound {
			return nil, err
		}
	}
	open, err := g.openCalls(ctx)
	if err != nil {
		return nil, err
	}
	var same *toolcall.Call // without an id of the agent
	for _, c := range open {
		if g.ev.Call != "" {
			holder, err := g.holder(ctx, c)
			if err != nil || holder == g.id() {
				return c, err
			}
		}
		if same == nil && isDecided(c) && isInvocation(c.Call) && c.Cwd == g.ev.Cwd && dialect.SameInput(c.Input, string(g.ev.Input)) {
			same = c
		}
	}
	return same, nil
}

// noteUnasked records that the agent ran a tool without permission from askance.
func (g *gate) noteUnasked(ctx context.Context, k toolcall.Key, why string) error {
	return g.emit(ctx, k, eventRanUnasked, map[string]any{
		"tool_call_id": string(k.Call), "tool_name": g.ev.Tool, "proposal": g.proposal(g.ev.Cwd), "state": string(g.ev.Result.State), "why": why,
	})
}
