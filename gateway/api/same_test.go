package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"

	"github.com/google/go-cmp/cmp"
)

// recordedRules record how each decision was made.
var recordedRules = strings.Replace(gatewaytest.Rules, "redact: [args.password]}", "redact: [args.password], audit: {level: full}}", 1)

// Every surface explains a call in the same way, including redacted values and standing
// approvals.
func TestSameExplanation(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(*gatewaytest.World, *api.Config) {}, gatewaytest.Policy(recordedRules))
	ann := w.A.HTTP(gatewaytest.Ann)
	inProcess, overNATS := w.A.Client(gatewaytest.Ann), w.A.NATS(gatewaytest.Ann)

	first := w.A.Ask("s1", "r1", "c1")
	w.ok(ann, post, callPath(first)+"/response", `{"digest":"`+w.A.Show(first).Digest+`","kind":"approve","remember":{"scope":"session","uses":5}}`, nil)
	remembered := w.A.Propose("s1", "r1", "c2", gatewaytest.Pay, gatewaytest.PayInput)
	if remembered.Decision.Standing == "" {
		t.Fatalf("no standing approval allowed %+v", remembered)
	}
	calls := []toolcall.Key{
		first, remembered.Key,
		w.A.Propose("s1", "r2", "c1", gatewaytest.Echo, `{}`).Key,
		w.A.Propose("s1", "r2", "c2", gatewaytest.Drop, `{}`).Key,
		w.A.Propose("s1", "r2", "c3", gatewaytest.Deploy, `{}`).Key,
		w.A.Propose("s1", "r2", "c4", gatewaytest.Other, `{}`).Key,
		w.A.Propose("s1", "r2", "c5", gatewaytest.Pay, `{"to":""}`).Key,
		w.A.Propose("s1", "r3", "c1", gatewaytest.Login, `{"user":"u","password":"`+hiddenWord+`"}`).Key,
	}
	withRecord, withStanding := 0, 0
	for _, k := range calls {
		var got toolcall.ExplainReply
		w.ok(ann, get, callPath(k)+"/explain", "", &got)
		want, err := inProcess.Explain(t.Context(), toolcall.ExplainRequest{V: 1, Key: k})
		if err != nil {
			t.Fatal(err)
		}
		remote, err := overNATS.Explain(t.Context(), toolcall.ExplainRequest{V: 1, Key: k})
		if err != nil {
			t.Fatal(err)
		}
		one := plain(t, want)
		for surface, x := range map[string]toolcall.ExplainReply{"HTTP": got, "NATS": remote} {
			if other := plain(t, x); other != one {
				t.Errorf("%s explains %s as\n%s\nthe engine explains it as\n%s", surface, k, other, one)
			}
		}
		if strings.Contains(one, hiddenWord) {
			t.Errorf("the explanation of %s shows a redacted value: %s", k, one)
		}
		if len(want.Recorded) > 0 {
			withRecord++
		}
		withStanding += len(want.StandingApprovals)
	}
	if withRecord == 0 || withStanding == 0 {
		t.Errorf("%d explanations are on record, %d standing approvals were used", withRecord, withStanding)
	}
}

const hiddenWord = "correct-horse"

// plain returns an explanation as text.
func plain(t *testing.T, x toolcall.ExplainReply) string {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every transport previews calls in the same way.
func TestSamePreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{
		{ID: "c1", Name: gatewaytest.Pay, Input: gatewaytest.PayInput}, {ID: "c2", Name: gatewaytest.Drop, Input: `{}`},
		{ID: "c3", Name: gatewaytest.Other, Input: `{}`}, {ID: "c4", Name: gatewaytest.Echo, Input: `{}`},
		{ID: "c5", Name: "brought", Input: `{}`}, {ID: "c6", Name: "declared", Input: `{"n":1}`}, {ID: "c7", Name: "declared", Input: `{"n":"x"}`},
	}, External: []string{"brought"}, Tools: []toolcall.ToolDefinition{{
		Name: "declared", InputSchema: message.RawJSON(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Annotations: toolcall.ToolAnnotations{ReadOnly: true},
	}}}
	outer := toolcall.ProposeRequest{Session: "outer", Reply: "r", Calls: []message.ToolCallBlock{{ID: "o", Name: gatewaytest.Lookup, Input: `{}`}}}
	if _, err := w.A.Client(gatewaytest.Bot).Propose(t.Context(), outer); err != nil {
		t.Fatal(err)
	}
	r.Parent = &toolcall.ParentKey{Session: "outer", Reply: "r", Call: "o"}
	body, err := json.Marshal(map[string]any{"tool_calls": r.Calls, "external_tools": r.External, "tools": r.Tools, "parent": r.Parent})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{gatewaytest.Bot, gatewaytest.Ann, gatewaytest.Olga, gatewaytest.Audie} {
		want, err := operation.Preview.Call(t.Context(), w.A.Client(name), operation.PreviewRequest{ProposeRequest: r})
		if err != nil {
			t.Fatal(err)
		}
		if c := want.Calls; c[4].Decision == nil || c[5].Decision == nil || c[5].Definition == nil || c[6].Refused == "" {
			t.Errorf("tools that are sent along or declared are previewed as %+v", c[4:])
		}
		remote, err := operation.Preview.Call(t.Context(), w.A.NATS(name), operation.PreviewRequest{ProposeRequest: r})
		if err != nil {
			t.Fatal(err)
		}
		var got operation.PreviewReply
		w.ok(w.A.HTTP(name), post, "/v1/sessions/"+url.PathEscape(string(r.Session))+"/replies/r1/preview", string(body), &got)
		for surface, x := range map[string]operation.PreviewReply{"HTTP": got, "NATS": remote} {
			a, aerr := json.Marshal(x)
			b, berr := json.Marshal(want)
			if aerr != nil || berr != nil || string(a) != string(b) {
				t.Errorf("%s previews for %s\n%s\nthe engine previews\n%s", surface, name, a, b)
			}
		}
	}
	w.refused(w.A.HTTP(gatewaytest.Wendy), post, "/v1/sessions/s1/replies/r1/preview", string(body), http.StatusForbidden, message.CodeForbidden)
	if list, err := w.A.Client(gatewaytest.Ann).List(t.Context(), toolcall.ListRequest{All: true}); err != nil || len(list.Calls) != 1 {
		t.Errorf("after the previews the calls are %+v, %v", list.Calls, err)
	}
}

// Every transport returns the same status of the policy.
func TestSamePolicyStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want, err := operation.PolicyStatus.Call(t.Context(), w.A.Client(gatewaytest.Audie), struct{}{})
	if err != nil || want.Bundle == "" || want.Engine == "" {
		t.Fatalf("%+v, %v", want, err)
	}
	remote, err := operation.PolicyStatus.Call(t.Context(), w.A.NATS(gatewaytest.Audie), struct{}{})
	var got operation.PolicyStatusReply
	w.ok(w.A.HTTP(gatewaytest.Audie), "GET", "/v1/policy", "", &got)
	if diff := cmp.Diff([]operation.PolicyStatusReply{want, want}, []operation.PolicyStatusReply{remote, got}); err != nil || diff != "" {
		t.Errorf("%v, (-engine +NATS, HTTP):\n%s", err, diff)
	}
	text, err := operation.PolicyText.Call(t.Context(), w.A.Client(gatewaytest.Audie), operation.PolicyTextRequest{})
	if err != nil || text.Engine != want.Engine {
		t.Fatalf("%+v, %v", text, err)
	}
	overNATS, err := operation.PolicyText.Call(t.Context(), w.A.NATS(gatewaytest.Audie), operation.PolicyTextRequest{})
	var overHTTP operation.PolicyTextReply
	w.ok(w.A.HTTP(gatewaytest.Audie), "GET", "/v1/policy/text", "", &overHTTP)
	if diff := cmp.Diff([]operation.PolicyTextReply{text, text}, []operation.PolicyTextReply{overNATS, overHTTP}); err != nil || diff != "" {
		t.Errorf("%v, (-engine +NATS, HTTP):\n%s", err, diff)
	}
	if _, err := operation.PolicyStatus.Call(t.Context(), w.A.Client(gatewaytest.Bot), struct{}{}); err == nil {
		t.Error("a runtime may read the status of the policy")
	}
}

// Every transport reports the same activity of the space.
func TestSameActivity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := toolcall.ActivityRequest{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), StepMS: 3_600_000, Recent: 3}
	want, err := operation.Activity.Call(t.Context(), w.A.Client(gatewaytest.Audie), r)
	if err != nil || len(want.Buckets) != 24 || len(want.Queues) == 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	remote, err := operation.Activity.Call(t.Context(), w.A.NATS(gatewaytest.Audie), r)
	var got toolcall.ActivityReply
	w.ok(w.A.HTTP(gatewaytest.Audie), "GET", "/v1/activity?since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z&step_ms=3600000&recent=3", "", &got)
	want.At, remote.At, got.At = time.Time{}, time.Time{}, time.Time{}
	if diff := cmp.Diff([]toolcall.ActivityReply{want, want}, []toolcall.ActivityReply{remote, got}); err != nil || diff != "" {
		t.Errorf("%v, (-engine +NATS, HTTP):\n%s", err, diff)
	}
	w.refused(w.A.HTTP(gatewaytest.Audie), "GET", "/v1/activity?since=yesterday", "", http.StatusBadRequest, message.CodeInvalid)
	w.refused(w.A.HTTP(gatewaytest.Bot), "GET", "/v1/activity", "", http.StatusForbidden, message.CodeForbidden)
}
