package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// A complete exchange between a runtime, an approver and an operator.
func TestConversations(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	ann := w.client(toolcall.RoleApprover, "ann")
	olga := w.client(toolcall.RoleOperator, "olga")
	eve := w.client(toolcall.RoleAuditor, "eve")

	calls := propose(t, bot, toolCall("c1", echo, `{"n":1}`), toolCall("c2", pay, `{"n":2}`), toolCall("c3", pay, `{"n":3}`), toolCall("c4", outside, `{}`))
	if len(calls) != 4 || calls[1].State != message.ToolCallAsking {
		t.Fatalf("proposed: %+v", calls)
	}
	if again := propose(t, bot, toolCall("c2", pay, `{"n":2}`)); again[0].Digest != calls[1].Digest {
		t.Error("proposed again, and asked something else")
	}
	open, err := ann.List(t.Context(), toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
	if err != nil || len(open.Calls) != 2 {
		t.Fatalf("ann sees %d approval requests, %v", len(open.Calls), err)
	}
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c2"), Digest: "sha256:other", Kind: toolcall.ResponseApprove}); !errors.Is(err, message.ErrDigest) {
		t.Errorf("an answer to another approval request: %v", err)
	}
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c2"), Digest: calls[1].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	done := finished(t, bot, "c1", "c2")
	if done[1].Result.State != message.ToolResultSuccess || done[1].Votes[0].By != (toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "nats-subject"}) {
		t.Errorf("c2 = %+v", done[1])
	}
	if _, err := bot.Report(t.Context(), toolcall.ReportRequest{Key: bustest.CallKey("c4"), Result: message.ToolResultBlock{ID: "c4", Name: outside, State: message.ToolResultSuccess, Output: message.Content{Text: "ok"}}}); err != nil {
		t.Errorf("report: %v", err)
	}
	if _, err := olga.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s1", Reply: "r1", Reason: "enough"}); err != nil {
		t.Errorf("interrupt: %v", err)
	}
	if c := finished(t, bot, "c3")[0]; c.Result.State != message.ToolResultInterrupted {
		t.Errorf("c3 = %+v", c)
	}
	show, err := eve.Show(t.Context(), toolcall.ShowRequest{Key: bustest.CallKey("c2")})
	if err != nil || len(show.History) < 2 {
		t.Errorf("show: %+v, %v", show, err)
	}
	if info, err := eve.Info(t.Context()); err != nil || info.Space != "test" || info.Durability != "cached" {
		t.Errorf("info: %+v, %v", info, err)
	}
	emitted, err := bot.Emit(t.Context(), toolcall.EmitRequest{Session: "s1", Reply: "r1", Events: []message.RawJSON{message.RawJSON(`{"type":"TEXT_BLOCK_START","reply_id":"r1","block_id":"b"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	evs, err := eve.Events(t.Context(), toolcall.EventsRequest{Session: "s1", After: emitted.Seq - 1, WaitMS: 1000})
	if err != nil || len(evs.Events) == 0 || !strings.Contains(string(evs.Events[0].Event), "TEXT_BLOCK_START") {
		t.Errorf("events: %+v, %v", evs, err)
	}
	forged := toolcall.EmitRequest{Session: "s1", Reply: "r1", Events: []message.RawJSON{message.RawJSON(`{"type":"CUSTOM","name":"\u0061skance.turn","value":{}}`)}}
	if _, err := bot.Emit(t.Context(), forged); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("a runtime wrote a record of askance's own: %v", err)
	}
	if _, err := olga.Resolve(t.Context(), toolcall.ResolveRequest{Key: bustest.CallKey("c1"), Attempt: 1, Outcome: toolcall.OutcomeHappened}); err == nil {
		t.Error("a finished call was resolved")
	}
	if _, err := olga.Revoke(t.Context(), toolcall.RevokeRequest{Key: bustest.CallKey("c1")}); !errors.Is(err, message.ErrState) {
		t.Errorf("a finished call was revoked: %v", err)
	}
}

// The client refuses what its role may not do without sending a request.
func TestClientRoles(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	ctx := t.Context()
	for role, may := range map[toolcall.Role]string{
		toolcall.RoleRuntime:  "propose emit report interrupt",
		toolcall.RoleApprover: "submit_response revoke interrupt",
		toolcall.RoleOperator: "resolve revoke interrupt report",
		toolcall.RoleAuditor:  "",
	} {
		c := w.client(role, "p-"+string(role))
		for op, err := range map[string]error{
			"propose":         second(c.Propose(ctx, toolcall.ProposeRequest{})),
			"emit":            second(c.Emit(ctx, toolcall.EmitRequest{})),
			"report":          second(c.Report(ctx, toolcall.ReportRequest{})),
			"submit_response": second(c.SubmitResponse(ctx, toolcall.Response{})),
			"interrupt":       second(c.Interrupt(ctx, toolcall.InterruptRequest{})),
			"resolve":         second(c.Resolve(ctx, toolcall.ResolveRequest{})),
			"revoke":          second(c.Revoke(ctx, toolcall.RevokeRequest{})),
		} {
			allowed := strings.Contains(" "+may+" ", " "+op+" ")
			if errors.Is(err, message.ErrForbidden) == allowed {
				t.Errorf("%s %s: %v, allowed %v", role, op, err, allowed)
			}
		}
		if _, err := c.List(ctx, toolcall.ListRequest{}); err != nil {
			t.Errorf("%s list: %v", role, err)
		}
	}
	if _, err := bus.NewClient(w.Conn("x"), "test", toolcall.Principal{Role: toolcall.RoleWorker, Name: "x"}); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("a client for a worker: %v", err)
	}
	if _, err := bus.NewClient(w.Conn("x"), "test", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "y"}); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("a client on another principal's connection: %v", err)
	}
}

func second[A any](_ A, err error) error { return err }

// spy records everything that is sent in the space and to any inbox.
type spy struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (w *world) spy(subjects ...string) *spy {
	s := &spy{}
	nc := w.Conn("spy")
	for _, subject := range subjects {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen = append(s.seen, m.Subject+" "+string(m.Data))
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := nc.FlushWithContext(w.t.Context()); err != nil {
		// FlushWithContext requires a deadline.
		ctx, cancel := context.WithTimeout(w.t.Context(), bustest.Patience)
		defer cancel()
		if err := nc.FlushWithContext(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

func (s *spy) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// A request with a foreign reply subject is dropped unanswered, from every role and on every subject:
// the engine's reply would be a message that the sender itself cannot publish. On fake time the
// test can wait for the missing reply.
func TestForeignReplySubjects(t *testing.T) {
	body := map[bus.Kind]string{
		bus.KindPropose:      `{"v":1,"op":"propose","body":{"session_id":"s9","reply_id":"r9","tool_calls":[{"type":"tool_call","id":"c9","name":"echo","input":"{}"}]}}`,
		bus.KindInterrupt:    `{"v":1,"op":"interrupt","body":{"session_id":"s1","reply_id":"r1"}}`,
		bus.KindQuery:        `{"v":1,"op":"info"}`,
		bus.KindDecide:       `{"v":1,"op":"submit_response","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c1","digest":"DIGEST","kind":"approve"}}`,
		bus.KindOperate:      `{"v":1,"op":"interrupt","body":{"session_id":"s1","reply_id":"r1"}}`,
		bus.KindStart:        `{"v":1,"op":"start","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2","attempt":1,"claim":"x"}}`,
		bus.KindHeartbeat:    `{"v":1,"op":"heartbeat","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2","attempt":1,"claim":"x"}}`,
		bus.KindWorkProgress: `{"v":1,"op":"progress","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2","attempt":1,"claim":"x","n":1,"text":"x"}}`,
		bus.KindResult:       `{"v":1,"op":"result","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2","attempt":1,"claim":"x","result":{"type":"tool_result","id":"c2","name":"job","output":"","state":"success"}}}`,
	}
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		beats := &beats{}
		w.engine(bus.ServiceOptions{Observer: beats})
		bot := w.client(toolcall.RoleRuntime, "bot")
		calls := propose(t, bot, toolCall("c1", pay, `{}`), toolCall("c2", job, `{}`))
		synctest.Wait()
		journal := w.Journal("test")
		_, end, err := journal.Read(t.Context(), bustest.CallKey("").SessionKey(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		spy := w.spy("askance.v1.test.record.>", "askance.v1.test.event.>", "askance.v1.test.ask.>", "askance.v1.test.decide.ann",
			"askance.v1.test.propose.victim", "_INBOX.>", "_INBOX_victim.>", "_INBOX_mallory2.>", "_INBOX_mallor.>", "stolen.>", "_INBOX_mallory")
		nc := w.Conn("mallory")
		for kind, text := range body {
			subject := bus.Subject{Space: "test", Kind: kind, Who: "mallory", Tool: job}.String()
			text = strings.Replace(text, "DIGEST", calls[0].Digest, 1)
			for _, reply := range []string{
				"", "askance.v1.test.record.s1.r1.c1.f", "askance.v1.test.event.bot.s1.r1", "askance.v1.test.decide.ann", "askance.v1.test.propose.victim",
				"askance.v1.test.ask.s1.r1.c1", "_INBOX.abc.def", "_INBOX_victim.abc", "_INBOX_mallory2.abc", "_INBOX_mallor.y.abc", "_INBOX_mallory",
				"_INBOX_mallory.", "_INBOX_mallory.*", "_INBOX_mallory.>", "_INBOX_mallory..x", "stolen.x", "$JS.API.STREAM.PURGE.ASKANCE_test", "$JS.API.STREAM.DELETE.ASKANCE_test",
			} {
				if err := nc.PublishRequest(subject, reply, []byte(text)); err != nil {
					if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: []byte(text)}); err != nil {
						continue // the client itself refuses that reply subject
					}
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if seen := spy.all(); len(seen) != 0 {
			t.Errorf("delivered: %q", seen)
		}
		if _, now, err := journal.Read(t.Context(), bustest.CallKey("").SessionKey(), 0, 1000); err != nil || now != end {
			t.Errorf("the journal went from %d to %d, %v", end, now, err)
		}
		if n := beats.count(); n != 1 {
			t.Errorf("%d heartbeats observed, want the one without a reply subject", n)
		}
	})
}

// beats collects the heartbeats that an observer receives.
type beats struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (b *beats) ObserveWorker(string, toolcall.Queue) func() { return func() {} }

func (b *beats) ObserveHeartbeat(worker string, queue toolcall.Queue, r toolcall.HeartbeatRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, fmt.Sprintf("%s of %q %s %d %s", worker, queue.Tool, r.Call, r.Attempt, r.Claim))
}

func (b *beats) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

// rawRequest sends bytes as a principal and returns the error in the reply.
func rawRequest(t *testing.T, nc *nats.Conn, subject, body string) *message.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var r struct {
		Error *message.Error `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		t.Fatalf("reply %s: %v", m.Data, err)
	}
	return r.Error
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	nc := w.Conn("bot")
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, tc := range []struct {
		name, subject, body string
		want                message.Code
	}{
		{"empty", "propose", "", message.CodeInvalid},
		{"no JSON", "propose", "propose!", message.CodeInvalid},
		{"two values", "propose", `{"v":1,"op":"info"}{}`, message.CodeInvalid},
		{"duplicate op", "propose", `{"v":1,"op":"info","op":"propose"}`, message.CodeInvalid},
		{"wrong case", "propose", `{"v":1,"Op":"info"}`, message.CodeInvalid},
		{"unknown member", "propose", `{"v":1,"op":"info","as":"operator"}`, message.CodeInvalid},
		{"no version", "propose", `{"op":"info"}`, message.CodeInvalid},
		{"another version", "propose", `{"v":2,"op":"info"}`, message.CodeInvalid},
		{"unknown op", "propose", `{"v":1,"op":"drop table"}`, message.CodeInvalid},
		{"op of another role", "propose", `{"v":1,"op":"submit_response","body":{}}`, message.CodeInvalid},
		{"op of another subject", "query", `{"v":1,"op":"propose","body":{}}`, message.CodeInvalid},
		{"op of the engine", "propose", `{"v":1,"op":"start","body":{}}`, message.CodeInvalid},
		{"duplicate in the body", "propose", `{"v":1,"op":"list","body":{"limit":1,"limit":2}}`, message.CodeInvalid},
		{"unknown in the body", "propose", `{"v":1,"op":"list","body":{"limits":1}}`, message.CodeInvalid},
		{"wrong type in the body", "propose", `{"v":1,"op":"list","body":{"limit":"1"}}`, message.CodeInvalid},
		{"body that is no object", "propose", `{"v":1,"op":"list","body":[]}`, message.CodeInvalid},
		{"too deep", "propose", `{"v":1,"op":"list","body":` + deep + `}`, message.CodeInvalid},
		{"not UTF-8", "propose", "{\"v\":1,\"op\":\"show\",\"body\":{\"space\":\"\xff\"}}", message.CodeInvalid},
		{"too large", "propose", `{"v":1,"op":"list","body":{"session_id":"` + strings.Repeat("x", toolcall.MaxRequestBytes) + `"}}`, message.CodeTooLarge},
		{"a principal in the body", "decide", `{"v":1,"op":"submit_response","body":{"by":{"role":"approver","name":"ann"}}}`, message.CodeInvalid},
		{"an unknown call", "query", `{"v":1,"op":"show","body":{"space":"test","session_id":"a.*","reply_id":">","tool_call_id":" "}}`, message.CodeNotFound},
		{"an empty proposal", "propose", `{"v":1,"op":"propose"}`, message.CodeInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := rawRequest(t, nc, "askance.v1.test."+tc.subject+".bot", tc.body)
			if e == nil || e.Code != tc.want || e.What == "" || len(e.What) > 1000 {
				t.Errorf("%+v, want %s", e, tc.want)
			}
		})
	}
	if _, last, err := w.Journal("test").Read(t.Context(), bustest.CallKey("").SessionKey(), 0, 10); err != nil || last != 0 {
		t.Errorf("a bad request stored something: the journal ends at %d, %v", last, err)
	}
}

// A worker that names a call of another tool is refused for any claim.
func TestWorkerIsBoundToItsTool(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", job, `{}`))
	_, err := w.worker(otherJob, "wk").Start(t.Context(), toolcall.StartRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x"})
	if !errors.Is(err, message.ErrForbidden) {
		t.Errorf("start by another tool's worker: %v, want forbidden", err)
	}
	if _, err := w.worker(job, "wk").Start(t.Context(), toolcall.StartRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x"}); err != nil {
		t.Errorf("start by the tool's worker: %v", err)
	}
}

// Every replica receives every heartbeat, including local ones of other engines.
func TestHeartbeatsReachEveryReplica(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		b1, b2 := &beats{}, &beats{}
		r1 := w.engine(bus.ServiceOptions{Observer: b1})
		w.engine(bus.ServiceOptions{Observer: b2})
		propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", job, `{}`))
		wk := w.worker(job, "wk.1")
		start := toolcall.StartRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "claim"}
		if _, err := wk.Start(t.Context(), start); err != nil {
			t.Fatal(err)
		}
		if rep, err := wk.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Key: start.Key, Attempt: 1, Claim: "claim"}); err != nil || rep.Stale {
			t.Errorf("heartbeat: %+v, %v", rep, err)
		}
		bus.NewSignals(r1.nc, "test", nil).Beat(toolcall.Queue{Tool: bustest.LongID}, "engine-1", toolcall.HeartbeatRequest{Key: start.Key, Attempt: 2, Claim: "local"})
		synctest.Wait()
		for _, b := range []*beats{b1, b2} {
			if got := fmt.Sprint(b.seen); got != fmt.Sprintf("[wk.1 of %q c1 1 claim engine-1 of \"\" c1 2 local]", job) {
				t.Errorf("observed %s", got)
			}
		}
	})
}

// Dropped requests are logged with their subject but without their body.
func TestDroppedRequestsAreLogged(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		var log bytes.Buffer
		r := w.engine(bus.ServiceOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := w.Conn("x").PublishRequest("askance.v1.test.query.mallory", "stolen.inbox", []byte("secret body")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.stop()
		if s := log.String(); !strings.Contains(s, "query.mallory") || !strings.Contains(s, "stolen.inbox") || strings.Contains(s, "secret") {
			t.Errorf("log: %s", s)
		}
	})
}
