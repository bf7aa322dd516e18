package bus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// people have one principal of each role, all logged in with their rights.
var people = []toolcall.Principal{
	{Role: toolcall.RoleRuntime, Name: "rt"},
	{Role: toolcall.RoleApprover, Name: "ann"},
	{Role: toolcall.RoleOperator, Name: "olga"},
	{Role: toolcall.RoleAuditor, Name: "eve"},
	{Role: toolcall.RoleWorker, Name: "wk"},
	{Role: "guest", Name: "guest"},
}

// mayPublish and maySubscribe are the complete rights of each.
var (
	mayPublish = map[string][]string{
		"rt":   {"askance.v1.test.propose.rt", "askance.v1.test.interrupt.rt"},
		"ann":  {"askance.v1.test.query.ann", "askance.v1.test.decide.ann"},
		"olga": {"askance.v1.test.query.olga", "askance.v1.test.operate.olga"},
		"eve":  {"askance.v1.test.query.eve", "askance.v1.test.audit.eve"},
		"wk": {
			"askance.v1.test.work.job.wk.start", "askance.v1.test.work.job.wk.heartbeat", "askance.v1.test.work.job.wk.progress", "askance.v1.test.work.job.wk.result",
			"askance.v1.test.work.job.wk.next", "askance.v1.test.work.job.wk.ack",
		},
	}
	hintsAndProgress = []string{"askance.v1.test.ask.*.*.*", "askance.v1.test.ask.s1.r1.c1", "askance.v1.test.progress.*.*.*"}
	maySubscribe     = map[string][]string{
		"rt":   {"_INBOX_rt.>", "_INBOX_rt.x.*"},
		"ann":  append([]string{"_INBOX_ann.>", "_INBOX_ann.x.*"}, hintsAndProgress...),
		"olga": append([]string{"_INBOX_olga.>"}, hintsAndProgress...),
		"eve":  append([]string{"_INBOX_eve.>"}, hintsAndProgress...),
		"wk":   {"_INBOX_wk.>", "askance.v1.test.work.job.wk.cancel"},
	}
)

// Subjects on which none of them can publish. None can publish on another one's subjects either.
var (
	otherTool        = bus.ConsumerName(toolcall.Queue{Tool: otherJob})
	nobodyMayPublish = []string{
		// the journal, and what engines say
		"askance.v1.test.record.s1.r1.c1.f", "askance.v1.test.record.s1.r1.c1.w.job", "askance.v1.test.record.s1.r1.-.f", "askance.v1.test.record.s1.-.-.f",
		"askance.v1.test.event.rt.s1.r1", "askance.v1.test.proof.checkpoint", "askance.v1.test.audit.ann", "askance.v1.test.audit.rt", "$JS.API.STREAM.DELETE.ASKANCE_PROOF_test", "$JS.API.STREAM.MSG.GET.ASKANCE_PROOF_test", "askance.v1.test.ask.s1.r1.c1", "askance.v1.test.progress.s1.r1.c1", "askance.v1.test.work.job.wk.cancel",
		// in another name, of another tool, in another space, of another version
		"askance.v1.test.propose.rt2", "askance.v1.test.interrupt.rt2", "askance.v1.test.query.rt", "askance.v1.test.query.other", "askance.v1.test.decide.bob", "askance.v1.test.operate.root",
		"askance.v1.test.work.job.wk2.start", "askance.v1.test.work.job.wk2.result", "askance.v1.test.work.~b3RoZXIuam9i.wk.start", "askance.v1.test.work.job.wk.resolve",
		"askance.v1.prod.query.ann", "askance.v1.prod.decide.ann", "askance.v1.prod.propose.rt", "askance.v1.prod.work.job.wk.start", "askance.v2.test.decide.ann",
		// consumers
		"$JS.API.CONSUMER.MSG.NEXT.ASKANCE_test." + otherTool, "$JS.ACK.ASKANCE_test." + otherTool + ".1.1.1.1.0", "$JS.API.CONSUMER.MSG.NEXT.ASKANCE_test.w_job", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0", "$JS.API.CONSUMER.MSG.NEXT.ASKANCE_prod.w_job", "$JS.ACK.ASKANCE_prod.w_job.1.1.1.1.0",
		"$JS.API.CONSUMER.CREATE.ASKANCE_test", "$JS.API.CONSUMER.CREATE.ASKANCE_test.mine", "$JS.API.CONSUMER.CREATE.ASKANCE_test.mine.askance.v1.test.record.>", "$JS.API.CONSUMER.DURABLE.CREATE.ASKANCE_test.mine",
		"$JS.API.CONSUMER.INFO.ASKANCE_test.w_job", "$JS.API.CONSUMER.LIST.ASKANCE_test", "$JS.API.CONSUMER.NAMES.ASKANCE_test", "$JS.API.CONSUMER.DELETE.ASKANCE_test.w_job", "$JS.API.CONSUMER.PAUSE.ASKANCE_test.w_job",
		"$JS.API.CONSUMER.UNPIN.ASKANCE_test.w_job", "$JS.API.CONSUMER.RESET.ASKANCE_test.w_job",
		// streams
		"$JS.API.INFO", "$JS.API.STREAM.INFO.ASKANCE_test", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.UPDATE.ASKANCE_test", "$JS.API.STREAM.DELETE.ASKANCE_test",
		"$JS.API.STREAM.PURGE.ASKANCE_test", "$JS.API.STREAM.MSG.GET.ASKANCE_test", "$JS.API.STREAM.MSG.DELETE.ASKANCE_test", "$JS.API.DIRECT.GET.ASKANCE_test", "$JS.API.DIRECT.GET.ASKANCE_test.askance.v1.test.record.s1.r1.c1.f",
		"$JS.API.STREAM.SNAPSHOT.ASKANCE_test", "$JS.API.STREAM.RESTORE.ASKANCE_test",
		// rules and groups
		"$KV.ASKANCE_POLICY_test.main.yaml", "$KV.ASKANCE_DIRECTORY_test.people.yaml", "$JS.API.STREAM.CREATE.KV_ASKANCE_DIRECTORY_test", "$JS.API.DIRECT.GET.KV_ASKANCE_DIRECTORY_test.people.yaml",
		// answers to others, and the server
		"_INBOX_bob.x", "_INBOX_engine.x", "_INBOX_rt.x", "_INBOX_askance-engine.x", "_INBOX.x", "$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.USER.INFO", "$SRV.PING", "anything",
	}
	nobodyMaySubscribe = []string{
		">", "*", "askance.>", "askance.v1.test.>", "askance.v1.test.record.>", "askance.v1.test.record.s1.r1.c1.f", "askance.v1.test.event.>", "askance.v1.test.event.rt.s1.r1",
		"askance.v1.test.propose.>", "askance.v1.test.propose.rt", "askance.v1.test.decide.>", "askance.v1.test.decide.ann", "askance.v1.test.query.*", "askance.v1.test.operate.*", "askance.v1.test.interrupt.*",
		"askance.v1.test.work.>", "askance.v1.test.work.job.wk.result", "askance.v1.test.work.job.*.cancel", "askance.v1.test.work.job.wk2.cancel", "askance.v1.test.ask.>", "askance.v1.prod.ask.*.*.*",
		"_INBOX.>", "_INBOX_bob.>", "_INBOX_engine.>", "_INBOX_*.>", "$JS.>", "$JS.ACK.>", "$JS.API.>", "$JS.EVENT.ADVISORY.>", "$SYS.>", "$SRV.>",
	}
)

// withLogins returns a world in which everyone except the guest has credentials.
func withLogins(t *testing.T) *world {
	t.Helper()
	var users []creds.User
	for _, p := range people {
		u := creds.User{Space: "test", Role: p.Role, Name: p.Name}
		switch p.Role {
		case "guest":
			continue
		case toolcall.RoleWorker:
			u.Tools = []string{job}
		}
		users = append(users, u)
	}
	return credWorld(t, users)
}

// credWorld returns a world in which these users log in with credentials.
func credWorld(t *testing.T, users []creds.User) *world {
	t.Helper()
	dir := t.TempDir()
	folder, err := creds.Init(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	logins := map[string]string{}
	for _, u := range users {
		if logins[u.Name], err = folder.Add(t.Context(), u, false); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		if o.Trust, err = creds.LoadTrust(dir); err != nil {
			t.Fatal(err)
		}
		o.Login = creds.EngineLogin(dir)
	}))
	w.logins = logins
	return w
}

// worlds runs f in worlds in which the people have their rights, once for each kind of login.
func worlds(t *testing.T, f func(t *testing.T, w *world, people []toolcall.Principal)) {
	t.Run("passwords", func(t *testing.T) { f(t, withPeople(t), people) })
	t.Run("credentials", func(t *testing.T) {
		f(t, withLogins(t), slices.DeleteFunc(slices.Clone(people), func(p toolcall.Principal) bool { return p.Role == "guest" }))
	})
}

// withPeople returns a world in which the people can log in.
func withPeople(t *testing.T) *world {
	t.Helper()
	return newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		for _, p := range people {
			o.Users = append(o.Users, embed.User{Name: p.Name, Password: "pw", Permissions: bus.PermissionsFor("test", p, toolcall.Queue{Tool: job})})
		}
	}))
}

// flushed returns the server's error about what was sent before, if any.
func flushed(t *testing.T, nc *nats.Conn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	return nc.LastError()
}

// Each role has exactly its rights on a real server: what is in the tables works, and everything
// else is refused.
func TestLeastPermissions(t *testing.T) { worlds(t, leastPermissions) }

func leastPermissions(t *testing.T, w *world, people []toolcall.Principal) {
	j := w.Journal("test")
	for _, tool := range []string{job, otherJob} {
		if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: tool}); err != nil {
			t.Fatal(err)
		}
	}
	all := func(none []string, may map[string][]string) []string {
		list := slices.Clone(none)
		for _, subjects := range may {
			list = append(list, subjects...)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for _, p := range people {
		t.Run(string(p.Role), func(t *testing.T) {
			nc := as(t, w, p)
			try := func(what, subject string, may bool, do func() error) {
				t.Helper()
				before := flushed(t, nc)
				if err := do(); err != nil {
					t.Fatalf("%s %s: %v", what, subject, err)
				}
				after := flushed(t, nc)
				refused := after != before && errors.Is(after, nats.ErrPermissionViolation) && strings.Contains(after.Error(), `"`+subject+`"`) //nolint:errorlint // a new value
				if refused == may || after != before && !refused {                                                                              //nolint:errorlint // a new value
					t.Errorf("%s %s: refused %v (%v), want %v", what, subject, refused, after, !may)
				}
			}
			for _, s := range all(nobodyMayPublish, mayPublish) {
				try("publish", s, slices.Contains(mayPublish[p.Name], s), func() error { return nc.Publish(s, nil) })
			}
			for _, s := range all(nobodyMaySubscribe, maySubscribe) {
				may := slices.Contains(maySubscribe[p.Name], s)
				try("subscribe", s, may, func() error { _, err := nc.SubscribeSync(s); return err })
				// In the engines' group it would take requests away from them.
				try("subscribe in a group", s, may, func() error { _, err := nc.QueueSubscribeSync(s, "askance"); return err })
			}
		})
	}
	if info, err := bustest.Stream(t, w.Bus).Info(t.Context()); err != nil || info.State.LastSeq != 0 {
		t.Errorf("something was stored: %+v, %v", info, err)
	}
}

// Each role sends its requests with reply subjects on which it may not publish. No request is
// carried out and no answer is sent there. (With the right to pull its tasks from JetStream, a
// worker could make NATS delete the journal in this way.)
func TestForeignReplySubjectsWithRealPermissions(t *testing.T) { worlds(t, foreignReplySubjects) }

func foreignReplySubjects(t *testing.T, w *world, people []toolcall.Principal) {
	w.engine(bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	calls := propose(t, bot, toolCall("c1", pay, `{}`), toolCall("c2", job, `{}`))
	j := w.Journal("test")
	before, err := j.Last(t.Context(), bustest.CallKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	work, err := j.Last(t.Context(), bustest.CallKey("c2"))
	if err != nil {
		t.Fatal(err)
	}
	decide := `{"v":1,"op":"submit_response","body":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c1","digest":"` + calls[0].Digest + `","kind":"approve"}}`
	owner := `"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2","attempt":1,"claim":"x"`
	requests := map[string]string{
		"propose": `{"v":1,"op":"propose","body":{"session_id":"s9","reply_id":"r9","tool_calls":[{"type":"tool_call","id":"c9","name":"echo","input":"{}"}]}}`,
		"query":   `{"v":1,"op":"info"}`, "decide": decide,
		"interrupt": `{"v":1,"op":"interrupt","body":{"session_id":"s1","reply_id":"r1"}}`,
		"operate":   `{"v":1,"op":"interrupt","body":{"session_id":"s1","reply_id":"r1"}}`,
		"start":     `{"v":1,"op":"start","body":{` + owner + `}}`, "heartbeat": `{"v":1,"op":"heartbeat","body":{` + owner + `}}`,
		"progress": `{"v":1,"op":"progress","body":{` + owner + `,"n":1,"text":"x"}}`,
		"next":     `{"v":1,"op":"next"}`, "ack": `{"v":1,"op":"ack","body":{"task":"$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0","verb":"ack"}}`,
		"result": `{"v":1,"op":"result","body":{` + owner + `,"result":{"type":"tool_result","id":"c2","name":"job","output":"stolen","state":"success"}}}`,
	}
	body := func(subject string) string {
		for _, part := range strings.Split(subject, ".")[3:] {
			if text, ok := requests[part]; ok {
				return text
			}
		}
		return ""
	}
	foreign := []string{
		"askance.v1.test.record.s1.r1.c1.f", "askance.v1.test.record.s1.r1.c2.w.job", "askance.v1.test.record.s1.r1.-.f", "askance.v1.test.event.bot.s1.r1", "askance.v1.test.decide.ann",
		"askance.v1.test.propose.bot", "askance.v1.test.operate.olga", "askance.v1.test.work.job.wk.result", "_INBOX_victim.x", "_INBOX_engine.x", "_INBOX.x", "$JS.API.STREAM.PURGE.ASKANCE_test", "$JS.API.STREAM.DELETE.ASKANCE_test",
	}
	for _, p := range people {
		nc := as(t, w, p)
		for _, subject := range mayPublish[p.Name] {
			for _, reply := range foreign {
				if err := nc.PublishRequest(subject, reply, []byte(body(subject))); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = flushed(t, nc) // everything sent so far has been routed
	}
	// The answer to a later request shows that the earlier ones have been handled.
	for _, subject := range []string{"askance.v1.test.query.bot", "askance.v1.test.propose.bot", "askance.v1.test.decide.bot", "askance.v1.test.operate.bot", "askance.v1.test.interrupt.bot",
		"askance.v1.test.work.job.bot.start", "askance.v1.test.work.job.bot.heartbeat", "askance.v1.test.work.job.bot.progress", "askance.v1.test.work.job.bot.result"} {
		_ = rawRequest(t, w.Conn("bot"), subject, `{"v":1,"op":"nothing"}`)
	}
	for name, want := range map[string]toolcall.JournalEntry{"c1": before, "c2": work} {
		if r, err := j.Last(t.Context(), bustest.CallKey(name)); err != nil || r.Seq != want.Seq {
			t.Errorf("the last event record of %s is %d, %v; want %d as before", name, r.Seq, err, want.Seq)
		}
	}
	if r, err := j.Last(t.Context(), toolcall.Key{Space: "test", Session: "s9", Reply: "r9", Call: "c9"}); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a call was proposed: %+v, %v", r, err)
	}
	if info, err := bustest.Stream(t, w.Bus).Info(t.Context()); err != nil || info.State.LastSeq != work.Seq || info.State.NumDeleted != 0 || info.State.FirstSeq != 1 {
		t.Errorf("the journal has changed: %+v, %v; want it to end at %d", info, err, work.Seq)
	}
	// The calls continue.
	if _, err := w.client(toolcall.RoleApprover, "bob").SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Errorf("the real answer: %v", err)
	}
	finished(t, bot, "c1")
}
