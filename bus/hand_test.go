package bus_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// These tests follow PROTOCOL.md by hand, using nothing of askance but the files and the subjects.

// handKeys makes a key file, lets b use it and gives its secret and public key.
func handKeys(t *testing.T, b *bustest.Bus) (mac []byte, id string, public ed25519.PublicKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.key")
	keys, err := keyfile.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	b.UseKeys(keys)
	var f struct {
		ID   string `json:"id"`
		MAC  string `json:"mac_key"`
		Seed string `json:"signing_seed"`
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err == nil {
		mac, err = base64.RawURLEncoding.DecodeString(f.MAC)
	}
	if err != nil {
		t.Fatal(err)
	}
	seed, err := base64.RawURLEncoding.DecodeString(f.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return mac, f.ID, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

func lengthFirst(text string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(text))), text...)
}

// handMAC computes the MAC of a record.
func handMAC(key []byte, subject string, prev uint64, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("askance-record-v1\x00"))
	h.Write(lengthFirst(subject))
	h.Write(binary.BigEndian.AppendUint64(nil, prev))
	h.Write(body)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// handToken encodes a name.
func handToken(name string) string {
	switch {
	case len(name) <= 64 && name[0] != '-' && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "":
		return name
	case len(name) <= 180:
		return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return "~~" + handSHA256([]byte(name))
}

func handSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonical is RFC 8785 for values that have only text, whole numbers, lists
// and objects with ASCII names: encoding/json sorts those the same way.
func canonical(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// handRecord makes the message that stores an event record of the call c1 of s1 and r1.
func handRecord(key []byte, keyID, space, id, kind, body string, prev uint64) *nats.Msg {
	entity := "askance.v1." + space + ".record.s1.r1.c1."
	m := nats.NewMsg(entity + "f")
	m.Data = []byte(body)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(prev, 10))
	m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", entity+">")
	m.Header.Set("Nats-Msg-Id", id)
	m.Header.Set("Askance-Kind", kind)
	m.Header.Set("Askance-MAC", keyID+" "+handMAC(key, m.Subject, prev, m.Data))
	return m
}

// handRequest sends a request and returns the reply's body.
func handRequest(t *testing.T, nc *nats.Conn, subject, request string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, []byte(request))
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var reply map[string]any
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		t.Fatal(err)
	}
	if reply["v"] != float64(1) || reply["error"] != nil {
		t.Fatalf("%s %s: %s", subject, request, m.Data)
	}
	body, _ := reply["body"].(map[string]any)
	return body
}

// example is one request on the page and its subject.
type example struct{ subject, request string }

// pageExamples returns the requests in PROTOCOL.md, in their order.
func pageExamples(t *testing.T) map[string][]example {
	t.Helper()
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]example{}
	for _, part := range strings.Split(string(page), "<!-- example: ")[1:] {
		subject, rest, _ := strings.Cut(part, " -->")
		_, rest, _ = strings.Cut(rest, "```json\n")
		request, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("the example for %s is not closed", subject)
		}
		last := subject[strings.LastIndexByte(subject, '.')+1:]
		all[last] = append(all[last], example{subject, request})
	}
	return all
}

// A runtime, an approver and a worker use exactly the requests of the page, and check what the page
// says they can check.
func TestProtocolByHand(t *testing.T) {
	w := newWorld(t)
	mac, keyID, public := handKeys(t, w.Bus)
	w.engineOf(space{
		name:  "default",
		tools: []engine.Tool{tool("refund", toolcall.PlaceRemote)},
		rules: []permission.Rule{{Name: "money", Tools: []string{"refund"}, Behavior: message.BehaviorAsk}},
	}, bus.ServiceOptions{})
	examples := pageExamples(t)
	bot, ann, worker := w.Conn("bot"), w.Conn("ann"), w.Conn("wk-1")
	send := func(nc *nats.Conn, e example) map[string]any { return handRequest(t, nc, e.subject, e.request) }

	proposed := callOf(t, send(bot, examples["bot"][0]))
	if proposed["state"] != "asking" {
		t.Fatalf("proposed: %v", proposed)
	}
	if parked := send(bot, examples["bot"][1]); parked["done"] != true {
		t.Errorf("wait: %v", parked)
	}
	asked := callOf(t, send(ann, examples["ann"][0]))
	digest := "sha256:" + handSHA256(canonical(t, asked["request"]))
	if digest != asked["digest"] {
		t.Fatalf("the digest is %v, by hand %s", asked["digest"], digest)
	}
	answer := examples["ann"][1]
	answer.request = strings.Replace(answer.request, "DIGEST", digest, 1)
	if approved := send(ann, answer); approved["state"] != "submitted" {
		t.Fatalf("approved: %v", approved)
	}

	task := handPull(t, worker, examples["next"][0])
	handCheck(t, task, "refund", keyID, public)
	handCheckMAC(t, bustest.Genuine(t, w.Conn("auditor"), "ASKANCE_default", 3), mac, keyID)
	handStart(t, worker, examples["start"][0], task, public)
	ack := examples["ack"][0]
	ack.request = strings.Replace(ack.request, "ITEM", task.Task, 1)
	send(worker, ack)
	if alive := send(worker, examples["heartbeat"][0]); alive["stale"] != nil || alive["cancel"] != nil {
		t.Errorf("heartbeat: %v", alive)
	}
	send(worker, examples["progress"][0])
	if stored := send(worker, examples["result"][0]); stored["stored"] != true || stored["state"] != "finished" {
		t.Errorf("result: %v", stored)
	}
	if done := callOf(t, send(bot, examples["bot"][1])); done["result"].(map[string]any)["output"] != "receipt 7" {
		t.Errorf("in the end: %v", done)
	}
}

// callOf returns the only call of a reply.
func callOf(t *testing.T, body map[string]any) map[string]any {
	t.Helper()
	calls, _ := body["calls"].([]any)
	if len(calls) != 1 {
		t.Fatalf("%d calls: %v", len(calls), body)
	}
	return calls[0].(map[string]any)
}

// handTask is a task as a worker receives it.
type handTask struct {
	State, Subject, Task string
	Record               json.RawMessage
}

// handPull takes one task.
func handPull(t *testing.T, nc *nats.Conn, e example) handTask {
	t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(e.subject, inbox, []byte(e.request)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		var reply struct{ Body handTask }
		if err := json.Unmarshal(m.Data, &reply); err != nil {
			t.Fatalf("next: %s: %v", m.Data, err)
		}
		if reply.Body.State == "task" {
			return reply.Body
		}
	}
}

// handCheck is step 2 of a worker.
func handCheck(t *testing.T, m handTask, tool, keyID string, public ed25519.PublicKey) {
	t.Helper()
	var record struct {
		Call map[string]any `json:"call"`
	}
	if err := json.Unmarshal(m.Record, &record); err != nil {
		t.Fatal(err)
	}
	call := record.Call
	request := call["request"].(map[string]any)
	attempt := call["attempt"].(map[string]any)
	grant := attempt["grant"].(map[string]any)
	text := func(v any) string { s, _ := v.(string); return s }
	subject := "askance.v1." + text(call["space"]) + ".record." + handToken(text(call["session_id"])) + "." + handToken(text(call["reply_id"])) + "." + handToken(text(call["tool_call_id"])) + ".w." + handToken(tool)
	if m.Subject != subject || call["state"] != "submitted" || attempt["claim"] != nil || call["blocked"] != nil {
		t.Fatalf("not an unstarted attempt: %s %v", m.Subject, call)
	}
	sig, err := base64.RawURLEncoding.DecodeString(text(grant["sig"]))
	if err != nil {
		t.Fatal(err)
	}
	delete(grant, "sig")
	if !ed25519.Verify(public, append([]byte("askance-grant-v1\n"), canonical(t, grant)...), sig) || grant["key_id"] != keyID || keyID != handSHA256(public)[:16] {
		t.Errorf("the grant's signature does not fit: %v", grant)
	}
	for _, name := range []string{"space", "session_id", "reply_id", "tool_call_id", "tool_name", "input"} {
		if request[name] != call[name] || name != "input" && grant[name] != call[name] {
			t.Errorf("%s of call, approval request and grant: %v, %v, %v", name, call[name], request[name], grant[name])
		}
	}
	if grant["attempt"] != attempt["number"] || grant["bundle"] != request["bundle"] || grant["digest"] != "sha256:"+handSHA256(canonical(t, request)) {
		t.Errorf("the grant is for something else: %v", grant)
	}
	if grant["idempotency_key"] != handIdempotency(call) {
		t.Errorf("idempotency key %v", grant["idempotency_key"])
	}
	from, err := time.Parse(time.RFC3339Nano, text(grant["not_before"]))
	to, err2 := time.Parse(time.RFC3339Nano, text(grant["expires"]))
	if now := time.Now(); err != nil || err2 != nil || now.Before(from) || now.After(to) {
		t.Errorf("not valid now: %v", grant)
	}
}

// handStart is step 3 of a worker.
func handStart(t *testing.T, nc *nats.Conn, e example, m handTask, public ed25519.PublicKey) {
	t.Helper()
	var record struct {
		Call map[string]any `json:"call"`
	}
	if err := json.Unmarshal(m.Record, &record); err != nil {
		t.Fatal(err)
	}
	call := record.Call
	nonce := call["attempt"].(map[string]any)["grant"].(map[string]any)["nonce"]
	e.request = strings.Replace(e.request, "NONCE", nonce.(string), 1)
	leave := handRequest(t, nc, e.subject, e.request)
	sig, err := base64.RawURLEncoding.DecodeString(leave["sig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	delete(leave, "sig")
	if !ed25519.Verify(public, append([]byte("askance-start-v1\n"), canonical(t, leave)...), sig) || leave["key_id"] != handSHA256(public)[:16] {
		t.Errorf("the signature of the start reply does not match: %v", leave)
	}
	for _, name := range []string{"space", "session_id", "reply_id", "tool_call_id"} {
		if leave[name] != call[name] {
			t.Errorf("%s of the start reply: %v, want %v", name, leave[name], call[name])
		}
	}
	if leave["v"] != 1.0 || leave["attempt"] != 1.0 || leave["claim"] != "my-claim" || leave["request"] != "my-request" || leave["grant_nonce"] != nonce ||
		leave["idempotency_key"] != handIdempotency(call) || leave["fresh"] != true || leave["lease_ms"].(float64) < 500 || leave["heartbeat_ms"].(float64) <= 0 {
		t.Errorf("start: %v", leave)
	}
}

func handIdempotency(call map[string]any) string {
	b := []byte("askance-idempotency-v1\x00")
	for _, name := range []string{"space", "session_id", "reply_id", "tool_call_id"} {
		part, _ := call[name].(string)
		b = append(b, lengthFirst(part)...)
	}
	return "ak_" + handSHA256(b)
}

// handCheckMAC checks what a reader of the journal with the key checks.
func handCheckMAC(t *testing.T, m *nats.Msg, key []byte, keyID string) {
	t.Helper()
	prev, err := strconv.ParseUint(m.Header.Get("Nats-Expected-Last-Subject-Sequence"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	entity, _, _ := strings.Cut(m.Subject, ".w.")
	if m.Header.Get("Nats-Expected-Last-Subject-Sequence-Subject") != entity+".>" || m.Header.Get("Askance-MAC") != keyID+" "+handMAC(key, m.Subject, prev, m.Data) {
		t.Errorf("the MAC does not fit: %v", m.Header)
	}
	for _, added := range []string{"Nats-Sequence", "Nats-Stream", "Nats-Subject", "Nats-Time-Stamp"} { // by the direct get
		m.Header.Del(added)
	}
	if len(m.Header) != 4 || m.Header.Get("Nats-Msg-Id") == "" {
		t.Errorf("the page lists four headers, there are %v", m.Header)
	}
}
