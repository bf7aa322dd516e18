package judge_test

import (
	"strings"
	"testing"
)

// echo returns the exact text of its arguments.
var echo = tool{"echo", define("echo"), func(r *request) string { return text(string(r.Params.Arguments)) }}

// TestFixtures: the published clients of both eras and the byte-level client work with the bare
// upstream over HTTP and stdio. A failure behind the gateway is therefore a failure of the
// gateway.
func TestFixtures(t *testing.T) {
	for era, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			u := newUpstreamOf(t, legacy, echo)
			for name, how := range map[string]map[string]any{
				"http":  {"era": era, "url": u.url},
				"stdio": {"era": era, "command": []string{bin.self, relayArg, u.socket}},
			} {
				c := newTypescript(t, how)
				if r := c.wait(c.call("echo", map[string]any{"a": name})); r.text() != `{"a":"`+name+`"}` {
					t.Errorf("%s: the TypeScript client gets %s", name, r.raw)
				}
			}
			p := &peer{t: t, legacy: legacy, capabilities: noCapabilities, url: u.url}
			if legacy {
				p.initialize()
			}
			const big = `{ "n": 9007199254740993 }`
			if r := p.call("echo", big).result(); r.text() != big {
				t.Errorf("the byte-level client gets %s", r.raw)
			}
			if got := u.requests("tools/call", "echo"); len(got) != 3 || !strings.Contains(got[2].raw, big) {
				t.Errorf("the upstream got %d calls, the last is %v", len(got), got[len(got)-1].raw)
			}
		})
	}
}
