package inbox

import (
	"context"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// newBlockedDay returns the inbox of an operator; sent contains the requests to resolve.
func newBlockedDay(t *testing.T, width, height int) (m *model, sent *[]toolcall.ResolveRequest, fail *error) {
	t.Helper()
	m, e := newDay(t, width, height)
	sent, fail = &[]toolcall.ResolveRequest{}, new(error)
	m.cfg.Resolve = func(_ context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error) {
		*sent = append(*sent, r)
		if *fail != nil {
			return nil, *fail
		}
		c := e.calls[r.Key].Clone()
		c.State, c.Cause, c.Seq, c.Blocked = message.ToolCallFinished, "resolve", c.Seq+100, toolcall.NotBlocked
		return c, nil
	}
	return m, sent, fail
}

// An operator resolves a blocked call with each outcome, after one confirmation.
func TestResolve(t *testing.T) {
	key := toolcall.Key{Space: "default", Session: "release-3", Reply: "reply-1", Call: "call_09"}
	for _, tc := range []struct {
		keys string
		want toolcall.ResolveRequest
	}{
		{"3r\rre_123\rsaw it\ry", toolcall.ResolveRequest{V: 1, Key: key, Attempt: 1, Outcome: toolcall.OutcomeHappened, Output: "re_123", Note: "saw it"}},
		{"3rj\rno trace\ry", toolcall.ResolveRequest{V: 1, Key: key, Attempt: 1, Outcome: toolcall.OutcomeDidNot, Note: "no trace"}},
		{"3\rrjjj\r\ry", toolcall.ResolveRequest{V: 1, Key: key, Attempt: 1, Outcome: toolcall.OutcomeRunAgain}},
	} {
		m, sent, _ := newBlockedDay(t, 80, 24)
		if screen := types(m, strings.TrimSuffix(tc.keys, "y")); len(*sent) != 0 || !strings.Contains(screen, "y resolve  esc cancel") {
			t.Errorf("%q sent %v without a confirmation:\n%s", tc.keys, *sent, screen)
		}
		m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("y"), Paste: true})
		screen := types(m, "y")
		if diff := cmp.Diff([]toolcall.ResolveRequest{tc.want}, *sent); diff != "" {
			t.Errorf("%q sent (-want +got):\n%s", tc.keys, diff)
		}
		see(t, screen, "Resolved: the call is finished.")
	}
}

// The texts match the web console, and resolving is not offered for other calls.
func TestResolveIsForBlockedCalls(t *testing.T) {
	m, sent, fail := newBlockedDay(t, 80, 24)
	see(t, types(m, "3"), "r resolve  enter open")
	see(t, types(m, "r"), "Resolve: deploy  call_09", "> It happened: enter its result", "It did not happen: end the call with an error", "Run it again, as a new attempt")
	*fail = &message.Error{Code: message.CodeForbidden, What: "ann is not an operator"}
	see(t, types(m, "j\r\ry"), "Not resolved: ann is not an operator")
	for _, q := range m.qs.all {
		if q.call.Call == "call_09" {
			q.call.Attempt.Number = 2
		}
	}
	m.stack = []screen{newResolve(day(t)[8])}
	see(t, types(m, "j\r\ry"), "This call has ended")
	if len(*sent) != 1 {
		t.Errorf("sent %v", *sent)
	}
	for _, keys := range []string{"2r", "4r", "2\rr"} {
		m, _, _ := newBlockedDay(t, 80, 24)
		if types(m, keys); len(m.stack) > 0 {
			if _, is := m.top().(*resolveScreen); is {
				t.Errorf("%q offers to resolve a call that is not blocked", keys)
			}
		}
	}
}
