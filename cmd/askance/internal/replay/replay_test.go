package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// newEngine starts an engine in memory and returns it with a runtime.
func newEngine(t *testing.T) (*engine.Engine, engine.Client) {
	t.Helper()
	pay := []engine.Tool{{Tool: permission.Tool{Name: "pay"}}}
	rules := "version: 1\nname: shop\nrules: [{name: pay, tool_name: pay, behavior: ask}]\n"
	policy, err := permission.Load([]permission.File{{Name: "shop.yaml", Data: []byte(rules)}}, permission.Options{Tools: []permission.Tool{pay[0].Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New("default", engine.NewMemory(), policy, pay)
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return eng, eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
}

// say streams events of a reply.
func say(t *testing.T, c engine.Client, reply message.ReplyID, events ...message.Event) {
	t.Helper()
	r := toolcall.EmitRequest{V: 1, Session: "s", Reply: reply}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		r.Events = append(r.Events, raw)
	}
	if _, err := c.Emit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func text(reply message.ReplyID, words ...string) []message.Event {
	h := func() message.EventHeader { return message.NewHeader(reply) }
	out := []message.Event{
		&message.ReplyStart{EventHeader: h(), Session: "s", Name: "Ada", Role: message.RoleAssistant},
		&message.TextBlockStart{EventHeader: h(), BlockID: "b"},
	}
	for _, w := range words {
		out = append(out, &message.TextBlockDelta{EventHeader: h(), BlockID: "b", Delta: w})
	}
	return out
}

func TestMessage(t *testing.T) {
	eng, bot := newEngine(t)
	defer func() { _ = eng.Close() }()
	say(t, bot, "r1", text("r1", "one ", "two")...)
	say(t, bot, "r2", text("r2", "three")...)
	say(t, bot, "r1", &message.TextBlockDelta{EventHeader: message.NewHeader("r1"), BlockID: "b", Delta: " more"}) // after the start of r2
	say(t, bot, "r1", &message.Custom{Name: "note"})
	for _, tc := range []struct {
		reply message.ReplyID
		want  string
		n     int
	}{{"r1", "one two more", 5}, {"r2", "three", 3}, {"", "three", 3}} {
		got, err := replay.Message(t.Context(), bot, "s", tc.reply)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := got.Msg.TextContent("")
		if body != tc.want || got.Events != tc.n || got.Msg.Name != "Ada" {
			t.Errorf("reply %q: %q of %d events by %s, want %q of %d", tc.reply, body, got.Events, got.Msg.Name, tc.want, tc.n)
		}
	}
	if _, err := replay.Message(t.Context(), bot, "s", "r9"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a reply without events: %v", err)
	}
}

// TestMessageOfAnEditedCall: the message contains the model's arguments. The arguments that a
// person edited are returned separately.
func TestMessageOfAnEditedCall(t *testing.T) {
	eng, bot := newEngine(t)
	defer func() { _ = eng.Close() }()
	ann := eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	edited := `{"a":2}`
	for reply, input := range map[message.ReplyID]*string{"plain": nil, "edited": &edited} {
		h := message.NewHeader(reply)
		say(t, bot, reply, &message.ReplyStart{EventHeader: h, Session: "s", Name: "Ada", Role: message.RoleAssistant},
			&message.ToolCallStart{EventHeader: h, ToolCallID: "c", ToolCallName: "pay"}, &message.ToolCallDelta{EventHeader: h, ToolCallID: "c", Delta: `{"a":1}`})
		call := message.ToolCallBlock{ID: "c", Name: "pay", Input: `{"a":1}`}
		r, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: reply, Calls: []message.ToolCallBlock{call}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: r.Calls[0].Key, Digest: r.Calls[0].Digest, Kind: toolcall.ResponseApprove, Input: input}); err != nil {
			t.Fatal(err)
		}
		b, err := replay.Message(t.Context(), bot, "s", reply)
		if err != nil {
			t.Fatal(err)
		}
		if block := b.Msg.Content[0].(*message.ToolCallBlock); block.Input != `{"a":1}` {
			t.Errorf("%s: the message contains %s", reply, block.Input)
		}
		var want map[message.CallID]string
		if input != nil {
			want = map[message.CallID]string{"c": edited}
		}
		if !maps.Equal(b.Edited, want) {
			t.Errorf("%s: edited %v, want %v", reply, b.Edited, want)
		}
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, bot := newEngine(t)
		defer func() { _ = eng.Close() }()
		ctx, stop := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		got := make(chan toolcall.SequencedEvent, 16)
		done := make(chan error, 1)
		go func() {
			done <- replay.Follow(ctx, bot, toolcall.EventsRequest{V: 1, Session: "s"}, func(ev toolcall.SequencedEvent) error { got <- ev; return nil })
		}()
		synctest.Wait()
		say(t, bot, "r1", text("r1", "one")...)
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("%d events, want 3", len(got))
		}
		stop(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Follow = %v, want the cause", err)
		}
	})
}

// restarting is an engine that is unavailable for the first requests.
type restarting struct {
	engine.Client
	away int
}

func (r *restarting) Events(ctx context.Context, q toolcall.EventsRequest) (toolcall.EventsReply, error) {
	if r.away--; r.away >= 0 {
		return toolcall.EventsReply{}, &message.Error{Code: message.CodeUnavailable, What: "away"}
	}
	return r.Client.Events(ctx, q)
}

func TestFollowOutlivesAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, bot := newEngine(t)
		defer func() { _ = eng.Close() }()
		say(t, bot, "r1", text("r1", "one")...)
		stop := errors.New("seen")
		n := 0
		err := replay.Follow(t.Context(), &restarting{bot, 5}, toolcall.EventsRequest{V: 1, Session: "s"}, func(toolcall.SequencedEvent) error {
			if n++; n == 3 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != 3 {
			t.Errorf("Follow = %v after %d events", err, n)
		}
		err = replay.Events(t.Context(), &restarting{bot, 1}, toolcall.EventsRequest{V: 1, Session: "s"}, func(toolcall.SequencedEvent) error { return nil })
		if !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("Events = %v, want the error at once", err)
		}
	})
}
