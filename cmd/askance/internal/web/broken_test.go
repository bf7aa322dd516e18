package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// within is how long a request may take while the journal is broken. It is shorter than the
// server's limit for a reply.
const within = 50 * time.Second

// probe is a request of a person of space A that needs the journal.
type probe struct {
	role  string
	path  string // without wildcards; "" means the route's path
	body  string
	kind  string // of the body; "" means JSON
	reads bool   // nothing is written, so a full journal suffices
	old   bool   // the reply may come from memory
}

// noJournal contains the routes that do not use the journal.
var noJournal = map[string]bool{
	"GET /healthz": true, "GET /login": true, "POST /login": true, "POST /logout": true, "GET /auth/login.css": true, "GET /auth/session": true,
	"GET /assets/{build}/{file}": true, "GET /v1/info": true, "GET /v1/policy": true, "GET /v1/policy/text": true, "GET /v1/activity": true, "GET /policy": true, "POST /policy": true, "GET /v1/whoami": true, "GET /v1/tools": true, "GET /openapi.json": true,
	"POST /v1/receipts/check": true, "GET /docs": true, "GET /agui": true, "GET /agentscope/agents": true, "POST /inbox/check": true, "GET /inbox/link": true,
	"POST /v1/sessions/{session_id}/replies/{reply_id}/preview": true,
	// Proofs read the stored streams, not the engine's journal.
	"POST /audit/receipt": true, "GET /v1/proof": true, "POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/receipt": true,
	// The outbox of webhooks is a separate stream.
	"GET /v1/webhooks/dead": true, "POST /v1/webhooks/dead/{destination}/{seq}/retry": true, "DELETE /v1/webhooks/dead/{destination}/{seq}": true,
	// The queue of tasks is a separate consumer, and progress is not stored.
	"POST /v1/work/next": true, "POST /v1/work/ack": true, "GET /v1/work/keys": true, "POST /v1/work/progress": true,
	// Another test covers it with its client: see TestBlocksWithABrokenJournal.
	"GET /blocks": true,
}

// probes returns a valid request for every other route.
func (w *wired) probes() map[string]probe {
	answer := `{"kind":"approve","digest":"` + w.call.Digest + `"}`
	form := func(more ...string) string {
		v := url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "digest": {w.call.Digest}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v.Encode()
	}
	const web = "application/x-www-form-urlencoded"
	const run = `{"threadId":"m","runId":"x","messages":[{"id":"u1","role":"user","content":"say hi"}],"tools":[],"context":[]}`
	const chat = `{"agent_id":"demo","session_id":"new","input":{"id":"u1","name":"me","role":"user","content":[{"type":"text","id":"b","text":"say hi"}],"metadata":{},"created_at":"2026-01-01T00:00:00","usage":null}}`
	const event = `{"session_id":"h","hook_event_name":%q,"tool_name":"lookup","tool_input":{},"tool_use_id":"h","cwd":"/w"}`
	const stop = `{"type":"USER_INTERRUPT","reply_id":"r1"}`
	return map[string]probe{
		"GET /readyz":                {},
		"GET /{$}":                   {role: "approver", reads: true, old: true},
		"GET /inbox":                 {role: "approver", reads: true, old: true},
		"GET /find":                  {role: "approver", path: "/find?q=x", reads: true, old: true},
		"GET /inbox/rows":            {role: "approver", path: "/inbox/rows", reads: true, old: true},
		"GET /inbox/bulk":            {role: "approver", path: "/inbox/bulk?all=1", reads: true, old: true},
		"GET /inbox/call":            {role: "approver", path: "/inbox/call?" + form(), reads: true},
		"GET /history":               {role: "approver", reads: true, old: true},
		"GET /history/export":        {role: "approver", path: "/history/export?format=csv", reads: true, old: true},
		"GET /audit":                 {role: "approver", reads: true, old: true},
		"POST /audit":                {role: "approver", body: "do=check", kind: web, reads: true, old: true},
		"GET /timeline":              {role: "approver", path: "/timeline?session=s1", reads: true},
		"GET /standing":              {role: "approver", reads: true, old: true},
		"GET /workers":               {role: "approver", reads: true, old: true},
		"GET /insights":              {role: "approver", reads: true, old: true},
		"GET /inbox/events":          {role: "approver", reads: true, old: true},
		"POST /inbox/response":       {role: "approver", body: form("do", "approve"), kind: web},
		"POST /inbox/bulk":           {role: "approver", body: form("do", "approve", "k", "session=s1&reply=r1&call=c1"), kind: web},
		"POST /inbox/resolve":        {role: "operator", body: form("do", "resolve", "outcome", "did_not_happen", "attempt", "1", "note", "x"), kind: web, reads: true},
		"POST /inbox/revoke":         {role: "operator", body: form("do", "revoke"), kind: web, reads: true},
		"POST /inbox/interrupt":      {role: "operator", body: form("do", "interrupt"), kind: web},
		"POST /standing/revoke":      {role: "operator", body: "standing_approval=x", kind: web, reads: true},
		"GET /v1/calls":              {role: "approver", reads: true, old: true},
		"GET /v1/calls/stream":       {role: "approver", reads: true, old: true},
		"GET /v1/load":               {role: "approver", reads: true, old: true},
		"GET /v1/standing-approvals": {role: "approver", reads: true, old: true},
		"POST /agui":                 {role: "runtime", body: run},
		"POST /agui/agents/{agent}":  {role: "runtime", body: run},
		"POST /agui/connect":         {role: "runtime", body: run, reads: true},
		"POST /agentscope/chat":      {role: "runtime", body: chat},
		"POST /agentscope/chat/{$}":  {role: "runtime", body: chat},
		"POST /v1/sessions/{session_id}/replies/{reply_id}/calls": {role: "runtime", path: "/v1/sessions/m/replies/r2/calls",
			body: `{"tool_calls":[{"type":"tool_call","id":"n","name":"pay","input":"{\"to\":\"x\",\"amount\":1}"}]}`},
		"GET /v1/sessions/{session_id}/replies/{reply_id}/wait":          {role: "runtime", path: "/v1/sessions/m/replies/r/wait", reads: true},
		"POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/begin":    {role: "runtime", path: "/v1/calls/m/r/out/begin", body: `{"claim":"x"}`},
		"POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/result":   {role: "runtime", path: "/v1/calls/m/r/out/result", body: `{"result":{"type":"tool_result","id":"out","name":"lookup","state":"success","output":"x"}}`},
		"POST /v1/sessions/{session_id}/replies/{reply_id}/events":       {role: "runtime", path: "/v1/sessions/m/replies/r/events", body: `{"events":[{"type":"CUSTOM","name":"x","value":{}}]}`},
		"POST /v1/sessions/{session_id}/replies/{reply_id}/interrupt":    {role: "runtime", path: "/v1/sessions/m/replies/r/interrupt", body: `{}`},
		"POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/response": {role: "approver", body: answer},
		"POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/revoke":   {role: "operator", body: `{}`, reads: true},
		"POST /v1/calls/{session_id}/{reply_id}/{tool_call_id}/resolve":  {role: "operator", body: `{"attempt":1,"outcome":"did_not_happen","note":"x"}`, reads: true},
		"POST /v1/standing-approvals/{standing_approval_id}/revoke":      {role: "operator", body: `{}`, reads: true},
		"GET /v1/standing-approvals/{standing_approval_id}":              {role: "approver", reads: true},
		"GET /v1/calls/{session_id}/{reply_id}/{tool_call_id}":           {role: "approver", reads: true},
		"GET /v1/calls/{session_id}/{reply_id}/{tool_call_id}/explain":   {role: "approver", reads: true},
		"GET /v1/sessions/{session_id}/events":                           {role: "approver", reads: true},
		"GET /agentscope/sessions/{session_id}/stream":                   {role: "approver", reads: true},
		"GET /agentscope/sessions/{session_id}/messages":                 {role: "approver", reads: true},
		"POST /v1/work/start":                              {role: "worker", body: `{"session_id":"m","reply_id":"r","tool_call_id":"x","attempt":1,"claim":"x"}`, reads: true},
		"POST /v1/work/heartbeat":                          {role: "worker", body: `{"session_id":"m","reply_id":"r","tool_call_id":"x","attempt":1,"claim":"x"}`, reads: true},
		"POST /v1/work/result":                             {role: "worker", body: `{"session_id":"m","reply_id":"r","tool_call_id":"x","attempt":1,"claim":"x","not_begun":"x"}`, reads: true},
		"POST /agentscope/sessions/{session_id}/events":    {role: "approver", body: stop},
		"POST /agentscope/sessions/{session_id}/interrupt": {role: "approver", body: `{}`},
		"POST /v1/hooks/claude-code":                       {role: "runtime", path: "/v1/hooks/claude-code?status=true", body: fmt.Sprintf(event, "PreToolUse")},
		"POST /v1/hooks/codex":                             {role: "runtime", path: "/v1/hooks/codex?status=true", body: fmt.Sprintf(event, "PreToolUse")},
		"POST /v1/hooks/gemini":                            {role: "runtime", path: "/v1/hooks/gemini?status=true", body: fmt.Sprintf(event, "BeforeTool")},
	}
}

// send sends a probe and returns the status and the text.
func (w *wired) send(method, path string, p probe) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(p.body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if p.kind != "" {
		req.Header.Set("Content-Type", p.kind)
	}
	secret := ""
	if p.role != "" {
		secret = w.secrets[p.role+" of A"]
	}
	res, err := w.WithToken(secret).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && strings.Contains(res.Header.Get("Content-Type"), "event-stream") {
		return res.StatusCode, ""
	}
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// TestEveryRouteWithABrokenJournal: every request is answered in time, and a request that needs
// the journal never reports success. A route that is added anywhere is tested here.
func TestEveryRouteWithABrokenJournal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := wire(t, gatewaytest.In(dir), gatewaytest.Piped())
		runtime := w.A.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "runtime", Auth: "test"})
		_, err := runtime.Propose(t.Context(), toolcall.ProposeRequest{Session: "m", Reply: "r", Calls: []message.ToolCallBlock{
			{ID: "out", Name: gatewaytest.Lookup, Input: `{}`}, {ID: "ask", Name: gatewaytest.Pay, Input: `{"to":"x","amount":1}`},
		}})
		if err != nil {
			t.Fatal(err)
		}
		probes := w.probes()
		for _, r := range w.Gateway.Routes() {
			name := r.Method + " " + r.Path
			p, known := probes[name]
			if known == noJournal[name] {
				t.Errorf("%s: add a request to probes, or add the route to noJournal", name)
				continue
			}
			if p.path == "" {
				p.path = path(r)
			}
			for fault, want := range map[gatewaytest.Fault]int{gatewaytest.Hangs: http.StatusServiceUnavailable, gatewaytest.Refuses: http.StatusServiceUnavailable, gatewaytest.Full: http.StatusInsufficientStorage} {
				w.A.Break(fault)
				code, text := w.send(r.Method, p.path, p)
				w.A.Break(gatewaytest.Works)
				switch {
				case !known && code != 0 && code < 500, code == want, fault == gatewaytest.Full && p.reads && code < 500 && code != 0, p.old && code == http.StatusOK:
				default:
					t.Errorf("%s, fault %d: %d, want %d\n%.300s", name, fault, code, want, text)
				}
			}
		}
	})
}

// TestRequiredMembers: the OpenAPI document requires exactly the members of a body without which
// the server refuses it. A broken journal keeps valid requests from doing anything.
func TestRequiredMembers(t *testing.T) {
	w := wire(t)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			} `json:"requestBody"`
			Parameters []struct{ Name string }
		}
		Components struct {
			Schemas map[string]struct{ Required []string }
		}
	}
	_, text := w.send(http.MethodGet, "/openapi.json", probe{})
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	w.A.Break(gatewaytest.Refuses)
	bodies := 0
	for name, p := range w.probes() {
		method, pattern, _ := strings.Cut(name, " ")
		op, known := doc.Paths[pattern][strings.ToLower(method)]
		content, has := op.RequestBody.Content["application/json"]
		if !known || !has {
			continue
		}
		if p.path == "" {
			p.path = path(gateway.Route{Path: pattern})
		}
		schema := strings.TrimPrefix(content.Schema.Ref, "#/components/schemas/")
		var body map[string]any
		if err := json.Unmarshal([]byte(p.body), &body); err != nil {
			t.Fatal(err)
		}
		bodies++
		for member := range body {
			less := maps.Clone(body)
			delete(less, member)
			raw, err := json.Marshal(less)
			if err != nil {
				t.Fatal(err)
			}
			p.body = string(raw)
			code, text := w.send(method, p.path, p)
			required := slices.Contains(doc.Components.Schemas[schema].Required, member)
			if member == "attempt" || member == "not_begun" || member == "result" { // one is compared with the call, which is not read here; the others stand for a result, or unknown for them
				continue
			}
			if required != (code == http.StatusBadRequest) {
				t.Errorf("%s without %s: %d, required %v\n%.200s", name, member, code, required, text)
			}
		}
	}
	if bodies < 6 {
		t.Errorf("%d bodies were tried", bodies)
	}
	for pattern, ops := range doc.Paths {
		for _, op := range ops {
			resumes := slices.ContainsFunc(op.Parameters, func(p struct{ Name string }) bool { return p.Name == "Last-Event-ID" })
			if want := pattern == "/v1/sessions/{session_id}/events"; resumes && !want {
				t.Errorf("%s accepts Last-Event-ID although its events have no ids", pattern)
			}
		}
	}
}
