package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// strange are ids that would have another meaning if they were used in a subject.
var strange = []string{"a.b", "*", ">", "-", "a b", "\r\n", "...", "_INBOX.x", "~YQ", "~~" + strings.Repeat("0", 64), "späť/🙂", "$JS.API.>", strings.Repeat("x.", 5000)}

// A call with such an id in every place is proposed, asked about, answered, run, listed and watched.
func TestStrangeIDsAllTheWay(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	// Nothing may arrive on these subjects, to which a dot or a wildcard would lead.
	spy := w.spy("askance.v1.test.record.a.>", "askance.v1.test.*.a.b.>", "askance.v1.test.ask.*.*.*.>", "askance.v1.test.progress.*.*.*.>", "_INBOX.>", "x.>")
	for i, id := range strange {
		other := strange[(i+1)%len(strange)]
		key := toolcall.Key{Space: "test", Session: message.SessionID(id), Reply: message.ReplyID(other), Call: message.CallID(id)}
		name := "bot " + id[:min(len(id), 100)]
		t.Run(name, func(t *testing.T) { strangeCall(t, w, name, key) })
	}
	if seen := spy.all(); len(seen) != 0 {
		t.Errorf("messages arrived on wrong subjects: %q", seen)
	}
	all, err := w.client(toolcall.RoleAuditor, "eve").List(t.Context(), toolcall.ListRequest{All: true})
	if err != nil || len(all.Calls) != 2*len(strange) {
		t.Errorf("%d calls, %v; want %d: two ids have become one", len(all.Calls), err, 2*len(strange))
	}
}

func strangeCall(t *testing.T, w *world, name string, key toolcall.Key) {
	bot, ann := w.client(toolcall.RoleRuntime, name), w.client(toolcall.RoleApprover, "approver "+name)
	hints := make(chan bus.Hint, 16)
	stop, err := ann.OnHint(t.Context(), func(h bus.Hint) {
		if h.Key == key {
			hints <- h
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	remote := key
	remote.Call += "!"
	rep, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: key.Session, Reply: key.Reply, Calls: []message.ToolCallBlock{
		toolCall(string(key.Call), pay, `{}`), toolCall(string(remote.Call), otherJob, `{}`),
	}})
	if len(remote.Call) > toolcall.MaxIDBytes {
		if !errors.Is(err, message.ErrTooLarge) {
			t.Errorf("an id of %d bytes: %v, want too large", len(remote.Call), err)
		}
		remote.Call = "!" + remote.Call[:100]
		rep, err = bot.Propose(t.Context(), toolcall.ProposeRequest{Session: key.Session, Reply: key.Reply, Calls: []message.ToolCallBlock{
			toolCall(string(key.Call), pay, `{}`), toolCall(string(remote.Call), otherJob, `{}`),
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if h := receive(t, hints); h.Digest != rep.Calls[0].Digest {
		t.Errorf("hint %+v", h)
	}
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: key, Digest: rep.Calls[0].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Errorf("answer: %v", err)
	}
	wk := w.worker(otherJob, "worker "+name)
	task := next(t, wk)
	if task.Record.Call.Key != remote {
		t.Fatalf("task of %q", task.Record.Call.Key)
	}
	if _, err := wk.Start(t.Context(), toolcall.StartRequest{Key: remote, Attempt: 1, Claim: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := task.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	if rep, err := wk.Result(t.Context(), toolcall.ResultRequest{Key: remote, Attempt: 1, Claim: "c", Result: success(string(remote.Call), otherJob, "ok")}); err != nil || !rep.Stored {
		t.Errorf("result: %+v, %v", rep, err)
	}
	wait, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: key.Session, Reply: key.Reply, TimeoutMS: 10_000})
	if err != nil || !wait.Done || len(wait.Calls) != 2 || wait.Calls[0].Key != key || wait.Calls[0].Votes[0].By.Name != "approver "+name {
		t.Errorf("wait: %+v, %v", wait, err)
	}
	if evs, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: key.Session}); err != nil || len(evs.Events) == 0 {
		t.Errorf("events: %+v, %v", evs, err)
	}
	if show, err := ann.Show(t.Context(), toolcall.ShowRequest{Key: key}); err != nil || show.Call.Key != key {
		t.Errorf("show: %v", err)
	}
}

// A subject with a token that is not the encoding of any id is refused.
func TestSubjectsThatNoIDGives(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	bot := w.Conn("bot")
	spy := w.spy("_INBOX_bot.>")
	for _, who := range []string{"-bot", "~Ym90", "~~bot", "b%6ft", "bot~", strings.Repeat("b", 65)} {
		err := bot.PublishMsg(&nats.Msg{Subject: "askance.v1.test.query." + who, Reply: "_INBOX_bot.x", Data: []byte(`{"v":1,"op":"info"}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if e := rawRequest(t, bot, "askance.v1.test.query.bot", `{"v":1,"op":"info"}`); e != nil {
		t.Fatal(e)
	}
	for _, s := range spy.all() {
		if strings.HasPrefix(s, "_INBOX_bot.x ") {
			t.Errorf("answered: %s", s)
		}
	}
}
