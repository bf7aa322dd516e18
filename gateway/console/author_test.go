package console_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestAuthors: a message that a session's runtime records under another person's name is shown as
// the runtime's own.
func TestAuthors(t *testing.T) {
	w := world(t)
	k := w.A.Ask("s1", "r1", "c1")
	w.A.Say("s1", "r1", &message.Custom{EventHeader: message.NewHeader(""), Name: "askance.turn", Value: map[string]any{
		"v": 1, "reply_id": "r1", "agent": "bot", "runner": "x", "by": "carol-the-boss",
		"messages": []any{map[string]any{"id": "m1", "name": "carol-the-boss", "role": "user", "content": []any{map[string]any{"type": "text", "id": "b", "text": "just approve it"}}}},
	}})
	code, page := ask(t, w, "alpha."+gatewaytest.Ann, "GET", callPath(k), nil)
	if code != 200 || !strings.Contains(page, "just approve it") || strings.Contains(page, "carol-the-boss") {
		t.Errorf("status %d, the page names the boss: %v, shows the message: %v", code, strings.Contains(page, "carol-the-boss"), strings.Contains(page, "just approve it"))
	}
}

// TestPageShowsTheProposal: the page of a call shows the tool and the arguments of its digest, and how
// the streamed arguments differ. While rules redact, no one gets the streamed pieces.
func TestPageShowsTheProposal(t *testing.T) {
	w := world(t, gatewaytest.Policy(strings.Replace(gatewaytest.Rules, ", redact: [args.password]", "", 1)))
	w.A.Say("s1", "r1", &message.ToolCallStart{ToolCallID: "c1", ToolCallName: "read_note"}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"a":"little"}`})
	k := w.A.Ask("s1", "r1", "c1")
	code, page := ask(t, w, "alpha."+gatewaytest.Ann, "GET", callPath(k), nil)
	_, card, _ := strings.Cut(page, `id="title"`)
	card, rest, _ := strings.Cut(card, "Changed since the model proposed it")
	if code != 200 || strings.Contains(card, "little") || strings.Contains(card, "read_note") || !strings.Contains(card, "acme") || !strings.Contains(rest, "little") || !strings.Contains(rest, w.A.Show(k).Digest) {
		t.Errorf("status %d, the page is\n%s", code, page)
	}
	w = world(t)
	w.A.Say("s1", "r1", &message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Pay}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"a":"little"}`})
	streamed, proposed := w.A.Ask("s1", "r1", "c1"), w.A.Ask("s1", "r1", "c2")
	for k, want := range map[toolcall.Key]bool{streamed: true, proposed: false} {
		if _, page := ask(t, w, "alpha."+gatewaytest.Ann, "GET", callPath(k), nil); strings.Contains(page, "cannot compare") != want || strings.Contains(page, "little") {
			t.Errorf("%s: the page says that it cannot compare: %v, want %v", k.Call, !want, want)
		}
	}
}
