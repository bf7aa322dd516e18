package asked_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/toolcall"
)

// TestWho: every way to establish a name has a text, and every text about an approval contains
// it.
func TestWho(t *testing.T) {
	for auth, want := range map[string]string{
		"http-loopback":        "ann (loopback, not authenticated)",
		"http-token":           "ann (HTTP token)",
		"oidc:https://id.test": "ann (OIDC, https://id.test)",
		"unix-peer:1001":       "ann (Unix socket, uid 1001)",
		"nats-jwt":             "ann (NATS login)",
		"nats-subject":         "ann (NATS, not authenticated)",
		"in-process":           "ann (in process)",
		"of-tomorrow":          "ann (of-tomorrow)",
		"":                     "ann",
	} {
		by := toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: auth}
		if got := asked.Who(by); got != want {
			t.Errorf("Who(%q) = %q, want %q", auth, got, want)
		}
		if got := asked.Actor(by); got != "approver "+want {
			t.Errorf("Actor(%q) = %q, want %q", auth, got, "approver "+want)
		}
		c := asking(t, func(req *toolcall.ApprovalRequest) { req.Requirement = toolcall.Requirement{Quorum: 2} })
		c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: by, Digest: c.Digest}}
		for what, text := range map[string]string{
			"Needs": strings.Join(asked.Needs(c), "\n"), "Votes": strings.Join(asked.Votes(c, time.Now()), "\n"), "Verdict": asked.Verdict(c, "eve"),
		} {
			if !strings.Contains(text+" ", want) {
				t.Errorf("%s with %q: %q", what, auth, text)
			}
		}
	}
	engine := toolcall.Principal{Role: toolcall.RoleEngine, Name: "e1", Auth: "in-process"}
	if got := asked.Actor(engine); got != "engine e1" {
		t.Errorf("Actor(engine) = %q", got)
	}
}
