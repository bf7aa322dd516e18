package api_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
)

func callPath(k toolcall.Key) string {
	return "/v1/calls/" + url.PathEscape(string(k.Session)) + "/" + url.PathEscape(string(k.Reply)) + "/" + url.PathEscape(string(k.Call))
}

// TestStory takes calls through their whole life using only HTTP, and uses every operation at
// least once.
func TestStory(t *testing.T) {
	t.Parallel()
	var status *atomic.Int32
	w := newWorldWith(t, func(g *gatewaytest.World, cfg *api.Config) { cfg.Webhooks, status = hooksOf(t, g) })
	bot, ann, bob, olga := w.A.HTTP(gatewaytest.Bot), w.A.HTTP(gatewaytest.Ann), w.A.HTTP(gatewaytest.Bob), w.A.HTTP(gatewaytest.Olga)

	var who api.WhoamiReply
	w.ok(ann, get, "/v1/whoami", "", &who)
	if who.Name != gatewaytest.Ann || who.Space != w.A.ID || who.Auth != gatewaytest.AuthToken || !slices.Equal(who.Roles, []toolcall.Role{toolcall.RoleApprover}) {
		t.Errorf("whoami returns %+v", who)
	}
	var info toolcall.InfoReply
	w.ok(bot, get, "/v1/info", "", &info)
	var policy operation.PolicyStatusReply
	w.ok(olga, get, "/v1/policy", "", &policy)
	if policy.Bundle == "" {
		t.Errorf("the policy in force is %+v", policy)
	}
	var tools api.ToolsReply
	w.ok(bot, get, "/v1/tools", "", &tools)
	if i := slices.IndexFunc(tools.Tools, func(x api.Tool) bool { return x.Name == gatewaytest.Pay }); i < 0 || !strings.Contains(string(tools.Tools[i].InputSchema), "amount") {
		t.Errorf("the tools have no schema for pay: %+v", tools)
	}

	var previewed operation.PreviewReply
	w.ok(bot, post, "/v1/sessions/s1/replies/r1/preview", `{"tool_calls":[{"type":"tool_call","id":"c1","name":"pay","input":"{\"to\":\"acme\",\"amount\":42}"}]}`, &previewed)
	if len(previewed.Calls) != 1 || previewed.Calls[0].Decision.Behavior != message.BehaviorAsk {
		t.Errorf("the preview is %+v", previewed)
	}
	var proposed toolcall.ProposeReply
	w.ok(bot, post, "/v1/sessions/s1/replies/r1/calls", `{"tool_calls":[
		{"type":"tool_call","id":"c1","name":"pay","input":"{\"to\":\"acme\",\"amount\":42}"},
		{"type":"tool_call","id":"c2","name":"echo","input":"{\"text\":\"hi\"}"}]}`, &proposed)
	c := proposed.Calls[0]
	if c.State != message.ToolCallAsking {
		t.Fatalf("pay is %s", c.State)
	}
	w.ok(bot, post, "/v1/sessions/s1/replies/r1/events", `{"events":[{"type":"TEXT_BLOCK_START","reply_id":"r1","block_id":"b1"}]}`, nil)

	var listed toolcall.ListReply
	w.ok(ann, get, "/v1/calls?state=asking", "", &listed)
	if len(listed.Calls) != 1 || len(listed.Waiting) != 1 || listed.Waiting[0].Digest != c.Digest {
		t.Fatalf("the open approval requests are %+v", listed)
	}
	var shown toolcall.ShowReply
	w.ok(ann, get, callPath(c.Key), "", &shown)
	if shown.Waiting == nil || shown.Call.Digest != c.Digest || len(shown.History) == 0 {
		t.Errorf("show returns %+v", shown)
	}
	// The edit opens a new approval request only if the policy asks again.
	var edited toolcall.Call
	w.ok(ann, post, callPath(c.Key)+"/response", `{"digest":"`+c.Digest+`","kind":"approve","input":"{\"to\":\"acme\",\"amount\":7}"}`, &edited)
	if edited.State == message.ToolCallAsking {
		w.ok(bob, post, callPath(c.Key)+"/response", `{"digest":"`+edited.Digest+`","kind":"approve"}`, nil)
	}
	var waited toolcall.WaitReply
	w.ok(bot, get, "/v1/sessions/s1/replies/r1/wait?timeout_ms=20000", "", &waited)
	if !waited.Done || len(waited.Calls) != 2 {
		t.Fatalf("wait returns %+v", waited)
	}
	i := slices.IndexFunc(waited.Calls, func(x *toolcall.Call) bool { return x.Call == "c1" })
	if got := waited.Calls[i]; !strings.Contains(got.Input, "7") || got.Votes[0].By.Name != gatewaytest.Ann || got.Votes[0].By.Auth != gatewaytest.AuthToken {
		t.Errorf("pay ran as %+v", got)
	}

	// Standing approvals.
	k := w.A.Ask("s1", "r2", "c1")
	call := w.A.Show(k)
	w.ok(ann, post, callPath(k)+"/response", `{"digest":"`+call.Digest+`","kind":"approve","remember":{"scope":"session","uses":2}}`, nil)
	var standings toolcall.StandingApprovalsReply
	w.ok(ann, get, "/v1/standing-approvals?tool_name=pay", "", &standings)
	if len(standings.StandingApprovals) != 1 {
		t.Fatalf("the standing approvals are %+v", standings)
	}
	id := string(standings.StandingApprovals[0].ID)
	var standing toolcall.ShowStandingApprovalReply
	w.ok(ann, get, "/v1/standing-approvals/"+id, "", &standing)
	var revoked toolcall.StandingApproval
	w.ok(ann, post, "/v1/standing-approvals/"+id+"/revoke", `{"reason":"enough"}`, &revoked)
	if revoked.Revoked == nil || revoked.Revoked.By.Name != gatewaytest.Ann {
		t.Errorf("revoke returns %+v", revoked)
	}

	// An external call, whose result the runtime reports.
	w.A.Propose("s1", "r3", "c1", gatewaytest.Lookup, `{}`)
	w.ok(bot, post, "/v1/calls/s1/r3/c1/begin", `{"claim":"mine"}`, nil)
	w.ok(bot, post, "/v1/calls/s1/r3/c1/result", `{"result":{"type":"tool_result","id":"c1","name":"lookup","output":"found","state":"success"}}`, nil)

	// Interrupt.
	w.A.Ask("s1", "r4", "c1")
	var stopped toolcall.InterruptReply
	w.ok(olga, post, "/v1/sessions/s1/replies/r4/interrupt", `{"reason":"no more"}`, &stopped)
	if len(stopped.Calls) != 1 {
		t.Errorf("the interrupt returns %+v", stopped)
	}

	// Revoke an approval before a worker takes the task.
	w.A.Propose("s1", "r5", "c1", gatewaytest.Job, `{}`)
	w.ok(olga, post, "/v1/calls/s1/r5/c1/revoke", `{"reason":"not now"}`, nil)
	w.refused(olga, post, "/v1/calls/s1/r5/c1/resolve", `{"attempt":1,"outcome":"happened"}`, http.StatusConflict, message.CodeFinished)

	// A worker starts a call and goes silent. An operator sees this and states what happened.
	next, end := w.events(olga, "/v1/calls/stream?tool_name="+gatewaytest.Frail)
	lost := w.A.Lose("s1", "r6", "c1")
	for held := false; !held; {
		if e := next(); e.name == "call" {
			c := change(t, e).Call
			held = c.Key == lost && c.Blocked != toolcall.NotBlocked
		}
	}
	end()
	var settled toolcall.Call
	w.ok(olga, post, callPath(lost)+"/resolve", `{"attempt":1,"outcome":"happened","output":"it was sent"}`, &settled)
	if settled.State != message.ToolCallFinished || settled.Result.Output.Text != "it was sent" {
		t.Errorf("the resolved call is %+v", settled)
	}

	// Dead letters of webhooks.
	path, _ := addDeadLetter(t, w, "c7")
	w.ok(olga, get, "/v1/webhooks/dead", "", nil)
	status.Store(http.StatusNoContent)
	w.ok(olga, post, path+"/retry", "", nil)
	path, _ = addDeadLetter(t, w, "c8")
	w.ok(olga, http.MethodDelete, path, "", nil)

	var page toolcall.EventsReply
	w.ok(ann, get, "/v1/sessions/s1/events", "", &page)
	if len(page.Events) < 10 {
		t.Errorf("the session has %d events", len(page.Events))
	}
	w.ok(ann, get, "/v1/load", "", nil)

	// Prove a call without the parts that rules redact.
	var made operation.ReceiptReply
	w.ok(ann, post, callPath(c.Key)+"/receipt", `{}`, &made)
	var verdict operation.CheckReceiptReply
	w.ok(ann, post, "/v1/receipts/check", `{"receipt":`+string(made.Receipt)+`}`, &verdict)
	if !verdict.Valid || verdict.Call.Call != c.Call {
		t.Errorf("the verdict about the receipt is %+v", verdict)
	}
	w.ok(ann, post, "/v1/receipts/check", `{"receipt":{}}`, &verdict)
	if verdict.Valid || verdict.Reason == "" {
		t.Errorf("the verdict about an empty receipt is %+v", verdict)
	}
	var signed operation.ProofStatusReply
	w.ok(ann, get, "/v1/proof?verify=true", "", &signed)
	if signed.Signed == 0 || signed.KeyID == "" || signed.Verification == nil || len(signed.Damage) > 0 {
		t.Errorf("the proof is %+v", signed)
	}
	w.ok(ann, get, "/v1/activity", "", nil)
	w.ok(ann, get, "/v1/policy/text", "", nil)

	w.ok(ann, get, callPath(c.Key)+"/explain", "", nil)
	w.refused(ann, get, "/v1/calls/s1/r1/none/explain", "", http.StatusNotFound, message.CodeNotFound)

	paths, _ := w.doc["paths"].(map[string]any)
	workStory(t, w)
	for _, item := range paths {
		for _, o := range item.(map[string]any) {
			id, _ := o.(map[string]any)["operationId"].(string)
			if !w.seen[id] {
				t.Errorf("the test does not use the operation %s", id)
			}
		}
	}
}

// TestRefusals sends requests that must not change anything.
func TestRefusals(t *testing.T) { //nolint:tparallel // one approval request, looked at behind them all
	t.Parallel()
	w := newWorld(t)
	k := w.A.Ask("s1", "r1", "c1")
	before := w.A.Show(k)
	bot, ann := w.A.HTTP(gatewaytest.Bot), w.A.HTTP(gatewaytest.Ann)
	good := `{"digest":"` + before.Digest + `","kind":"approve"`
	answer := callPath(k) + "/response"
	for _, tt := range []struct {
		name, method, path, body string
		client                   *http.Client
		status                   int
		code                     message.Code
	}{
		{"unknown member", post, answer, good + `,"by":"cy"}`, ann, 400, message.CodeInvalid},
		{"name in the body", post, answer, good + `,"approver":"cy"}`, ann, 400, message.CodeInvalid},
		{"call in the body", post, answer, good + `,"tool_call_id":"c2"}`, ann, 400, message.CodeInvalid},
		{"space in the body", post, answer, good + `,"space":"b"}`, ann, 400, message.CodeInvalid},
		{"version in the body", post, answer, good + `,"v":2}`, ann, 400, message.CodeInvalid},
		{"member in different case", post, answer, strings.Replace(good, "kind", "Kind", 1) + `}`, ann, 400, message.CodeInvalid},
		{"doubled member", post, answer, good + `,"kind":"approve"}`, ann, 400, message.CodeInvalid},
		{"two values", post, answer, good + `} {}`, ann, 400, message.CodeInvalid},
		{"no body", post, answer, ``, ann, 400, message.CodeInvalid},
		{"no JSON", post, answer, `approve`, ann, 400, message.CodeInvalid},
		{"unknown kind", post, answer, `{"digest":"` + before.Digest + `","kind":"Approve"}`, ann, 400, message.CodeInvalid},
		{"other digest", post, answer, `{"digest":"sha256:00","kind":"approve"}`, ann, 409, message.CodeDigest},
		{"no digest", post, answer, `{"kind":"approve"}`, ann, 400, message.CodeInvalid},
		{"a runtime responds", post, answer, good + `}`, bot, 403, message.CodeForbidden},
		{"a role that Ann does not have", post, answer + "?as=operator", good + `}`, ann, 403, message.CodeForbidden},
		{"a role that does not exist", post, answer + "?as=root", good + `}`, ann, 400, message.CodeInvalid},
		{"unknown parameter", get, "/v1/calls?sate=asking", "", ann, 400, message.CodeInvalid},
		{"parameter twice", get, "/v1/calls?limit=1&limit=2", "", ann, 400, message.CodeInvalid},
		{"parameter in different case", get, "/v1/calls?Limit=1", "", ann, 400, message.CodeInvalid},
		{"number with sign", get, "/v1/calls?after=-1", "", ann, 400, message.CodeInvalid},
		{"cursor beyond the end", get, "/v1/sessions/s1/events?after=1000000", "", ann, 400, message.CodeInvalid},
		{"unknown state", get, "/v1/calls?state=open", "", ann, 400, message.CodeInvalid},
		{"broken query", get, "/v1/calls?state=%zz", "", ann, 400, message.CodeInvalid},
		{"query that is not UTF-8", get, "/v1/calls?session_id=%ff", "", ann, 400, message.CodeInvalid},
		{"path that is not UTF-8", get, "/v1/calls/%ff/r1/c1", "", ann, 400, message.CodeInvalid},
		{"answer to a path that is not UTF-8", post, "/v1/calls/s1/r1/%ff/response", good + `}`, ann, 400, message.CodeInvalid},
		{"semicolon query", get, "/v1/calls?state=asking;all=true", "", ann, 400, message.CodeInvalid},
		{"unknown call", get, "/v1/calls/s1/r1/nope", "", ann, 404, message.CodeNotFound},
		{"answer to an unknown call", post, "/v1/calls/s1/r1/nope/response", good + `}`, ann, 404, message.CodeNotFound},
		{"the other space's call", get, callPath(k), "", w.B.HTTP(gatewaytest.Ann), 404, message.CodeNotFound},
		{"the other space answers", post, answer, good + `}`, w.B.HTTP(gatewaytest.Ann), 404, message.CodeNotFound},
		{"another runtime's session", get, "/v1/sessions/s1/events", "", w.A.HTTP(gatewaytest.Robot), 403, message.CodeForeign},
		{"an approver proposes", post, "/v1/sessions/s1/replies/r9/calls", `{"tool_calls":[]}`, ann, 403, message.CodeForbidden},
		{"too much", post, answer, `{"digest":"` + strings.Repeat("x", gateway.DefaultMaxBody) + `"}`, ann, 413, message.CodeTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sub := *w
			sub.t = t
			p := sub.refused(tt.client, tt.method, tt.path, tt.body, tt.status, tt.code)
			if p.Code == message.CodeDigest && (p.Call == nil || p.Call.Digest != before.Digest) {
				t.Errorf("the refusal lacks the current approval request: %+v", p)
			}
		})
	}
	res, err := ann.Post(w.URL+answer, "text/plain", strings.NewReader(good+`}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("a body of another type: %d", res.StatusCode)
	}
	if after := w.A.Show(k); after.Records != before.Records || after.State != message.ToolCallAsking {
		t.Errorf("a refused request changed the call: %+v", after)
	}
}

// TestIdempotencyKey repeats requests.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.A.HTTP(gatewaytest.Ann)
	k := w.A.Ask("s1", "r1", "c1")
	body := `{"digest":"` + w.A.Show(k).Digest + `","kind":"approve"}`
	first := w.do(ann, post, callPath(k)+"/response", body, "Idempotency-Key", "one")
	again := w.do(ann, post, callPath(k)+"/response", body, "Idempotency-Key", "one")
	if first.status != http.StatusOK || again.status != http.StatusOK || string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same request twice: %d %s\nthen %d %s", first.status, first.body, again.status, again.body)
	}
	w.refused(ann, post, callPath(k)+"/response", strings.Replace(body, "approve", "reject", 1), http.StatusConflict, message.CodeConflict, "Idempotency-Key", "one")
	// Keys belong to a person. Without a key the request is carried out again.
	late := w.refused(w.A.HTTP(gatewaytest.Bob), post, callPath(k)+"/response", body, http.StatusConflict, message.CodeFinished, "Idempotency-Key", "one")
	if want := "the call is finished and cannot change; ann responded first: approve"; late.Detail != want {
		t.Errorf("a second response is refused with %q, want %q", late.Detail, want)
	}
	w.A.Finished(k)
	w.refused(ann, post, callPath(k)+"/response", body, http.StatusConflict, message.CodeFinished)
	// The journal knows what a restart forgets: the response has an id that follows from the key.
	id := w.A.Show(k).Votes[0].ID
	w.ok(ann, post, callPath(k)+"/response", strings.Replace(body, "}", `,"response_id":"`+id+`"}`, 1), nil)
	// With a new key it is another response, which has no effect any more.
	remember := strings.Replace(body, "}", `,"remember":{"scope":"session"}}`, 1)
	w.refused(ann, post, callPath(k)+"/response", remember, http.StatusConflict, message.CodeFinished, "Idempotency-Key", "two")
	w.refused(ann, post, callPath(k)+"/response", strings.Replace(body, "approve", "reject", 1), http.StatusConflict, message.CodeFinished, "Idempotency-Key", "three")
	k2 := w.A.Ask("s1", "r1", "c2")
	body2 := `{"digest":"` + w.A.Show(k2).Digest + `","kind":"approve","response_id":"id"}`
	w.ok(ann, post, callPath(k2)+"/response", body2, nil)
	w.refused(ann, post, callPath(k2)+"/response", strings.Replace(body2, "approve", "reject", 1), http.StatusConflict, message.CodeConflict, "Idempotency-Key", "five")
	// A refusal is also repeated.
	w.refused(ann, post, callPath(k)+"/response", `{"digest":"x","kind":"approve"}`, http.StatusConflict, message.CodeFinished, "Idempotency-Key", "four")
	p := w.do(ann, post, callPath(k)+"/response", `{"digest":"x","kind":"approve"}`, "Idempotency-Key", "four")
	if p.status != http.StatusConflict || p.header.Get("Content-Type") != "application/problem+json" || p.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeated refusal: %d %s", p.status, p.header)
	}
	w.refused(ann, post, callPath(k)+"/response", body, http.StatusRequestEntityTooLarge, message.CodeTooLarge, "Idempotency-Key", strings.Repeat("k", 256))
}

// A call that must not run any more does not begin by the reply to the first of two same requests.
func TestBeginAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bot := w.A.HTTP(gatewaytest.Bot)
	k := w.A.Propose("s1", "r1", "c1", gatewaytest.Lookup, `{}`).Key
	const claim = `{"claim":"mine"}`
	for range 2 { // the first reply was lost
		w.ok(bot, post, callPath(k)+"/begin", claim, nil, "Idempotency-Key", "one")
	}
	if _, err := w.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: k.Session, Reply: k.Reply}); err != nil {
		t.Fatal(err)
	}
	w.refused(bot, post, callPath(k)+"/begin", claim, http.StatusConflict, message.CodeFinished, "Idempotency-Key", "one")
}

// TestPages reads a list page by page, filtered by the API and by the engine.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.A.HTTP(gatewaytest.Ann)
	for i := range 7 {
		w.A.Ask("s1", "r1", "pay"+strconv.Itoa(i))
		w.A.Propose("s1", "r1", "log"+strconv.Itoa(i), gatewaytest.Login, `{"user":"u","password":"p"}`)
	}
	for _, tt := range []struct {
		query string
		want  int
	}{{"limit=3", 14}, {"limit=3&tool_name=pay", 7}, {"limit=7&tool_name=pay", 7}, {"tool_name=pay&agent=none", 0}, {"session_id=s2", 0}, {"limit=1&tool_call_id=log3", 1}} {
		var got []message.CallID
		path := "/v1/calls?" + tt.query
		for path != "" {
			var page toolcall.ListReply
			a := w.do(ann, get, path, "")
			a.into(t, &page)
			for _, c := range page.Calls {
				got = append(got, c.Call)
			}
			path = ""
			if link := a.header.Get("Link"); link != "" {
				path = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
			}
		}
		if unique := slices.Compact(slices.Clone(got)); len(got) != tt.want || len(unique) != tt.want {
			t.Errorf("%s: %d calls: %v; want %d", tt.query, len(got), got, tt.want)
		}
	}
}

// TestTable: every operation in the table that names a route has it, with the same roles.
func TestTable(t *testing.T) {
	t.Parallel()
	surface, err := api.New(api.Config{})
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]gateway.Route{}
	for _, r := range surface.Routes() {
		routes[r.Method+" "+r.Path] = r
	}
	for _, op := range operation.Table() {
		if op.HTTP == nil {
			if !slices.Equal(op.Roles, []toolcall.Role{toolcall.RoleWorker}) {
				t.Errorf("%s is not available over HTTP, and not only workers use it", op.Name)
			}
			continue
		}
		r, ok := routes[op.HTTP.Method+" "+op.HTTP.Path]
		if !ok || !slices.Equal(r.Access.Roles, op.Roles) {
			t.Errorf("%s has the route %+v", op.Name, r)
		}
	}
}

// TestOddNames uses names that must be escaped.
func TestOddNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"a/b", "a b", "ü", "%2F", "a?b#c", "stream", "wait", "*", ">", "a.b", "{x}"} {
		k := w.A.Ask(id, id, id)
		var shown toolcall.ShowReply
		w.ok(w.A.HTTP(gatewaytest.Ann), get, callPath(k), "", &shown)
		if shown.Call == nil || shown.Call.Key != k {
			t.Errorf("asked for %q, got %+v", id, shown.Call)
		}
	}
}

func TestPublicPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/docs", "/openapi.json"} {
		res, err := w.Anonymous().Get(w.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
		}
	}
}

// TestDocsTitle: the reference contains the title and the description of the API.
func TestDocsTitle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	res, err := w.Anonymous().Get(w.URL + "/docs")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>askance API</title>", "<h1>askance API</h1>", "decides, asks about and runs the tool calls of agents", "{session_id}/<wbr>replies/<wbr>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
}
