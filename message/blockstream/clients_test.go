package blockstream_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/google/go-cmp/cmp"
)

// hitl returns a turn with everything in it: reasoning, a plain call, a call that two people were
// asked about, a refused call, and an answer.
func hitl(t testing.TB) []blockstream.Frame {
	t.Helper()
	m := newMapper(t)
	m.Attach([]string{"https://example.com/a.pdf", "https://example.com/b.pdf"})
	s := on("r1").start().think("I need ", "the price").text("t0", "Let me see.")
	s.call("c1", "search", `{"symbol":"VNM"}`).result("c1", "search", message.ToolResultSuccess, "82,000")
	s.call("c2", "trade", `{"q":1}`).call("c3", "mail", `{}`)
	s.ask(block("c2", "trade", `{"q":1}`)).ask(block("c3", "mail", `{}`))
	s.confirm(true, block("c2", "trade", `{"q":1}`)).confirm(false, block("c3", "mail", `{}`))
	s.result("c2", "trade", message.ToolResultSuccess, "bought").result("c3", "mail", message.ToolResultDenied, "refused")
	s.text("t1", "Do", "ne.").end(message.FinishedCompleted, nil)
	return run(t, m, s.out)
}

func TestReactClient(t *testing.T) {
	r := newReact()
	feed(t, r, hitl(t))
	if r.ignored != 0 || r.streaming || len(r.inProgress) != 0 {
		t.Errorf("ignored %d, streaming %v, open %d", r.ignored, r.streaming, len(r.inProgress))
	}
	var texts []string
	for _, b := range append(r.of("thinking"), r.of("text")...) {
		texts = append(texts, b["_parts"].(string))
	}
	if diff := cmp.Diff([]string{"I need the price", "Let me see.", "Done."}, texts); diff != "" {
		t.Error(diff)
	}
	uses := r.of("tool_use")
	if len(uses) != 3 || len(r.of("tool_result")) != 0 {
		t.Fatalf("%d calls, %d results without a call", len(uses), len(r.of("tool_result")))
	}
	for i, want := range []struct {
		name, result string
		failed       bool
	}{{"search", "82,000", false}, {"trade", "bought", false}, {"mail", "refused", true}} {
		if u := uses[i]; u["name"] != want.name || u["toolResult"] != want.result || u["toolResultError"] != want.failed {
			t.Errorf("%v", u)
		}
	}
	asked := r.of("approval_request")
	if len(asked) != 2 {
		t.Fatalf("%d cards", len(asked))
	}
	for _, b := range asked {
		if b["actionRequests"] == nil || b["reviewConfigs"] == nil || b["processingStatus"] != nil || b["processingMessage"] != nil {
			t.Errorf("%v", b)
		}
	}
	if f := r.of("file_processing"); len(f) != 1 || f[0]["processingStatus"] != "completed" || f[0]["index"] != 0.0 {
		t.Errorf("%v", f)
	}
}

func TestDartClient(t *testing.T) {
	d := newDart()
	feed(t, d, hitl(t))
	if d.ignored != 0 || d.rangeErrors != 0 || d.streaming || len(d.inProgress) != 0 {
		t.Errorf("ignored %d, lost results %d, streaming %v, open %d", d.ignored, d.rangeErrors, d.streaming, len(d.inProgress))
	}
	var kinds []string
	asked := 0
	for _, b := range d.stopped {
		kinds = append(kinds, b.kind)
		asked += len(b.actionRequests)
	}
	want := "file_processing thinking text tool_use approval_request approval_request approval_result approval_result tool_use tool_use text"
	if got := strings.Join(kinds, " "); got != want || asked != 2 {
		t.Errorf("%d actions in %s", asked, got)
	}
	if last := d.stopped[len(d.stopped)-1]; last.text != "Done." {
		t.Errorf("%+v", last)
	}
}

// A card is shown only after content_block_stop, so the mapper stops it immediately, and it
// appears as soon as the event is mapped.
func TestCardShowsWhileItWaits(t *testing.T) {
	_, _, frames := asking(t)
	r, d := newReact(), newDart()
	feed(t, r, frames)
	feed(t, d, frames)
	if c := r.of("approval_request"); len(c) != 1 || len(c[0]["actionRequests"].([]any)) != 2 || c[0]["timeoutSeconds"] != 190.0 {
		t.Errorf("%v", c)
	}
	if len(d.stopped) != 1 || len(d.stopped[0].actionRequests) != 2 || len(d.inProgress) != 0 {
		t.Errorf("%+v", d.stopped)
	}
	if !r.streaming {
		t.Error("the turn is not open although an approval request is open")
	}
}

// A reader of the other form uses only the start.
func TestApprovalReadsInBothForms(t *testing.T) {
	_, _, frames := asking(t)
	start := frames[1].(*blockstream.BlockStart).Block.(*blockstream.ApprovalRequest)
	delta := frames[2].(*blockstream.BlockDelta).Delta.(*blockstream.ApprovalDelta)
	if diff := cmp.Diff(start.Actions, delta.Actions); diff != "" {
		t.Error(diff)
	}
	for name, c := range map[string]struct {
		start *blockstream.ApprovalRequest
		delta *blockstream.ApprovalDelta
	}{
		"start alone": {start, nil},
		"delta alone": {&blockstream.ApprovalRequest{ApprovalKey: start.ApprovalKey}, delta},
		"both":        {start, delta},
	} {
		got, err := blocktest.Join(c.start, c.delta)
		if err != nil || len(got.Actions) != 2 || got.TimeoutSeconds != 190 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	other := *delta
	other.Actions = []blockstream.Action{delta.Actions[1], delta.Actions[0]}
	if _, err := blocktest.Join(start, &other); err == nil {
		t.Error("a start and a delta with different actions are accepted")
	}
	if _, err := blocktest.Join(&blockstream.ApprovalRequest{ApprovalKey: "k_1"}, nil); err == nil {
		t.Error("a request without actions is accepted")
	}
}

func TestTerminalBlocksInClients(t *testing.T) {
	for reason, want := range map[message.FinishedReason]string{
		message.FinishedInterrupted: "terminal_user_stopped", message.FinishedError: "terminal_error",
	} {
		frames := run(t, newMapper(t), on("r1").start().text("t", "x").end(reason, nil).out)
		r, d := newReact(), newDart()
		feed(t, r, frames)
		feed(t, d, frames)
		if b := r.of(want); len(b) != 1 || b[0]["text"] == "" || r.streaming {
			t.Errorf("%v", r.blocks)
		}
		if b := d.stopped[len(d.stopped)-1]; b.kind != want || b.text == "" || d.streaming {
			t.Errorf("%+v", b)
		}
	}
}

// A reconnecting client without memory gets the running turn from its message_start.
func TestCatchupBeginsWithTheTurn(t *testing.T) {
	_, s, _ := asking(t)
	frames := newMapper(t).Catchup(s.out)
	if _, ok := frames[0].(*blockstream.MessageStart); !ok {
		t.Fatalf("%+v", frames[0])
	}
	r := newReact()
	feed(t, r, frames)
	if r.ignored != 0 || len(r.of("approval_request")) != 1 {
		t.Errorf("%+v", r)
	}
}
