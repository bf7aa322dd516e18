package api_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/internal/archtest"
	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// vectorsDir contains the vectors that the clients in other languages share.
const vectorsDir = "../../clients/vectors"

// vectorFiles describes a row of each file, for clients/README.md.
var vectorFiles = []struct{ file, row string }{
	{"canonical.json", "`json` has the RFC 8785 form `canonical`, or is `refused`"},
	{"digests.json", "the approval request `request` has the `digest`"},
	{"grants.json", "a worker of `tool` (and `subject`) that trusts `trusted` does `verdict` at `now` with the task's `record`: `run`, `refuse`, `expired` (acknowledge) or `early` (return it). `keys` has the public keys"},
	{"starts.json", "whether `reply` proves the start `request`"},
	{"keyrings.json", "what a reader who trusts `trusted` makes of `ring`"},
	{"ids.json", "`calls`: idempotency key and path of a call. `derived`: the id of a call without one, `call_` and 32 hexadecimal digits of the SHA-256 of the canonical form of `[\"askance-call-v1\", reply, index, name, input]`, with `input` in canonical form if it has one"},
	{"calls.json", "what a runtime does with a `call` of its tool: `wait`, `run` with `input`, `denied` with `text` and perhaps `denial`, `answered` with `output` (text blocks joined by line feeds), `error`"},
	{"errors.json", "the error of an HTTP reply. `invalid_reply` and an `unavailable` without problem details come from the client"},
	{"requests.json", "the request of an operation with these `arguments`; `idempotency_key` says that it has an `Idempotency-Key`"},
	{"streams.json", "the server-sent events in `chunks`"},
}

// TestVectorsPage: clients/README.md lists the files that exist.
func TestVectorsPage(t *testing.T) {
	table, files := "| file | a row |\n|---|---|\n", []string(nil)
	for _, f := range vectorFiles {
		table += fmt.Sprintf("| `%s` | %s |\n", f.file, f.row)
		files = append(files, filepath.Join(vectorsDir, f.file))
	}
	have, err := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	slices.Sort(files)
	if err != nil || !slices.Equal(have, files) {
		t.Errorf("the files are %q: %v", have, err)
	}
	page, err := os.ReadFile("../../clients/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if text, err = archtest.WithBlock(text, "vectors", table); err == nil {
			err = os.WriteFile("../../clients/README.md", []byte(text), 0o644)
		}
	}
	if got, blockErr := archtest.Block(text, "vectors"); errors.Join(err, blockErr) != nil || got != table {
		t.Errorf("clients/README.md differs from vectorFiles; run: go test ./gateway/api -run TestVectors -update: %v", errors.Join(err, blockErr))
	}
}

// compareVectors compares a file of vectors with what the code generates, or writes it.
func compareVectors(t *testing.T, name string, want any) {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(vectorsDir, name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, out.Bytes()) {
		t.Errorf("clients/vectors/%s differs from what the code generates; run: go test ./gateway/api -run TestVectors -update", name)
	}
}

type canonicalRow struct {
	Name      string `json:"name"`
	JSON      string `json:"json"`
	Canonical string `json:"canonical,omitzero"`
	Refused   bool   `json:"refused,omitzero"`
}

func TestVectorsCanonical(t *testing.T) {
	t.Parallel()
	var rows []canonicalRow
	texts := [][2]string{
		{"order of names", `{"b":1,"a":2,"":3}`},
		{"order by UTF-16 code units", `{"\ufb33":1,"\ud83d\ude00":2,"\u00f6":3,"1":4}`},
		{"white space", " { \"a\" : [ 1 , 2 ] }\n"},
		{"escapes", `"\u0041\/\u001f\n\"\\\u20ac\u2028"`},
		{"controls", `"\u0000\u0008\t\u000b\f\r\u007f"`},
		{"literals", `[true,false,null]`},
		{"numbers", `[1.0,-0,0.1,1e21,1e-7,123456789012,-5e-324,1.7976931348623157e308,100000000000000000000,333333333.33333329]`},
		{"largest exact integer", `9007199254740991`},
		{"smallest power beyond", `9007199254740992`},
		{"integer that a double cannot hold", `9007199254740993`},
		{"negative integer that a double cannot hold", `-9007199254740993`},
		{"integer that prints as another", `1152921504606846976`},
		{"integer that a double holds and prints", `1152921504606847000`},
		{"integers that print with an exponent", `[1000000000000000000000,-70000000000000000000000]`},
		{"integer that prints as another with an exponent", `1000000000000000000001`},
		{"number beyond doubles", `1e400`},
		{"number that becomes zero", `1e-400`},
		{"zero with an exponent", `0e400`},
		{"name twice", `{"a":1,"a":1}`},
		{"name twice, once escaped", `{"a":1,"\u0061":1}`},
		{"lone surrogate", `"\ud83d"`},
		{"surrogates in the wrong order", `"\ude00\ud83d"`},
		{"two values", `1 2`},
		{"nothing", ``},
		{"trailing comma", `[1,]`},
		{"leading zero", `01`},
		{"plus sign", `+1`},
		{"point without digits", `1.`},
		{"control in text", "\"\n\""},
		{"unknown escape", `"\x"`},
		{"byte order mark", "\ufeff1"},
		{"no-break space", "\u00a01"},
		{"name without quotes", `{a:1}`},
		{"deep", strings.Repeat("[", 1000) + strings.Repeat("]", 1000)},
		{"too deep", strings.Repeat("[", 1001) + strings.Repeat("]", 1001)},
		{"names of JavaScript", `{"__proto__":1,"constructor":{"x":2},"toString":3}`},
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same rows each time
	for i := range 80 {
		texts = append(texts, [2]string{fmt.Sprint("generated ", i), generatedJSON(random, 3)})
	}
	for _, r := range texts {
		b, err := jcs.Canonicalize([]byte(r[1]))
		rows = append(rows, canonicalRow{Name: r[0], JSON: r[1], Canonical: string(b), Refused: err != nil})
	}
	compareVectors(t, "canonical.json", map[string]any{"rows": rows})
}

// vectorTime is the time at which a bubble of testing/synctest begins.
var vectorTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// vectorKeys returns keys that no engine uses, by name.
func vectorKeys() map[string]ed25519.PrivateKey {
	out := map[string]ed25519.PrivateKey{}
	for i, name := range []string{"first", "second", "third", "other"} {
		out[name] = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
	}
	return out
}

func publicTexts() map[string]string {
	out := map[string]string{}
	for name, key := range vectorKeys() {
		out[name] = toolcall.FormatPublicKey(key.Public().(ed25519.PublicKey))
	}
	return out
}

func keySetOf(names []string) toolcall.KeySet {
	var keys []ed25519.PublicKey
	for _, name := range names {
		keys = append(keys, vectorKeys()[name].Public().(ed25519.PublicKey))
	}
	return toolcall.NewKeySet(keys...)
}

const refundInput = `{"order": "A-1", "cents": 9007199254740993, "rate": 1.10}`

// vectorRequest returns an approval request of the tool refund.
func vectorRequest(change func(*toolcall.ApprovalRequest)) toolcall.ApprovalRequest {
	req := toolcall.ApprovalRequest{
		V: 1, Key: toolcall.Key{Space: "default", Session: "s/é", Reply: "r 1", Call: "c1"}, Tool: "refund", Input: refundInput,
		Text: "Refund <A-1>?", Rule: "refunds", Source: "rules.yaml", Reason: "rule refunds: matches",
		Requirement: toolcall.Requirement{Users: []string{}, Quorum: 2, Deadline: vectorTime.Add(time.Hour)}, Bundle: "sha256:" + strings.Repeat("ab", 32),
	}
	if change != nil {
		change(&req)
	}
	return req
}

type digestRow struct {
	Name    string `json:"name"`
	Request string `json:"request"` // as JSON text
	Digest  string `json:"digest"`
}

// generatedJSON returns the text of a value with numbers, names and texts of all kinds.
func generatedJSON(r *rand.Rand, depth int) string {
	text := func() string {
		out := `"`
		for range r.IntN(5) {
			c := []rune{'a' + r.Int32N(26), 0xa0 + r.Int32N(0x200), 0x2000 + r.Int32N(0x100), 0x1f600 + r.Int32N(64), 0xe000 + r.Int32N(8), r.Int32N(' ')}[r.IntN(6)]
			switch {
			case c >= ' ' && r.IntN(2) == 0:
				out += string(c)
			case c > 0xffff:
				high, low := utf16.EncodeRune(c)
				out += fmt.Sprintf(`\u%04x\u%04X`, high, low)
			default:
				out += fmt.Sprintf(`\u%04x`, c)
			}
		}
		return out + `"`
	}
	kinds := 6
	if depth > 0 {
		kinds = 9
	}
	switch r.IntN(kinds) {
	case 0:
		return text()
	case 1:
		return strconv.FormatInt(r.Int64N(2e6)-1e6, 10)
	case 2:
		return strconv.FormatFloat(r.NormFloat64(), 'g', 1+r.IntN(20), 64)
	case 3:
		return fmt.Sprintf("%d.%de%+d", r.IntN(10), r.IntN(1e6), r.IntN(600)-300)
	case 4:
		return strconv.FormatInt(int64(r.IntN(1<<53)), 10)
	case 5:
		return []string{"true", "false", "null", "-0", "{}", "[]"}[r.IntN(6)]
	case 6:
		return "[" + generatedJSON(r, depth-1) + "," + generatedJSON(r, depth-1) + "]"
	}
	return `{"1":` + generatedJSON(r, depth-1) + "," + text()[:1] + "b" + text()[1:] + `: ` + generatedJSON(r, depth-1) + `,"a":` + generatedJSON(r, depth-1) + "}"
}

func TestVectorsDigests(t *testing.T) {
	t.Parallel()
	var rows []digestRow
	add := func(name string, change func(*toolcall.ApprovalRequest)) {
		req := vectorRequest(change)
		text, err := strictjson.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := req.Digest()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, digestRow{name, string(text), digest})
	}
	hide := func(input string, salt string, paths ...string) func(*toolcall.ApprovalRequest) {
		return func(req *toolcall.ApprovalRequest) { req.Input, req.Salt, req.Hidden = input, salt, paths }
	}
	add("plain", nil)
	add("one byte of white space in the input", func(req *toolcall.ApprovalRequest) { req.Input = strings.Replace(req.Input, ", ", ",", 1) })
	add("another integer beyond doubles", func(req *toolcall.ApprovalRequest) { req.Input = strings.Replace(req.Input, "993", "992", 1) })
	add("input that is no JSON", func(req *toolcall.ApprovalRequest) { req.Input = "not \u2028 json" })
	const login = `{"user":"ann","password":"s3cret","cards":[{"number":"1","name":"a"},"2",{"number":["3"]}],"odd name":{"x":1},"n":9007199254740993}`
	for _, path := range []string{"args.password", "args.cards.number", `args.cards["1"]`, "args.cards.*", "args.cards.*.number", `args["odd name"].x`, "args.user.first", "args.n", "args.none", "args.*", "args.*.number", "args", "caller.user", "args..x"} {
		add("hidden "+path, hide(login, "salt", path))
	}
	add("two hidden paths", hide(login, "salt", "args.password", "args.n"))
	add("hidden in arguments that are a list", hide(`[1,2]`, "salt", "args.a"))
	add("hidden in arguments with a name twice", hide(`{"a":1,"a":2}`, "salt", "args.a"))
	add("hidden in names with escapes", hide("{\"p\\u0061ss\\n\\u00e9\\u200b\\ud83d\\ude00\":\"x\"}", "salt", "args.*"))
	random := rand.New(rand.NewPCG(3, 4)) // the same rows each time
	for i := range 40 {
		add(fmt.Sprint("hidden and generated ", i), hide(`{"x":`+generatedJSON(random, 3)+`}`, "salt", []string{"args.x.*", "args.*.*.a", "args.x.b", "args.*.1"}[i%4]))
	}
	add("hidden and redacted already", hide(`{"password":"[redacted hmac-sha256:00]"}`, "", "args.password"))
	compareVectors(t, "digests.json", map[string]any{"rows": rows})
}

type grantRow struct {
	Name    string   `json:"name"`
	Trusted []string `json:"trusted"` // names of keys
	Subject string   `json:"subject,omitzero"`
	Now     string   `json:"now"`
	Record  string   `json:"record"` // as JSON text
	Verdict string   `json:"verdict"`
}

// vectorRecord returns a task of the tool refund with a grant that is signed with the key first.
// change is called before the grant is signed.
func vectorRecord(t *testing.T, change func(*toolcall.EventRecord, *toolcall.Grant)) *toolcall.EventRecord {
	t.Helper()
	req := vectorRequest(nil)
	c := &toolcall.Call{
		Key: req.Key, Runtime: "bot", Tool: req.Tool, Input: req.Input, State: message.ToolCallSubmitted, Cause: "submit", Proposal: "sha256:00",
		Request: &req, Placement: toolcall.PlaceRemote, Attempt: toolcall.Attempt{Number: 1, OfferedAt: vectorTime}, ProposedAt: vectorTime, UpdatedAt: vectorTime, Records: 2,
	}
	rec := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "1", By: toolcall.Principal{Role: toolcall.RoleEngine, Name: "engine"}, At: vectorTime, Engine: "eng", Call: c}
	g := &toolcall.Grant{
		V: 1, Key: req.Key, IdempotencyKey: req.Key.IdempotencyKey(), Tool: req.Tool, Attempt: 1, Bundle: req.Bundle, Nonce: "nonce",
		Approvals: []toolcall.Approval{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "token"}, At: vectorTime.Add(1500 * time.Millisecond)}},
		NotBefore: vectorTime, Expires: vectorTime.Add(time.Hour),
	}
	if change != nil {
		change(rec, g)
	}
	if g.Digest == "" {
		digest, err := c.Request.Digest()
		if err != nil {
			t.Fatal(err)
		}
		g.Digest = digest
	}
	if err := g.Sign(vectorKeys()["first"]); err != nil {
		t.Fatal(err)
	}
	c.Attempt.Grant = g
	return rec
}

func TestVectorsGrants(t *testing.T) {
	t.Parallel()
	var rows []grantRow
	add := func(name string, r grantRow, rec *toolcall.EventRecord, tamper ...string) {
		text, err := strictjson.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		r.Name, r.Record, r.Now = name, string(text), cmp.Or(r.Now, vectorTime.Add(time.Minute).Format(time.RFC3339Nano))
		for i := 0; i < len(tamper); i += 2 {
			if !strings.Contains(r.Record, tamper[i]) {
				t.Fatalf("%s: %s is not in %s", name, tamper[i], r.Record)
			}
			r.Record = strings.ReplaceAll(r.Record, tamper[i], tamper[i+1])
		}
		if r.Trusted == nil {
			r.Trusted = []string{"first"}
		}
		r.Verdict = verdictOf(t, r)
		rows = append(rows, r)
	}
	type record = toolcall.EventRecord
	type grant = toolcall.Grant
	plain := func() *record { return vectorRecord(t, nil) }
	change := func(f func(*record, *grant)) *record { return vectorRecord(t, f) }

	add("genuine", grantRow{}, plain())
	add("genuine, one of several keys", grantRow{Trusted: []string{"other", "first"}}, plain())
	add("genuine, with a route", grantRow{Subject: "exec.payments"}, change(func(rec *record, g *grant) {
		g.Route, rec.Call.Decision = "exec.payments", &toolcall.Decision{Behavior: "allow", Route: "exec.payments"}
	}))
	add("genuine, with hidden arguments", grantRow{}, change(func(rec *record, _ *grant) {
		rec.Call.Request.Hidden, rec.Call.Request.Salt = []string{"args.order"}, "salt"
	}))
	add("genuine, at its first instant", grantRow{Now: vectorTime.Format(time.RFC3339)}, plain())

	add("unknown key", grantRow{Trusted: []string{"other"}}, plain())
	add("unknown key, expired", grantRow{Trusted: []string{"other"}, Now: vectorTime.Add(2 * time.Hour).Format(time.RFC3339)}, plain())
	add("expired", grantRow{Now: vectorTime.Add(2 * time.Hour).Format(time.RFC3339)}, plain())
	add("at the instant of its end", grantRow{Now: vectorTime.Add(time.Hour).Format(time.RFC3339)}, plain())
	add("before its time", grantRow{}, change(func(_ *record, g *grant) { g.NotBefore = vectorTime.Add(2 * time.Minute) }))
	add("never valid", grantRow{}, change(func(_ *record, g *grant) { g.Expires = g.NotBefore }))
	add("expired, with other arguments", grantRow{Now: vectorTime.Add(2 * time.Hour).Format(time.RFC3339)}, plain(), "A-1", "B-1")

	add("other arguments everywhere", grantRow{}, plain(), `\"A-1\"`, `\"A-2\"`)
	add("a changed integer beyond doubles", grantRow{}, plain(), "9007199254740993", "9007199254740992")
	add("other arguments in the call", grantRow{}, change(func(rec *record, _ *grant) { rec.Call.Input = `{}` }))
	add("changed white space", grantRow{}, plain(), `, \"cents`, `,\"cents`)
	add("changed text", grantRow{}, plain(), "Refund <A-1>?", "Refund <A-1>!")
	add("changed requirement", grantRow{}, plain(), `"quorum":2`, `"quorum":1`)
	add("hidden arguments changed", grantRow{}, change(func(rec *record, _ *grant) {
		rec.Call.Request.Hidden, rec.Call.Request.Salt = []string{"args.order"}, "salt"
	}), `\"A-1\"`, `\"A-2\"`)
	add("redacted arguments", grantRow{}, change(func(rec *record, g *grant) {
		req := rec.Call.Request
		req.Hidden, req.Salt = []string{"args.order"}, "salt"
		var err error
		if g.Digest, err = req.Digest(); err != nil {
			t.Fatal(err)
		}
		redacted := req.Redacted()
		rec.Call.Request, rec.Call.Input = &redacted, redacted.Input
	}))
	add("changed nonce", grantRow{}, plain(), `"nonce":"nonce"`, `"nonce":"other"`)
	add("changed approval", grantRow{}, plain(), `"name":"ann"`, `"name":"bob"`)
	add("changed end", grantRow{}, plain(), `"expires":"2000-01-01T01`, `"expires":"2000-01-01T02`)
	add("signature cut", grantRow{}, plain(), `"sig":"`, `"sig":"A`)
	rec := plain()
	rec.Call.Attempt.Grant.Sig = ""
	add("not signed", grantRow{}, rec)
	rec = plain()
	rec.Call.Attempt.Grant.Sig = "=*="
	add("signature is no base64url", grantRow{}, rec)
	rec = plain()
	rec.Call.Attempt.Grant.Sig += "\n"
	add("signature with a line break", grantRow{}, rec)
	rec = plain()
	rec.Call.Attempt.Grant.Sig = rec.Call.Attempt.Grant.Sig[:85] + string(rec.Call.Attempt.Grant.Sig[85]+1)
	add("signature with other unused bits", grantRow{}, rec)
	rec = plain()
	if err := rec.Call.Attempt.Grant.Sign(vectorKeys()["other"]); err != nil {
		t.Fatal(err)
	}
	rec.Call.Attempt.Grant.KeyID = toolcall.KeyID(vectorKeys()["first"].Public().(ed25519.PublicKey))
	add("signed by another key", grantRow{Trusted: []string{"first", "other"}}, rec)
	rec = plain()
	rec.Call.Attempt.Grant = nil
	add("no grant", grantRow{}, rec)
	rec = plain()
	rec.Call.Request = nil
	add("no approval request", grantRow{}, rec)

	add("other session", grantRow{}, change(func(rec *record, g *grant) { g.Session = "other" }))
	add("request of another call", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Request.Call = "c2" }))
	add("call of another reply", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Reply = "r2" }))
	add("other tool", grantRow{}, change(func(rec *record, g *grant) { g.Tool = "other" }))
	add("request of another tool", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Request.Tool = "other" }))
	add("call of another tool", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Tool = "other" }))
	add("other attempt", grantRow{}, change(func(rec *record, g *grant) { g.Attempt = 2 }))
	add("other bundle", grantRow{}, change(func(rec *record, g *grant) { g.Bundle = "sha256:00" }))
	add("other version", grantRow{}, change(func(rec *record, g *grant) { g.V = 2 }))
	add("other idempotency key", grantRow{}, change(func(rec *record, g *grant) { g.IdempotencyKey = "ak_00" }))
	add("grant with a route without a decision", grantRow{}, change(func(rec *record, g *grant) { g.Route = "exec.payments" }))
	add("route of other workers", grantRow{}, change(func(rec *record, g *grant) {
		g.Route, rec.Call.Decision = "exec.payments", &toolcall.Decision{Behavior: "allow", Route: "exec.payments"}
	}))
	add("call with a route that the grant lacks", grantRow{}, change(func(rec *record, _ *grant) {
		rec.Call.Decision = &toolcall.Decision{Behavior: "allow", Route: "exec.payments"}
	}))
	add("no route for a worker of a route", grantRow{Subject: "exec.payments"}, plain())

	add("started already", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Attempt.Claim = "mine" }))
	add("blocked", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Blocked = toolcall.BlockedUnknown }))
	add("retried later", grantRow{}, change(func(rec *record, g *grant) { rec.Call.RetryAt = vectorTime.Add(time.Hour) }))
	add("finished", grantRow{}, change(func(rec *record, g *grant) { rec.Call.State = message.ToolCallFinished }))
	add("asking", grantRow{}, change(func(rec *record, g *grant) { rec.Call.State = message.ToolCallAsking }))
	add("run by the runtime", grantRow{}, change(func(rec *record, g *grant) { rec.Call.Placement = toolcall.PlaceExternal }))
	add("a note", grantRow{}, change(func(rec *record, g *grant) { rec.Note = &toolcall.Note{What: "late_result"} }))
	add("a record for newer workers", grantRow{}, change(func(rec *record, g *grant) { rec.V = toolcall.RecordVersion + 1 }))
	compareVectors(t, "grants.json", map[string]any{"keys": publicTexts(), "tool": "refund", "rows": rows})
}

// verdictOf returns what a Worker does with a task: run, refuse, expired or early.
func verdictOf(t *testing.T, r grantRow) (verdict string) {
	t.Helper()
	var rec toolcall.EventRecord
	if err := strictjson.UnmarshalOpen([]byte(r.Record), &rec); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	if rec.V > toolcall.RecordVersion { // transports return such a record before a Worker sees it
		return "early"
	}
	now, err := time.Parse(time.RFC3339, r.Now)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		said := &oneTask{record: &rec, verdict: make(chan string, 8)}
		run := func(context.Context, executor.Task) (executor.Output, error) { return executor.Output{}, nil }
		w, err := executor.NewWorker(said, "refund", run, keySetOf(r.Trusted), executor.WithRoute(r.Subject), executor.WithLogger(slog.New(slog.DiscardHandler)), executor.WithDrainTimeout(0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		verdict = <-said.verdict
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return verdict
}

// oneTask is a transport with one task. It records what the worker reports first.
type oneTask struct {
	record  *toolcall.EventRecord
	verdict chan string
	given   bool
}

func (o *oneTask) say(verdict string) {
	select {
	case o.verdict <- verdict:
	default:
	}
}

func (o *oneTask) Next(ctx context.Context) (toolcall.Task, error) {
	if o.given {
		<-ctx.Done()
		return toolcall.Task{}, ctx.Err()
	}
	o.given = true
	return toolcall.Task{Record: o.record, Ack: func(context.Context) error { o.say("expired"); return nil }, Release: func(time.Duration) error { o.say("early"); return nil }}, nil
}

func (o *oneTask) Start(_ context.Context, r toolcall.StartRequest) (toolcall.StartReply, error) {
	if r.Refuse != "" {
		o.say("refuse")
	} else {
		o.say("run")
	}
	return toolcall.StartReply{}, &message.Error{Code: message.CodeSuperseded, What: "the vector ends here"}
}

func (o *oneTask) Heartbeat(context.Context, toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	return toolcall.HeartbeatReply{}, nil
}
func (o *oneTask) Progress(context.Context, toolcall.ProgressRequest) error { return nil }
func (o *oneTask) Result(context.Context, toolcall.ResultRequest) (toolcall.ResultReply, error) {
	return toolcall.ResultReply{}, nil
}
func (o *oneTask) Cancels(func(toolcall.HeartbeatRequest, string)) (stop func()) { return func() {} }

type startRow struct {
	Name    string                `json:"name"`
	Trusted []string              `json:"trusted"`
	Request toolcall.StartRequest `json:"request"`
	Reply   string                `json:"reply"` // as JSON text
	OK      bool                  `json:"ok"`
}

func TestVectorsStarts(t *testing.T) {
	t.Parallel()
	var rows []startRow
	key := vectorRequest(nil).Key
	q := toolcall.StartRequest{Key: key, Attempt: 1, Claim: "claim", Request: "request", Nonce: "nonce"}
	add := func(name string, trusted []string, change func(*toolcall.StartReply), tamper ...string) {
		r := toolcall.StartReply{Key: key, Attempt: 1, Claim: "claim", Request: "request", Nonce: "nonce", Fresh: true, LeaseMS: 15_000, HeartbeatMS: 5_000, IdempotencyKey: key.IdempotencyKey(), At: vectorTime, Deadline: vectorTime.Add(time.Minute)}
		change(&r)
		if err := r.Sign(vectorKeys()["first"]); err != nil {
			t.Fatal(err)
		}
		text, err := strictjson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		row := startRow{Name: name, Trusted: trusted, Request: q, Reply: string(text)}
		for i := 0; i < len(tamper); i += 2 {
			if !strings.Contains(row.Reply, tamper[i]) {
				t.Fatalf("%s: %s is not in %s", name, tamper[i], row.Reply)
			}
			row.Reply = strings.Replace(row.Reply, tamper[i], tamper[i+1], 1)
		}
		var got toolcall.StartReply
		if err := strictjson.UnmarshalOpen([]byte(row.Reply), &got); err != nil {
			t.Fatal(err)
		}
		row.OK = got.Verify(keySetOf(trusted), q, &toolcall.Grant{Nonce: q.Nonce}) == nil
		rows = append(rows, row)
	}
	first := []string{"first"}
	same := func(*toolcall.StartReply) {}
	add("genuine", first, same)
	add("genuine, not fresh", first, func(r *toolcall.StartReply) { r.Fresh = false })
	add("unknown key", []string{"other"}, same)
	add("other claim", first, func(r *toolcall.StartReply) { r.Claim = "other" })
	add("other request", first, func(r *toolcall.StartReply) { r.Request = "other" })
	add("no request", first, func(r *toolcall.StartReply) { r.Request = "" })
	add("other grant", first, func(r *toolcall.StartReply) { r.Nonce = "other" })
	add("other attempt", first, func(r *toolcall.StartReply) { r.Attempt = 2 })
	add("other call", first, func(r *toolcall.StartReply) { r.Call = "c2" })
	add("other space", first, func(r *toolcall.StartReply) { r.Space = "other" })
	add("other idempotency key", first, func(r *toolcall.StartReply) { r.IdempotencyKey = "ak_00" })
	add("other version", first, same, `"v":1`, `"v":2`)
	add("longer lease", first, same, `"lease_ms":15000`, `"lease_ms":150000`)
	add("fresh although it is not", first, func(r *toolcall.StartReply) { r.Fresh = false }, `"fresh":false`, `"fresh":true`)
	add("later deadline", first, same, "00:01:00Z", "00:02:00Z")
	add("not signed", first, same, `"sig":"`, `"signature":"`)
	compareVectors(t, "starts.json", map[string]any{"keys": publicTexts(), "rows": rows})
}

type ringRow struct {
	Name         string           `json:"name"`
	Trusted      []string         `json:"trusted"` // names of keys
	Retired      []string         `json:"retired"` // ids of keys that are known to be retired
	Ring         toolcall.KeyRing `json:"ring"`
	TrustedAfter []string         `json:"trusted_after"` // ids, sorted
	RetiredAfter []string         `json:"retired_after"`
}

func TestVectorsKeyRings(t *testing.T) {
	t.Parallel()
	key := func(name string) toolcall.EngineKey {
		pub := vectorKeys()[name].Public().(ed25519.PublicKey)
		return toolcall.EngineKey{ID: toolcall.KeyID(pub), Public: toolcall.FormatPublicKey(pub)}
	}
	id := func(name string) string { return key(name).ID }
	next := func(name, by string) toolcall.EngineKey {
		k := key(name)
		k.Since = vectorTime
		if err := k.Introduce(vectorKeys()[by]); err != nil {
			t.Fatal(err)
		}
		return k
	}
	retired := func(k toolcall.EngineKey, by string) toolcall.EngineKey {
		if err := k.Retire(vectorTime.Add(time.Hour), vectorKeys()[by]); err != nil {
			t.Fatal(err)
		}
		return k
	}
	forged := next("second", "first")
	forged.Sig = next("third", "first").Sig
	badID := key("second")
	badID.ID = id("other")
	if err := badID.Introduce(vectorKeys()["first"]); err != nil {
		t.Fatal(err)
	}
	var rows []ringRow
	for _, r := range []ringRow{
		{Name: "one trusted key", Trusted: []string{"first"}, Ring: toolcall.KeyRing{key("first")}},
		{Name: "no key is trusted", Trusted: []string{}, Ring: toolcall.KeyRing{key("first"), next("second", "first")}},
		{Name: "a successor", Trusted: []string{"first"}, Ring: toolcall.KeyRing{key("first"), next("second", "first"), next("third", "second")}},
		{Name: "successors in the wrong order", Trusted: []string{"first"}, Ring: toolcall.KeyRing{next("third", "second"), next("second", "first")}},
		{Name: "a successor without a signature that is good", Trusted: []string{"first"}, Ring: toolcall.KeyRing{forged, next("third", "second")}},
		{Name: "an id of another key", Trusted: []string{"first"}, Ring: toolcall.KeyRing{badID}},
		{Name: "vouched for by a stranger", Trusted: []string{"first"}, Ring: toolcall.KeyRing{next("second", "other")}},
		{Name: "a retired key", Trusted: []string{"first"}, Ring: toolcall.KeyRing{retired(key("first"), "second"), next("second", "first")}},
		{Name: "retired by a stranger", Trusted: []string{"first"}, Ring: toolcall.KeyRing{retired(key("first"), "other")}},
		{Name: "retired by the key itself", Trusted: []string{"first"}, Ring: toolcall.KeyRing{retired(key("first"), "first")}},
		{Name: "a retired key comes back", Trusted: []string{"first", "second"}, Retired: []string{id("first")}, Ring: toolcall.KeyRing{key("first"), next("second", "first")}},
		{Name: "a retired key that is still trusted vouches", Trusted: []string{"first", "second"}, Retired: []string{id("first")}, Ring: toolcall.KeyRing{key("first"), next("third", "first")}},
		{Name: "a retired key vouches", Trusted: []string{"second"}, Retired: []string{id("first")}, Ring: toolcall.KeyRing{key("first"), next("third", "first")}},
	} {
		gone := map[string]bool{}
		for _, id := range r.Retired {
			gone[id] = true
		}
		known, gone := r.Ring.Follow(keySetOf(r.Trusted), gone)
		r.TrustedAfter, r.RetiredAfter = slices.AppendSeq([]string{}, maps.Keys(known)), slices.AppendSeq([]string{}, maps.Keys(gone))
		slices.Sort(r.TrustedAfter)
		slices.Sort(r.RetiredAfter)
		r.Retired = append([]string{}, r.Retired...)
		rows = append(rows, r)
	}
	compareVectors(t, "keyrings.json", map[string]any{"keys": publicTexts(), "rows": rows})
}

type idRow struct {
	Space          string `json:"space"`
	Session        string `json:"session_id"`
	Reply          string `json:"reply_id"`
	Call           string `json:"tool_call_id"`
	IdempotencyKey string `json:"idempotency_key"`
	Path           string `json:"path,omitzero"` // absent if no URL can name the call
}

type derivedRow struct {
	Reply string `json:"reply_id"`
	Index int    `json:"index"`
	Name  string `json:"name"`
	Input string `json:"input"`
	ID    string `json:"id"`
}

func TestVectorsIDs(t *testing.T) {
	t.Parallel()
	var rows []idRow
	for _, id := range []string{"c1", "a/b", "a b", "100%", "é", "😀", "a?b#c", "a+b", ":", "~!*'()", "...", ".", "..", "/"} {
		k := toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: message.CallID(id)}
		r := idRow{"default", "s", "r", id, k.IdempotencyKey(), callPath(k)}
		if id == "." || id == ".." || id == "/" {
			r.Path = "" // a URL drops such a part, even if it is percent-encoded
		}
		rows = append(rows, r)
	}
	var derived []derivedRow
	for i, r := range [][3]string{{"r1", "refund", `{"b":1,"a":2}`}, {"r1", "refund", ` {"a": 2, "b": 1.0}`}, {"r1", "refund", `{"n":9007199254740993}`}, {"r1", "refund", `not json`}, {"é", "a.b", `{}`}, {"r2", "refund", ``}} {
		input := r[2]
		if b, err := jcs.Canonicalize([]byte(input)); err == nil {
			input = string(b)
		}
		b, err := jcs.Marshal([]any{"askance-call-v1", r[0], i, r[1], input})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		derived = append(derived, derivedRow{r[0], i, r[1], r[2], "call_" + hex.EncodeToString(sum[:16])})
	}
	compareVectors(t, "ids.json", map[string]any{"calls": rows, "derived": derived})
}

type errorRow struct {
	Name   string            `json:"name"`
	Status int               `json:"status"`
	Header map[string]string `json:"headers"`
	Body   string            `json:"body"`
	Error  errorVector       `json:"error"`
}

type errorVector struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Detail    string `json:"detail,omitzero"` // absent if the client chooses the text
	Hint      string `json:"hint,omitzero"`
	HasCall   bool   `json:"has_call,omitzero"`
}

func TestVectorsErrors(t *testing.T) {
	t.Parallel()
	problem := map[string]string{"Content-Type": "application/problem+json"}
	var rows []errorRow
	for _, code := range []message.Code{
		message.CodeInvalid, message.CodeForbidden, message.CodeForeign, message.CodeNotFound, message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeArchived, message.CodeState,
		message.CodeInterrupted, message.CodeSuperseded, message.CodeTooLarge, message.CodeOverLimit, message.CodeOverloaded, message.CodeUnavailable, message.CodeUnknownOutcome, message.CodeFull, message.CodeInternal,
	} {
		p := gateway.ProblemOf(&message.Error{Code: code, Op: "propose", What: "what is wrong", Hint: "what to do"})
		if code == message.CodeDigest {
			p.Call = vectorRecord(t, nil).Call
		}
		body, err := strictjson.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, errorRow{string(code), p.Status, problem, string(body), errorVector{string(code), p.Status == 429 || code == message.CodeUnavailable || code == message.CodeOverloaded, p.Detail, p.Hint, p.Call != nil}})
	}
	rows = append(rows, []errorRow{
		{"a proxy without an upstream", 502, map[string]string{"Content-Type": "text/html"}, "<html>", errorVector{Code: "unavailable", Retryable: true}},
		{"a proxy that is busy", 503, map[string]string{}, "", errorVector{Code: "unavailable", Retryable: true}},
		{"a proxy with a limit", 429, map[string]string{"Content-Type": "text/plain"}, "slow down", errorVector{Code: "over_limit", Retryable: true}},
		{"a gateway timeout", 504, map[string]string{}, "", errorVector{Code: "unavailable", Retryable: true}},
		{"a page of another server", 404, map[string]string{"Content-Type": "text/html"}, "<html>", errorVector{Code: "invalid_reply"}},
		{"an unknown code", 400, problem, `{"status":400,"code":"new","detail":"d","hint":"h"}`, errorVector{Code: "new", Detail: "d", Hint: "h"}},
		{"a code that is no text", 400, problem, `{"status":400,"code":7,"detail":"d"}`, errorVector{Code: "invalid_reply"}},
		{"success that is no JSON", 200, map[string]string{"Content-Type": "application/json"}, `{"calls":[`, errorVector{Code: "invalid_reply"}},
		{"success with a page", 200, map[string]string{"Content-Type": "text/html"}, `<html>`, errorVector{Code: "invalid_reply"}},
		{"success with nothing", 200, map[string]string{"Content-Type": "application/json"}, ``, errorVector{Code: "invalid_reply"}},
		{"success with a list", 200, map[string]string{"Content-Type": "application/json"}, `[]`, errorVector{Code: "invalid_reply"}},
		{"a redirect", 302, map[string]string{"Location": "https://example.com/"}, ``, errorVector{Code: "invalid_reply"}},
	}...)
	compareVectors(t, "errors.json", map[string]any{"rows": rows})
}

type callRow struct {
	Name    string      `json:"name"`
	Call    string      `json:"call"` // as JSON text
	Outcome callOutcome `json:"outcome"`
}

// callOutcome is what a runtime does with a call of its own tool.
type callOutcome struct {
	Kind   string `json:"kind"` // wait, run, denied, answered, error
	Input  string `json:"input,omitzero"`
	Text   string `json:"text,omitzero"`
	Output any    `json:"output,omitzero"`
	Denial any    `json:"denial,omitzero"`
}

func TestVectorsCalls(t *testing.T) {
	t.Parallel()
	var rows []callRow
	add := func(name string, change func(*toolcall.Call), outcome callOutcome, tamper ...string) {
		c := vectorRecord(t, nil).Call
		c.Placement, c.Attempt.Grant = toolcall.PlaceExternal, nil
		change(c)
		text, err := strictjson.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		r := callRow{name, string(text), outcome}
		for i := 0; i < len(tamper); i += 2 {
			if !strings.Contains(r.Call, tamper[i]) {
				t.Fatalf("%s: %s is not in %s", name, tamper[i], r.Call)
			}
			r.Call = strings.ReplaceAll(r.Call, tamper[i], tamper[i+1])
		}
		runs := c.Phase() == toolcall.PhaseQueued && c.Placement == toolcall.PlaceExternal
		if outcome.Kind != "error" && outcome.Kind == "wait" != (c.Open() && !runs) {
			t.Errorf("%s: the outcome %s does not fit the phase %s", name, outcome.Kind, c.Phase())
		}
		rows = append(rows, r)
	}
	result := func(state message.ToolResultState, out message.Content) func(*toolcall.Call) {
		return func(c *toolcall.Call) {
			r := toolcall.TextResult(c, state, "", vectorTime)
			r.Output = out
			c.State, c.Result = message.ToolCallFinished, &r
		}
	}
	text := func(s string) message.Content { return message.Content{Text: s} }
	add("allowed", func(*toolcall.Call) {}, callOutcome{Kind: "run", Input: refundInput})
	add("allowed with an edit", func(c *toolcall.Call) { c.Input, c.Request.Input = `{"cents":1}`, `{"cents":1}` }, callOutcome{Kind: "run", Input: `{"cents":1}`})
	add("asking", func(c *toolcall.Call) { c.State = message.ToolCallAsking }, callOutcome{Kind: "wait"})
	add("pending", func(c *toolcall.Call) { c.State = message.ToolCallPending }, callOutcome{Kind: "wait"})
	add("allowed, not handed over yet", func(c *toolcall.Call) { c.State = message.ToolCallAllowed }, callOutcome{Kind: "wait"})
	add("blocked", func(c *toolcall.Call) { c.Blocked = toolcall.BlockedUnknown }, callOutcome{Kind: "wait"})
	add("denied", result(message.ToolResultDenied, text("not today")), callOutcome{Kind: "denied", Text: "not today"})
	denial := &toolcall.Denial{Cause: "deny", Rule: "limit", Reason: "too much", Allowed: "at most 500", Contact: "#finance"}
	add("denied, with what would be allowed", func(c *toolcall.Call) {
		result(message.ToolResultDenied, text("too much"))(c)
		c.Denial = denial
	}, callOutcome{Kind: "denied", Text: "too much", Denial: denial})
	add("refused input", result(message.ToolResultError, text("the input does not fit")), callOutcome{Kind: "denied", Text: "the input does not fit"})
	add("interrupted", result(message.ToolResultInterrupted, text("stopped")), callOutcome{Kind: "denied", Text: "stopped"})
	add("answered in place", result(message.ToolResultSuccess, text("by hand")), callOutcome{Kind: "answered", Output: "by hand"})
	add("answered with blocks", result(message.ToolResultSuccess, message.List(&message.TextBlock{Text: "a"}, &message.TextBlock{Text: "b"})), callOutcome{Kind: "answered", Output: "a\nb"})

	add("an unknown state", func(*toolcall.Call) {}, callOutcome{Kind: "error"}, `"state":"submitted"`, `"state":"allowed_by_magic"`)
	add("no state", func(*toolcall.Call) {}, callOutcome{Kind: "error"}, `"state":"submitted"`, `"stat":"submitted"`)
	add("finished without a result", func(c *toolcall.Call) { c.State = message.ToolCallFinished }, callOutcome{Kind: "error"})
	add("an unknown state of the result", result(message.ToolResultSuccess, text("x")), callOutcome{Kind: "error"}, `"state":"success"`, `"state":"fine"`)
	add("input that is no text", func(c *toolcall.Call) { c.Input = "{}" }, callOutcome{Kind: "error"}, `"input":"{}"`, `"input":{}`)
	add("run by a worker", func(c *toolcall.Call) { c.Placement = toolcall.PlaceRemote }, callOutcome{Kind: "wait"})
	add("an unknown place", func(*toolcall.Call) {}, callOutcome{Kind: "error"}, `"placement":"external"`, `"placement":"moon"`)
	add("another call", func(c *toolcall.Call) { c.Call = "c2" }, callOutcome{Kind: "error"})
	add("another tool", func(c *toolcall.Call) { c.Tool = "other" }, callOutcome{Kind: "error"})
	key := vectorRequest(nil).Key
	compareVectors(t, "calls.json", map[string]any{"key": key, "tool": "refund", "rows": rows})
}

type requestRow struct {
	Name    string          `json:"name"` // the operation
	As      string          `json:"as"`   // the role
	Args    json.RawMessage `json:"arguments"`
	Method  string          `json:"method"`
	Path    string          `json:"path"` // including the query
	Body    json.RawMessage `json:"body,omitzero"`
	Status  int             `json:"status"`
	Retried bool            `json:"idempotency_key,omitzero"` // the request has an Idempotency-Key
}

// TestVectorsRequests sends the requests to a server.
func TestVectorsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	const own = `{"session_id":"s/é 1","reply_id":"r%?","tool_call_id":"c#1"`
	const path = "s%2F%C3%A9%201/r%25%3F/c%231"
	const reply = "/v1/sessions/s%2F%C3%A9%201/replies/r%25%3F"
	const digest = `"digest":"sha256:0000"`
	rows := []requestRow{
		{"propose", "runtime", raw(`{"session_id":"s/é 1","reply_id":"r%?","agent":"a","calls":[{"id":"c#1","name":"lookup","input":"{\"n\": 9007199254740993}"},{"id":"c2","name":"browse","input":"{}"}],"external_tools":["lookup"]}`),
			post, reply + "/calls", raw(`{"agent":"a","tool_calls":[{"type":"tool_call","id":"c#1","name":"lookup","input":"{\"n\": 9007199254740993}"},{"type":"tool_call","id":"c2","name":"browse","input":"{}"}],"external_tools":["lookup"]}`), 200, true},
		{"preview", "runtime", raw(`{"session_id":"s/é 1","reply_id":"r%?","calls":[{"id":"c1","name":"drop","input":"{}"}]}`),
			post, reply + "/preview", raw(`{"tool_calls":[{"type":"tool_call","id":"c1","name":"drop","input":"{}"}]}`), 200, false},
		{"wait", "runtime", raw(`{"session_id":"s/é 1","reply_id":"r%?","tool_call_ids":["c#1","c2"],"timeout_ms":1}`),
			get, reply + "/wait?tool_call_id=c%231&tool_call_id=c2&until=runnable&timeout_ms=1", nil, 200, false},
		{"begin", "runtime", raw(own + `,"claim":"mine"}`), post, "/v1/calls/" + path + "/begin", raw(`{"claim":"mine"}`), 200, true},
		{"report", "runtime", raw(own + `,"tool_name":"lookup","output":"found","state":"success"}`),
			post, "/v1/calls/" + path + "/result", raw(`{"result":{"type":"tool_result","id":"c#1","name":"lookup","output":"found","state":"success"}}`), 200, true},
		{"requests", "approver", raw(`{"session_id":"s/é 1"}`), get, "/v1/calls?state=asking&session_id=s%2F%C3%A9%201", nil, 200, false},
		{"respond", "approver", raw(own + `,` + digest + `,"kind":"approve"}`), post, "/v1/calls/" + path + "/response", raw(`{` + digest + `,"kind":"approve"}`), 409, true},
		{"respond", "approver", raw(own + `,` + digest + `,"kind":"approve","input":"{\"a\": 1}"}`), post, "/v1/calls/" + path + "/response", raw(`{` + digest + `,"kind":"approve","input":"{\"a\": 1}"}`), 409, true},
		{"respond", "approver", raw(own + `,` + digest + `,"kind":"reject","feedback":"no"}`), post, "/v1/calls/" + path + "/response", raw(`{` + digest + `,"kind":"reject","feedback":"no"}`), 409, true},
		{"respond", "approver", raw(own + `,` + digest + `,"kind":"respond","output":"by hand"}`), post, "/v1/calls/" + path + "/response", raw(`{` + digest + `,"kind":"respond","output":"by hand"}`), 409, true},
		{"show", "approver", raw(own + `}`), get, "/v1/calls/" + path, nil, 200, false},
		{"interrupt", "runtime", raw(`{"session_id":"s/é 1","reply_id":"r%?","reason":"stop"}`), post, reply + "/interrupt", raw(`{"reason":"stop"}`), 200, true},
		{"next", "worker", raw(`{"tool_name":"job","limit":2,"wait_ms":1}`), post, "/v1/work/next", raw(`{"tool_name":"job","limit":2,"wait_ms":1}`), 200, false},
		{"keys", "worker", raw(`{}`), get, "/v1/work/keys", nil, 200, false},
	}
	for _, r := range rows {
		client := w.A.HTTP(map[string]string{"runtime": gatewaytest.Bot, "approver": gatewaytest.Ann, "worker": gatewaytest.Wendy}[r.As])
		if a := w.do(client, r.Method, r.Path, string(r.Body)); a.status != r.Status {
			t.Errorf("%s %s %s: %d %s, want %d", r.Method, r.Path, r.Body, a.status, a.body, r.Status)
		}
	}
	if c := w.A.Show(toolcall.Key{Space: w.A.ID, Session: "s/é 1", Reply: "r%?", Call: "c#1"}); c.Result == nil || c.Input != `{"n": 9007199254740993}` {
		t.Errorf("the call is %+v", c)
	}
	compareVectors(t, "requests.json", map[string]any{"rows": rows})
}

type streamRow struct {
	Name   string        `json:"name"`
	Chunks []string      `json:"chunks"`
	Events []streamEvent `json:"events"`
}

type streamEvent struct {
	ID   string `json:"id"`
	Name string `json:"event"`
	Data string `json:"data"`
}

func TestVectorsStreams(t *testing.T) {
	t.Parallel()
	one := []streamEvent{{"7", "message", `{"a":1}`}}
	rows := []streamRow{
		{"one event", []string{"id: 7\ndata: {\"a\":1}\n\n"}, one},
		{"in pieces", []string{"i", "d: 7\nda", "ta: {\"a\"", ":1}\n", "\n"}, one},
		{"without a space", []string{"id:7\ndata:{\"a\":1}\n\n"}, one},
		{"carriage returns", []string{"id: 7\r\ndata: {\"a\":1}\r", "\n\r\n"}, one},
		{"comments", []string{": alive\n\n", "id: 7\n: x\ndata: {\"a\":1}\n\n: alive\n\n"}, one},
		{"names", []string{"event: ready\ndata: {}\n\nevent: call\ndata: {\"a\":1}\n\n"}, []streamEvent{{"", "ready", "{}"}, {"", "call", `{"a":1}`}}},
		{"lines of data", []string{"data: {\ndata: }\n\n"}, []streamEvent{{"", "message", "{\n}"}}},
		{"no data", []string{"id: 7\nevent: x\n\ndata: {}\n\n"}, []streamEvent{{"7", "message", "{}"}}},
		{"the id stays", []string{"id: 7\ndata: 1\n\ndata: 2\n\n"}, []streamEvent{{"7", "message", "1"}, {"7", "message", "2"}}},
		{"cut at its end", []string{"id: 7\ndata: {\"a\":1}\n\nid: 8\ndata: {\"a\":2}\n"}, one},
	}
	for _, r := range rows {
		if len(r.Events) == 0 || fmt.Sprint(r.Chunks) == "" {
			t.Errorf("%s has no events", r.Name)
		}
	}
	compareVectors(t, "streams.json", map[string]any{"rows": rows})
}
