package console

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// listPage lists calls with the conditions that engines do not carry out yet.
func listPage(ctx context.Context, c engine.Client, p *gateway.Peer, r toolcall.ListRequest) (toolcall.ListReply, error) {
	var all []*toolcall.Call
	var err error
	if r.All {
		all, err = listFinished(ctx, c)
	} else {
		all, err = engine.ListAll(ctx, c, toolcall.ListRequest{V: 1, Session: r.Session, Reply: r.Reply, Call: r.Call}, maxListed)
	}
	if err != nil {
		return toolcall.ListReply{}, err
	}
	out := toolcall.ListReply{Counts: map[toolcall.Phase]int{}}
	for _, call := range all {
		if !meets(call, p, r) {
			continue
		}
		out.Counts[call.Phase()]++
		if len(r.Phases) == 0 || slices.Contains(r.Phases, call.Phase()) {
			out.Calls = append(out.Calls, call)
		}
	}
	slices.SortStableFunc(out.Calls, func(a, b *toolcall.Call) int {
		switch r.Sort {
		case toolcall.SortDeadline:
			return cmp.Compare(orderOf(a, filter{Show: showOpen}), orderOf(b, filter{Show: showOpen}))
		case toolcall.SortTool:
			return cmp.Compare(a.Tool, b.Tool)
		case toolcall.SortAgent:
			return cmp.Compare(a.Agent, b.Agent)
		case toolcall.SortAge:
			return cmp.Compare(b.First, a.First)
		}
		return 0
	})
	from, _ := strconv.Atoi(r.Cursor)
	out.Calls = out.Calls[min(max(from, 0), len(out.Calls)):]
	if r.Limit > 0 && len(out.Calls) > r.Limit {
		out.Calls, out.Cursor = out.Calls[:r.Limit], strconv.Itoa(from+r.Limit)
	}
	return out, nil
}

// meets reports whether a call meets all conditions but that of the phase.
func meets(c *toolcall.Call, p *gateway.Peer, r toolcall.ListRequest) bool {
	in := func(all []string, v string) bool { return len(all) == 0 || slices.Contains(all, v) }
	if r.Mine {
		_, voted := asked.VoteOf(c, p.Name)
		if voted || c.State != message.ToolCallAsking || asked.MayRespond(c, p.Name) == asked.No {
			return false
		}
	}
	if len(r.Sessions) > 0 && !slices.Contains(r.Sessions, c.Session) || !in(r.Tools, c.Tool) || !in(r.Agents, c.Agent) || !in(r.Rules, ruleOf(c)) {
		return false
	}
	text := strings.ToLower(strings.Join([]string{string(c.Call), string(c.Session), string(c.Reply), c.Tool, c.Runtime, c.Agent, c.Input, c.Summary, ruleOf(c)}, "\n"))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(r.Words)), func(w string) bool { return !strings.Contains(text, w) })
}
