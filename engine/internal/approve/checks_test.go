package approve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write the table of checks into APPROVALS.md")

const (
	document = "../../APPROVALS.md"
	begin    = "<!-- checks:begin -->\n"
	end      = "<!-- checks:end -->"
)

// The documentation lists the checks that the engine makes, in their order.
func TestDocument(t *testing.T) {
	var table strings.Builder
	table.WriteString("| | check | passes if | otherwise |\n|---|---|---|---|\n")
	for i, c := range checks {
		fmt.Fprintf(&table, "| %d | %s | %s | %s |\n", i+1, c.name, c.wants, c.other)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("APPROVALS.md has no block of checks")
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != table.String() {
		t.Errorf("APPROVALS.md has other checks; run: go test ./engine/internal/approve -update\n%s", table.String())
	}
}

// Only the call, the person and the time decide about a response. The first check that it
// fails returns the error, so each row also proves the order.
func TestChecks(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	text := func(s string) *string { return &s }
	said := func(kind toolcall.ResponseKind) toolcall.Vote {
		return toolcall.Vote{ID: "id", Kind: kind, By: toolcall.Principal{Name: "ann"}, Digest: "d", At: at}
	}
	failed := map[string]bool{}
	for _, row := range []struct {
		name  string
		call  func(c *toolcall.Call, req *toolcall.ApprovalRequest)
		in    toolcall.Response
		state toolcall.ReplyPhase
		full  bool   // the person is at the limit
		at    string // the check that it fails; "": none
		want  error
	}{
		{name: "an approval", in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "a rejection", in: toolcall.Response{Kind: toolcall.ResponseReject, Digest: "d"}},
		{name: "sent again, and the call is finished", at: "resent", want: store.ErrNoChange,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				c.State, c.Votes = message.ToolCallFinished, []toolcall.Vote{said(toolcall.ResponseApprove)}
			}, in: toolcall.Response{ID: "id", Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "another response with the same id", at: "resent", want: message.ErrConflict,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				c.Votes = []toolcall.Vote{said(toolcall.ResponseApprove)}
			}, in: toolcall.Response{ID: "id", Kind: toolcall.ResponseReject, Digest: "d"}},
		{name: "not among the approvers, and the digest is wrong", at: "approver", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) { req.Requirement.Users = []string{"bob"} },
			in:   toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "other"}},
		{name: "the requester", at: "approver", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) {
				req.Requirement.ExcludeRequester, req.Requirement.Requester = true, "ann"
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "the groups are not known", at: "approver", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) {
				req.Requirement.Approvers = []toolcall.ApproverSet{{Groups: []string{"ops"}}}
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "too late, and the digest is wrong", at: "in time",
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) { req.Requirement.Deadline = at },
			in:   toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "other"}},
		{name: "the reply is interrupted", at: "in time", state: toolcall.ReplyInterrupted, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "another approval request", at: "same approval request", want: message.ErrDigest, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "other"}},
		{name: "the call is allowed", at: "same approval request", want: message.ErrState,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) { c.State = message.ToolCallAllowed },
			in:   toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "a mark is moved", at: "redaction", want: message.ErrInvalid,
			call: func(c *toolcall.Call, req *toolcall.ApprovalRequest) {
				c.Input, req.Input = `{"pin":"1"}`, `{"pin":"1"}`
				req.Hidden, req.Salt = []string{"args.pin"}, "00112233445566778899aabbccddeeff"
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d", Input: text(`{"other":"[redacted hmac-sha256:0000000000000000000000000000000000000000000000000000000000000000]"}`)}},
		{name: "delegated to a person who skipped", at: "kind", want: message.ErrForbidden,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseSkip, By: toolcall.Principal{Name: "Bob"}, Digest: "d"}}
			}, in: toolcall.Response{Kind: toolcall.ResponseDelegate, Digest: "d", To: "bob"}},
		{name: "delegated again to a person who then delegated", at: "last word", want: store.ErrNoChange,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				first := said(toolcall.ResponseDelegate)
				first.To = "bob"
				c.Votes = []toolcall.Vote{first, {Kind: toolcall.ResponseDelegate, By: toolcall.Principal{Name: "bob"}, To: "cy", Digest: "d"}}
			}, in: toolcall.Response{Kind: toolcall.ResponseDelegate, Digest: "d", To: "bob"}},
		{name: "delegated to oneself", at: "kind", want: message.ErrInvalid, in: toolcall.Response{Kind: toolcall.ResponseDelegate, Digest: "d", To: "ann"}},
		{name: "approved by the editor", at: "kind", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) {
				req.Requirement.ExcludeEditor, req.Requirement.Editors = true, []string{"ann"}
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "without the signature", at: "kind", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) { req.Requirement.Signed = true },
			in:   toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "one of two supplies the result", at: "kind", want: message.ErrForbidden,
			call: func(_ *toolcall.Call, req *toolcall.ApprovalRequest) { req.Requirement.Quorum = 2 },
			in:   toolcall.Response{Kind: toolcall.ResponseRespond, Digest: "d"}},
		{name: "a rule of the approver's own", at: "suggested rules", want: message.ErrForbidden,
			in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d", Rules: []message.PermissionRule{{ToolName: "t"}}}},
		{name: "an unknown scope", at: "terms", want: message.ErrInvalid,
			in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d", Remember: &toolcall.StandingTerms{Scope: "galaxy"}}},
		{name: "the same again", at: "last word", want: store.ErrNoChange,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				c.Votes = []toolcall.Vote{said(toolcall.ResponseApprove)}
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "less careful than before", at: "last word", want: message.ErrConflict,
			call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
				c.Votes = []toolcall.Vote{said(toolcall.ResponseSkip)}
			}, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
		{name: "more careful than before", call: func(c *toolcall.Call, _ *toolcall.ApprovalRequest) {
			c.Votes = []toolcall.Vote{said(toolcall.ResponseApprove)}
		}, in: toolcall.Response{Kind: toolcall.ResponseReject, Digest: "d"}},
		{name: "over the limit", at: "limits", want: message.ErrOverLimit, full: true, in: toolcall.Response{Kind: toolcall.ResponseApprove, Digest: "d"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &toolcall.Call{
				Key: toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: "c"}, Tool: "t", Input: `{}`, State: message.ToolCallAsking,
				Digest: "d", Request: &toolcall.ApprovalRequest{Input: `{}`},
			}
			if row.call != nil {
				row.call(c, c.Request)
			}
			v := view.New(10)
			if row.full {
				v.Reviewers.Limit(toolcall.ReviewerLimits{PerMinute: 1})
				done, err := v.Reviewers.Admit(toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: "other"}, "ann", "", at)
				if err != nil {
					t.Fatal(err)
				}
				done(true)
			}
			if row.state != "" {
				v.Apply(&toolcall.EventRecord{Reply: &toolcall.ReplyState{Key: c.ReplyKey(), Phase: row.state}}, 1)
			}
			s := &Responses{Parts: Parts{
				Space: "x", View: v, Standing: standing.New(standing.Parts{}),
				Keys: func() toolcall.ApproverKeys { return nil },
				Groups: func(context.Context, toolcall.Principal) ([]string, string, error) {
					return nil, "", errors.New("no directory")
				},
			}}
			m := toolcall.Load(c)
			r := &response{Responses: s, voter: s.newVoter(toolcall.Principal{Name: "ann"}), limit: limit{ledger: &v.Reviewers}, m: m, call: m.Call(), in: row.in, now: at}
			var got string
			var err error
			for _, check := range checks {
				if err = check.pass(t.Context(), r); err != nil || r.late {
					got = check.name
					break
				}
			}
			if got != row.at || !errors.Is(err, row.want) || row.want == nil && err != nil {
				t.Errorf("the response fails the check %q with %v, want %q with %v", got, err, row.at, row.want)
			}
			failed[got] = true
		})
	}
	for _, c := range checks {
		if !failed[c.name] {
			t.Errorf("no row fails the check %q", c.name)
		}
	}
}

// People are reminded at every interval after the last change, also if the clock was set back since.
func TestNextLook(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct{ past, remind, ends, want time.Duration }{
		{0, time.Hour, 0, time.Hour},
		{90 * time.Minute, time.Hour, 0, 2 * time.Hour},
		{90 * time.Minute, time.Hour, 100 * time.Minute, 100 * time.Minute},
		{0, 0, 100 * time.Minute, 100 * time.Minute},
		{-365 * 24 * time.Hour, time.Hour, 100 * time.Minute, time.Hour - 365*24*time.Hour},
	} {
		c := &toolcall.Call{UpdatedAt: at, Request: &toolcall.ApprovalRequest{}}
		if tc.ends > 0 {
			c.Request.Requirement.Deadline = at.Add(tc.ends)
		}
		if got := NextLook(c, at.Add(tc.past), tc.remind).Sub(at); got != tc.want {
			t.Errorf("%s after the change: the next look is after %s, want %s", tc.past, got, tc.want)
		}
	}
}
