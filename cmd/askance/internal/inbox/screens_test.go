package inbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// clock is the time on the screens of these tests.
var clock = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// proposed returns a call of a working day.
func proposed(t testing.TB, n int, tool, agent, session, input, text string, change func(*toolcall.Call)) *toolcall.Call {
	t.Helper()
	c := &toolcall.Call{
		Key:     toolcall.Key{Space: "default", Session: message.SessionID(session), Reply: "reply-1", Call: message.CallID(fmt.Sprintf("call_%02d", n))},
		Runtime: "bot", Agent: agent, Tool: tool, Input: input, State: message.ToolCallAsking, Cause: "ask",
		First: uint64(n), Seq: uint64(n), ProposedAt: clock.Add(-time.Duration(n) * time.Minute), UpdatedAt: clock.Add(-time.Duration(n) * time.Minute),
		Decision: &toolcall.Decision{Behavior: message.BehaviorAsk, Reason: "no rule allows it"},
	}
	c.Request = &toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: text, Rule: "ask-" + tool, Source: "shop", Reason: "rule ask-" + tool + " asks", Bundle: "sha256:5f0c"}
	if change != nil {
		change(c)
	}
	var err error
	if c.Digest, err = c.Request.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends sets the deadline of the approval request.
func ends(left time.Duration) func(*toolcall.Call) {
	return func(c *toolcall.Call) { c.Request.Requirement.Deadline = clock.Add(left) }
}

// day returns the calls of a morning: open requests, running calls, and a blocked one.
func day(t testing.TB) []*toolcall.Call {
	t.Helper()
	running := func(phase toolcall.Phase) func(*toolcall.Call) {
		return func(c *toolcall.Call) {
			c.State, c.Cause, c.Placement = message.ToolCallSubmitted, "submit", toolcall.PlaceRemote
			if phase != toolcall.PhaseQueued {
				c.Attempt = toolcall.Attempt{Number: 1, Worker: "wk-1", Claim: "x", StartedAt: clock.Add(-42 * time.Second), Deadline: clock.Add(5 * time.Minute)}
			}
			if phase == toolcall.PhaseBlocked {
				c.Blocked = toolcall.BlockedUnknown
			}
			c.Request = nil
			c.Request = &toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: "Deploy?"}
		}
	}
	return []*toolcall.Call{
		proposed(t, 1, "bash", "coder", "fix-login", `{"command":"git push --force origin main"}`, "Run git push --force origin main?", ends(4*time.Minute+10*time.Second)),
		proposed(t, 2, "refund", "support", "ticket-7", `{"order_id":"A-1042","amount_cents":4900,"customer":{"name":"Ann Example","tags":["vip","eu"]},"note":"damaged in transit\nreplacement refused\ncall back on Monday"}`, "Refund 49.00 EUR on order A-1042?", ends(25*time.Minute)),
		proposed(t, 3, "refund", "support", "ticket-9", `{"order_id":"A-1077","amount_cents":1200}`, "Refund 12.00 EUR on order A-1077?", ends(3*time.Hour)),
		proposed(t, 4, "http_request", "researcher", "market-scan-2026", `{"method":"DELETE","url":"https://api.example.com/v2/projects/alpha/builds/2231"}`, "DELETE https://api.example.com/v2/projects/alpha/builds/2231", nil),
		proposed(t, 5, "bash", "coder", "fix-login", `{"command":"rm -rf build"}`, "Run rm -rf build?", ends(2*time.Hour)),
		proposed(t, 6, "wire", "finance", "payroll", `{"to":"acme","amount":120000}`, "Wire 1,200.00 EUR to acme?", func(c *toolcall.Call) {
			ends(26 * time.Hour)(c)
			c.Request.Requirement.Quorum = 2
			c.Request.Requirement.Approvers = []toolcall.ApproverSet{{Rule: "two", Groups: []string{"finance"}}}
		}),
		proposed(t, 7, "deploy", "coder", "release-4", `{"service":"api","version":"4.2.0"}`, "Deploy?", running(toolcall.PhaseRunning)),
		proposed(t, 8, "deploy", "coder", "release-4", `{"service":"web","version":"4.2.0"}`, "Deploy?", running(toolcall.PhaseQueued)),
		proposed(t, 9, "deploy", "coder", "release-3", `{"service":"api","version":"4.1.9"}`, "Deploy?", running(toolcall.PhaseBlocked)),
	}
}

// yesterday returns finished calls.
func yesterday(t testing.TB) []*toolcall.Call {
	t.Helper()
	ended := func(cause toolcall.Cause, by string, output string) func(*toolcall.Call) {
		return func(c *toolcall.Call) {
			c.State, c.Cause = message.ToolCallFinished, string(cause)
			kind := toolcall.ResponseApprove
			if cause == toolcall.CauseReject {
				kind = toolcall.ResponseReject
			}
			if by != "" {
				c.Votes = []toolcall.Vote{{Kind: kind, By: toolcall.Principal{Name: by}, At: clock.Add(-2 * time.Hour), Feedback: map[bool]string{true: "not on a Friday\nask again on Monday"}[kind == toolcall.ResponseReject]}}
			}
			if output != "" {
				c.Attempt.Worker = "wk-1"
				c.Result = &message.ToolResultBlock{ID: c.Call, Name: c.Tool, State: message.ToolResultSuccess, Output: message.Content{Text: output}}
			}
		}
	}
	return []*toolcall.Call{
		proposed(t, 50, "bash", "coder", "fix-login", `{"command":"make test"}`, "Run make test?", ended(toolcall.CauseResult, "ann", "ok  all 214 tests passed\nin 12 s")),
		proposed(t, 51, "deploy", "coder", "release-3", `{"service":"api"}`, "Deploy api?", ended(toolcall.CauseReject, "bob", "")),
		proposed(t, 52, "refund", "support", "ticket-1", `{"order_id":"A-9"}`, "Refund order A-9?", ended(toolcall.CauseExpire, "", "")),
	}
}

// newDay returns the inbox of ann on that morning.
func newDay(t *testing.T, width, height int) (*model, *fakeEngine) {
	t.Helper()
	calls := day(t)
	m, e := newShown(t)
	m.now = clock
	for _, c := range append(calls, yesterday(t)...) {
		e.calls[c.Key] = c
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(listed(calls...))
	return m, e
}

// The screens at typical sizes, with one golden file for each size.
func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}, {90, 40}, {60, 20}, {40, 10}} {
		name := fmt.Sprintf("screens-%dx%d", size[0], size[1])
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			for _, tc := range [][2]string{
				{"open requests", ""}, {"running calls", "2"}, {"blocked calls", "3"}, {"finished calls", "4"}, {"groups", "v"},
				{"a request", "j\r"}, {"confirmation", "ja"}, {"one response to several", "*b"}, {"filter", "/refund\r"}, {"help", "?"}, {"resolve", "3r"},
			} {
				m, _, _ := newBlockedDay(t, size[0], size[1])
				types(m, tc[1])
				fmt.Fprintf(&out, "=== %s\n", tc[0])
				for line := range strings.SplitSeq(m.View(), "\n") {
					out.WriteString(strings.TrimRight(line, " ") + "\n")
				}
			}
			clitest.Golden(t, name, out.String())
		})
	}
}
