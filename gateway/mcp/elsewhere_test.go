package mcp_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/toolcall"
)

// A gateway whose running call is interrupted from outside, by an operator or by a client of another
// gateway, cancels it at the server, and its client learns that it may have taken effect.
func TestInterruptReachesTheRunningGateway(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"operator", "client", "task"} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(by+" "+era, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				first := w.connect(era)
				first.initialize("{}")
				first.start("tools/call", `{"name":"lookup","arguments":{"hang":1}}`)
				until(t, "the tool runs", func() bool { return w.runs() > 0 })
				call := w.only()
				if by == "operator" {
					if _, err := w.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: call.Session, Reply: call.Reply}); err != nil {
						t.Fatal(err)
					}
				} else {
					var joined atomic.Bool
					second := w.connect(era, faulty{begin: func() error { joined.Store(true); return nil }}.between)
					second.initialize(`{"tasks":{}}`)
					id := second.start("tools/call", `{"name":"lookup","arguments":{"hang":1}`+map[string]string{"task": `,"task":{}`}[by]+`}`)
					until(t, "the second gateway joins", joined.Load)
					if by == "client" {
						second.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
					} else {
						wants(t, second.read(), `"task":`)
						wants(t, second.ask("tasks/cancel", `{"taskId":"`+string(call.Call)+`"}`), `"status":"cancelled"`)
					}
				}
				wants(t, first.read(), "interrupted", "may have taken effect")
				until(t, "the server is told", func() bool { return w.runs() > 1 })
				first.stop()
				if b, err := os.ReadFile(w.ran); err != nil || strings.Count(string(b), "cancelled") != 1 {
					t.Errorf("the server got %s, %v; want one cancellation", b, err)
				}
				if c := w.only(); toolcall.Cause(c.Cause) != toolcall.CauseInterrupt {
					t.Errorf("the call is %s %s", c.Phase(), c.Cause)
				}
			})
		}
	}
}
