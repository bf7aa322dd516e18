package asked_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func TestVerdict(t *testing.T) {
	bob := toolcall.Principal{Role: toolcall.RoleApprover, Name: "bob"}
	for _, tc := range []struct {
		cause string
		vote  *toolcall.Vote
		by    string
		want  string
	}{
		{"expire", nil, "", "expired: no decision in time"},
		{"interrupt", nil, "bot", "interrupted by bot"},
		{"submit", &toolcall.Vote{Kind: toolcall.ResponseApprove}, "", "approved by bob"},
		{"interrupt", &toolcall.Vote{Kind: toolcall.ResponseApprove}, "bot", "approved by bob"},
		{"submit", &toolcall.Vote{Kind: toolcall.ResponseApprove, Edited: true}, "", "edited and approved by bob"},
		{"deny", &toolcall.Vote{Kind: toolcall.ResponseApprove}, "", "denied by the policy after a response by bob"},
		{"reject", &toolcall.Vote{Kind: toolcall.ResponseReject, Feedback: "no"}, "", "rejected by bob: no"},
		{"submit_response", &toolcall.Vote{Kind: toolcall.ResponseRespond}, "", "responded with a result by bob"},
		{"refuse", nil, "", "no longer open: the call is finished"},
		{"expire", &toolcall.Vote{Kind: toolcall.ResponseDelegate, To: "eve"}, "", "expired: no decision in time"},
		{"expire", &toolcall.Vote{Kind: toolcall.ResponseApprove}, "", "expired: no decision in time"}, // the key that signed it was removed
	} {
		c := asking(t, nil)
		c.State, c.Cause = message.ToolCallFinished, tc.cause
		if tc.vote != nil {
			tc.vote.By, tc.vote.Digest = bob, c.Digest
			c.Votes = []toolcall.Vote{*tc.vote}
		}
		if got := asked.Verdict(c, tc.by); got != tc.want {
			t.Errorf("%s %+v: %q, want %q", tc.cause, tc.vote, got, tc.want)
		}
	}
}

// A title that omits an argument or a part of one counts as shortened.
func TestIsShortened(t *testing.T) {
	for _, tc := range []struct {
		title, input string
		want         bool
	}{
		{"", "", false},
		{"rm -rf /tmp/x", `{"command":"rm -rf /tmp/x"}`, false},
		{"rm -rf /tmp/… (stdin 3)", `{"command":"rm -rf /tmp/xyz","stdin":3}`, true},
		{"pay note long…, cents 5", `{"note":"long text","cents":5}`, true},
		{"pay to ada, cents 5, fast", `{"cents":5,"fast":true,"to":"ada","by":null}`, false},
		{"t a {b 1}, c [x, 2.0]", `{"a":{"b":1},"c":["x",2.0]}`, false},
		{"say line one ↵ two", `{"text":"line one\ntwo"}`, false},
		{"Pay 5 cents", `{"cents":5,"to":"ada"}`, true}, // of a template
		{"Pay order A10", `{"order":"A10","cents":1}`, true},
		{"Write /etc/x (2 lines)", `{"file_path":"/etc/x","content":"a\nb"}`, true},
		{"t a 1 field", `{"a":{"b":{"c":9}}}`, true},
		{"t a b", `{"a":"b","dry_run":false}`, true}, // a value that summaries leave out
	} {
		if got := asked.IsShortened(&toolcall.Call{Tool: "t", Summary: tc.title, Input: tc.input}); got != tc.want {
			t.Errorf("%q of %s: %t", tc.title, tc.input, got)
		}
	}
}

// Durations have one form: at most two units, neither of them zero.
func TestDurations(t *testing.T) {
	for _, tc := range []struct {
		d                 time.Duration
		took, span, short string
	}{
		{-time.Second, "0s", "0s", "0s"}, {0, "0s", "0s", "0s"}, {time.Microsecond, "1ms", "0s", "0s"}, {240 * time.Millisecond, "240ms", "0s", "0s"},
		{4230 * time.Millisecond, "4.2s", "4s", "4s"}, {3 * time.Second, "3s", "3s", "3s"}, {58 * time.Second, "58s", "58s", "58s"}, {time.Minute, "1m", "1m", "1m"},
		{65 * time.Second, "1m 5s", "1m 5s", "1m 5s"}, {620 * time.Second, "10m 20s", "10m 20s", "10m"}, {2 * time.Hour, "2h", "2h", "2h"},
		{3*time.Hour + 58*time.Minute, "3h 58m", "3h 58m", "3h 58m"}, {13*time.Hour + 5*time.Minute, "13h 5m", "13h 5m", "13h"}, {52 * time.Hour, "2d 4h", "2d 4h", "2d 4h"}, {250 * time.Hour, "10d 10h", "10d 10h", "10d"},
	} {
		if took, span, short := asked.Took(tc.d), asked.Span(tc.d), asked.ShortSpan(tc.d); took != tc.took || span != tc.span || short != tc.short {
			t.Errorf("%v is %q, %q and %q, want %q, %q and %q", tc.d, took, span, short, tc.took, tc.span, tc.short)
		}
	}
}

// No step of the decision procedure is shown to people by its internal name.
func TestSourceInWords(t *testing.T) {
	for _, step := range []permission.Step{
		permission.StepNoPolicy, permission.StepError, permission.StepReadOnly, permission.StepToolCheck, permission.StepAskConverted,
		permission.StepFallbackAsk, permission.StepFallbackExplore, permission.StepFallbackBypass, permission.StepFallbackDontAsk,
	} {
		if words := asked.Source(string(step)); words == string(step) {
			t.Errorf("%s has no text", step)
		}
	}
	if got := asked.Source("rules.yaml"); got != "rules.yaml" {
		t.Errorf("the source of a rule is %q", got)
	}
}

func TestNeeds(t *testing.T) {
	soon := time.Unix(1e9, 0)
	for _, tc := range []struct {
		name string
		r    toolcall.Requirement
		may  asked.May
		want string
	}{
		{"any approver", toolcall.Requirement{}, asked.Yes, "0 of 1 from any approver"},
		{"others", toolcall.Requirement{Users: []string{"bob", "eve"}}, asked.No, "0 of 1 from bob, eve"},
		{"me", toolcall.Requirement{Users: []string{"ann"}}, asked.Yes, "0 of 1 from ann"},
		{"a group", toolcall.Requirement{Approvers: []toolcall.ApproverSet{{Rule: "large", Groups: []string{"ops"}}}, Quorum: 2}, asked.Perhaps, "0 of 2 from group ops (rule large)"},
		{"mine, of two parts", toolcall.Requirement{Approvers: []toolcall.ApproverSet{{Rule: "a", Users: []string{"ann"}}, {Rule: "b", Users: []string{"bob"}}}}, asked.Yes, "0 of 1 from ann (rule a)|0 of 1 from bob (rule b)"},
		{"my own request", toolcall.Requirement{ExcludeRequester: true, Requester: "ann"}, asked.No, "0 of 1 from any approver|ann requested this and cannot approve it"},
		{"an unknown requester", toolcall.Requirement{ExcludeRequester: true}, asked.No, "0 of 1 from any approver|an unknown person requested this and cannot approve it"},
		{"my request around it", toolcall.Requirement{ExcludeRequester: true, Requester: "worker", RequestersAround: []string{"ann", "helper"}}, asked.No,
			"0 of 1 from any approver|worker requested this and cannot approve it|ann, helper requested a call around this one and cannot approve this one"},
		{"editors", toolcall.Requirement{ExcludeEditor: true, Editors: []string{"bob"}, Deadline: soon}, asked.Yes, "0 of 1 from any approver|bob edited this and cannot approve it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := asking(t, func(req *toolcall.ApprovalRequest) { req.Requirement = tc.r })
			if got := asked.MayRespond(c, "ann"); got != tc.may {
				t.Errorf("may respond: %v, want %v", got, tc.may)
			}
			if got := strings.Join(asked.Needs(c), "|"); got != tc.want {
				t.Errorf("needs %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVotesAreCounted(t *testing.T) {
	c := asking(t, func(req *toolcall.ApprovalRequest) {
		req.Requirement = toolcall.Requirement{Approvers: []toolcall.ApproverSet{{Rule: "large", Groups: []string{"ops"}}}, Quorum: 2}
	})
	at := time.Unix(1e9, 0)
	c.Votes = []toolcall.Vote{
		{Kind: toolcall.ResponseSkip, By: toolcall.Principal{Name: "eve"}, Digest: c.Digest, At: at, Note: "on holiday\x1b"},
		{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Name: "bob", Auth: "creds"}, Digest: c.Digest, At: at, Groups: []string{"ops"}},
	}
	if got, want := strings.Join(asked.Needs(c), "|"), "1 of 2 from group ops (rule large): bob (creds)"; got != want {
		t.Errorf("needs %q, want %q", got, want)
	}
	if got, want := strings.Join(asked.Votes(c, at.Add(time.Minute)), "|"), "skipped by eve, 1m ago: on holiday‹U+001B›|approved by bob (creds), 1m ago"; got != want {
		t.Errorf("votes %q, want %q", got, want)
	}
}

func TestDeadline(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, tc := range []struct {
		r    toolcall.Requirement
		want string
	}{
		{toolcall.Requirement{}, "no deadline"},
		{toolcall.Requirement{Deadline: in(90 * time.Minute)}, "denied in 1h 30m (2026-11-21 13:30:00)"},
		{toolcall.Requirement{Deadline: in(-time.Second)}, "expired"},
		{toolcall.Requirement{Deadline: in(time.Hour), OnExpiry: toolcall.OnExpiryEscalate, FinalDeadline: in(50 * time.Hour)}, "escalates in 1h, denied in 2d 2h (2026-11-23 14:00:00)"},
	} {
		if got := asked.Deadline(tc.r, now); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.r, got, tc.want)
		}
	}
}

// asking returns a call with an open approval request.
func asking(t testing.TB, change func(*toolcall.ApprovalRequest)) *toolcall.Call {
	t.Helper()
	c := &toolcall.Call{
		Key: toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: message.CallID("c")}, Tool: "pay", Runtime: "bot",
		Input: `{"cents":1}`, State: message.ToolCallAsking, Cause: "ask", First: 1, Seq: 1,
		Decision: &toolcall.Decision{Behavior: message.BehaviorAsk, Reason: "because"},
	}
	c.Request = &toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: "Pay?", Rule: "large", Source: "shop"}
	if change != nil {
		change(c.Request)
	}
	var err error
	if c.Digest, err = c.Request.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefinitionAndParentAreShown(t *testing.T) {
	c := asking(t, nil)
	if text := asked.Definition(c); text != "" {
		t.Errorf("a tool of askance is shown as %q", text)
	}
	c.Definition = &toolcall.DefinitionRef{Hash: "sha256:2"}
	if text := asked.Definition(c) + strings.Join(asked.Why(c), ""); !strings.Contains(text, "sha256:2") || strings.Contains(text, "CHANGED") {
		t.Errorf("a declared tool is shown as %q", text)
	}
	c.Definition.First = "sha256:1"
	if text := strings.Join(asked.Why(c), "\n"); !strings.Contains(text, "CHANGED") || !strings.Contains(text, "sha256:1") {
		t.Errorf("a changed tool is shown as %q", text)
	}
	c.Parent = &toolcall.Parent{ParentKey: toolcall.ParentKey{Session: "s9", Call: "c\u202e7"}, Tool: "crawl", Runtime: "bot", Agent: "planner", Depth: 1}
	if text := asked.Origin(c); !strings.Contains(text, "within call c‹U+202E›7 of crawl (agent planner, session s9, depth 1)") {
		t.Errorf("the origin is %q", text)
	}
}

// If several people approved a call, the verdict names all of them.
func TestVerdictNamesAllApprovers(t *testing.T) {
	c := asking(t, func(req *toolcall.ApprovalRequest) { req.Requirement.Quorum = 2 })
	for _, name := range []string{"ann", "bob"} {
		c.Votes = append(c.Votes, toolcall.Vote{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}, Digest: c.Digest})
	}
	c.State, c.Cause = message.ToolCallFinished, "result"
	if got := asked.Verdict(c, ""); got != "approved by ann and bob" {
		t.Errorf("the verdict is %q", got)
	}
}

// The title of a call is what it would do, or what was asked if a record has no summary.
func TestTitle(t *testing.T) {
	c := asking(t, nil)
	if got := asked.Title(c); got != "Pay?" {
		t.Errorf("without a summary: %q", got)
	}
	c.Request.Text = "" // as after an edit that the policy allows
	if got := asked.Title(c); got != "pay" {
		t.Errorf("without a text: %q", got)
	}
	if c.Summary = "pay cents 1"; asked.Title(c) != c.Summary {
		t.Errorf("with a summary: %q", asked.Title(c))
	}
}

// People see what a result has besides text.
func TestOutput(t *testing.T) {
	text := func(s string) message.Block { return &message.TextBlock{Text: s} }
	image := &message.DataBlock{Source: &message.Base64Source{MediaType: "image/png", Data: strings.Repeat("A", 4000)}}
	for want, c := range map[string]message.Content{
		"done":                           {Text: "done"},
		"":                               message.List(),
		"see:\n[image/png, 3.0 kB]\nend": message.List(text("see:"), image, text("end")),
		"[image/png, 3.0 kB]\n[audio/wav at https://a/b]": message.List(image, &message.DataBlock{Source: &message.URLSource{MediaType: "audio/wav", URL: "https://a/b"}}),
		"[a.csv, text/csv, 13 bytes]":                     message.List(&message.DataBlock{Name: new("a.csv"), Source: &message.Base64Source{MediaType: "text/csv", Data: strings.Repeat("A", 18) + "=="}}),
		"[block of the type table]":                       message.List(&message.UnknownBlock{Kind: "table"}),
		"10\n20\n30":                                      message.List(text("10"), text("20\n"), text(""), text("30")),
	} {
		if got := asked.Output(c); got != want {
			t.Errorf("Output = %q, want %q", got, want)
		}
	}
}

// The text of a request is shown below its title only if it says more.
func TestSaysMore(t *testing.T) {
	for _, tc := range []struct {
		title, text string
		headline    bool
		want        bool
	}{
		{"Pay A\u202e?", `Pay A\u{202e}?`, true, false},
		{"Pay A?", "Pay A?\nAlso: it is late.", true, true},
		{"Pay A…", "Pay A and B?", true, true},
		{"refund order A", "refund needs approval.", false, true},
		{"Pay A?", "Pay A?", false, false},
		{"ls", "", false, false},
	} {
		c := &toolcall.Call{Summary: tc.title, Decision: &toolcall.Decision{Headline: tc.headline}}
		if got := asked.SaysMore(c, tc.text); got != tc.want {
			t.Errorf("SaysMore(%q, %q) = %v", tc.title, tc.text, got)
		}
	}
}

func TestDeciders(t *testing.T) {
	vote := func(name string, kind toolcall.ResponseKind) toolcall.Vote {
		return toolcall.Vote{Kind: kind, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}}
	}
	for want, votes := range map[string][]toolcall.Vote{
		"policy":   {vote("ann", toolcall.ResponseSkip), vote("bob", toolcall.ResponseDelegate)},
		"bob, eve": {vote("ann", toolcall.ResponseSkip), vote("bob", toolcall.ResponseApprove), vote("eve", toolcall.ResponseApprove), vote("bob", toolcall.ResponseApprove)},
	} {
		c := asking(t, nil)
		c.State = message.ToolCallFinished
		if c.Votes = votes; asked.Deciders(c) != want {
			t.Errorf("%s decided, want %s", asked.Deciders(c), want)
		}
	}
	for cause, want := range map[toolcall.Cause]string{
		toolcall.CauseDeny: "policy", toolcall.CauseExpire: "policy",
		toolcall.CauseInterrupt: "", toolcall.CauseBypass: "", toolcall.CauseRefuse: "",
	} {
		c := asking(t, nil)
		c.State, c.Cause = message.ToolCallFinished, string(cause)
		if got := asked.Deciders(c); got != want {
			t.Errorf("after %s without a response, %q decided, want %q", cause, got, want)
		}
	}
}

// A person who remembers an approval reads that later calls run, too.
func TestOutcomeOfARememberedApproval(t *testing.T) {
	c := asking(t, nil)
	c.State = message.ToolCallSubmitted
	c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}}}
	resp := toolcall.Response{Kind: toolcall.ResponseApprove}
	if got := asked.Outcome(resp, c); strings.Contains(got, "standing") {
		t.Errorf("without a standing approval: %s", got)
	}
	c.StandingApprovals = []toolcall.StandingApproval{{ID: "sta_1"}}
	if got := asked.Outcome(resp, c); !strings.HasSuffix(got, ", and a standing approval allows later calls") {
		t.Errorf("with a standing approval: %s", got)
	}
}
