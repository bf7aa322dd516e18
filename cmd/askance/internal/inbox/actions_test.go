package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// see fails unless the screen contains all of the texts.
func see(t *testing.T, screen string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			t.Errorf("no %q on\n%s", text, screen)
		}
	}
}

// Every action stays within the filter: similar requests, the selection, and the next request.
func TestActionsStayWithinTheFilter(t *testing.T) {
	m, _ := newDay(t, 120, 40)
	screen := types(m, "/A-1042\rb")
	see(t, screen, "Approve 1 request?", "order A-1042")
	if strings.Contains(screen, "A-1077") {
		t.Errorf("a similar request that the filter hides is included:\n%s", screen)
	}
	m, _ = newDay(t, 120, 40)
	screen = types(m, "*/refund\rb")
	see(t, screen, "Approve 2 requests?", "4 selected but not included")
	m, e := newDay(t, 120, 40)
	screen = types(m, "/refund\raY")
	if len(e.responses) != 1 || e.responses[0].Key.Call != "call_02" {
		t.Errorf("responses: %v", e.responses)
	}
	see(t, screen, "refund  call_03")
	types(m, "n")
	if d, ok := m.top().(*detailScreen); !ok || d.request.Call != "call_03" && d.request.Call != "call_02" {
		t.Errorf("n left the filter: %v", d.request)
	}
}

// With a selection, response keys apply to the whole selection, not to the row of the cursor.
func TestKeysRespondToTheSelection(t *testing.T) {
	m, e := newDay(t, 120, 40)
	see(t, types(m, " j "), "a approve selected  r reject selected")
	see(t, types(m, "a"), "Approve 2 requests?", "[x] Run git push", "[x] Run rm -rf build?")
	if types(m, "Gy"); len(e.responses) == 0 || e.responses[0].Key.Call != "call_01" { // the cursor is on call_03
		t.Errorf("responses: %v", e.responses)
	}
	m, e = newDay(t, 120, 40)
	see(t, types(m, " j r"), "Reject: 2 requests")
	if len(e.responses) != 0 {
		t.Errorf("sent without a confirmation: %v", e.responses)
	}
}

// The counter of a tab is the number of rows in its list, with every filter.
func TestCountersAgreeWithLists(t *testing.T) {
	for _, keys := range []string{"", "m", "/coder\r", "/refund\rm", "/nothing at all\r", "v", "o"} {
		m, _ := newDay(t, 120, 40)
		types(m, keys)
		counts := m.list.counts(m)
		for i, tab := range []tab{tabOpen, tabRunning, tabBlocked} {
			screen := types(m, fmt.Sprint(i+1))
			if rows := m.list.rows(m); len(rows) != counts[tab] {
				t.Errorf("%q: %s lists %d calls, its counter says %d", keys, tabNames[tab], len(rows), counts[tab])
			}
			see(t, screen, fmt.Sprintf("[%d %s %d]", i+1, tabNames[tab], counts[tab]))
			if q := m.list.rows(m); len(q) > 0 && m.list.preview.request != q[m.list.row].call.Key {
				t.Errorf("%q: the preview shows %v", keys, m.list.preview.request)
			}
		}
	}
}

// Requests are sorted by deadline. The order, its direction and the groups can be changed.
func TestOrderAndGroups(t *testing.T) {
	for keys, want := range map[string]string{
		"": "01 02 05 03 06 04", "O": "04 06 03 05 02 01", "o": "06 05 04 03 02 01", "oo": "01 02 03 04 05 06",
		"ooo": "01 05 04 02 03 06", "v": "01 05 02 03 06 04", "vv": "01 05 02 03 06 04", "vvvv": "01 02 05 03 06 04",
	} {
		m, _ := newDay(t, 80, 24)
		types(m, keys)
		var got []string
		for _, q := range m.list.rows(m) {
			got = append(got, strings.TrimPrefix(string(q.call.Call), "call_"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("after %q the order is %v, want %s", keys, got, want)
		}
	}
}

// A person who has responded is offered only the responses that the engine still accepts, for one
// request and for several.
func TestOffersAfterAResponse(t *testing.T) {
	m, e := newDay(t, 120, 40)
	q := m.qs.get(m.list.rows(m)[0].call.Key)
	q.call.Votes = []toolcall.Vote{{Kind: toolcall.ResponseSkip, By: toolcall.Principal{Name: m.cfg.Who}, Digest: q.call.Digest}}
	m.qs.rev++
	if screen := m.View(); strings.Contains(screen, "a approve") {
		t.Errorf("the list offers approval:\n%s", screen)
	}
	see(t, types(m, "a"), "You skipped: you can only reject this request now.")
	see(t, types(m, "\r"), "\nr reject  n next")
	see(t, types(m, "\x1b*b"), "Approve 5 requests?", "1 not included: you cannot respond, or have responded.")
	types(m, "\x1bgm")
	for _, o := range m.list.rows(m) {
		if o == q {
			t.Error("\"mine only\" contains the request")
		}
	}
	if types(m, "\x1b"); len(e.responses) != 0 {
		t.Errorf("sent: %v", e.responses)
	}
}

// If the reply to a response is lost, the inbox says that the response may count.
func TestUnknownOutcome(t *testing.T) {
	m, e := newDay(t, 120, 40)
	e.err = &message.Error{Code: message.CodeUnknownOutcome, What: "no engine replied; the request may have been executed"}
	see(t, types(m, " bGy"), "Responses: 0 accepted, 0 not accepted, 1 unknown", "outcome unknown: it may count. Open the request to see")
	see(t, types(m, "\x1ba y"), "Outcome unknown, review call_02 again: no engine replied")
	e.err = &message.Error{Code: message.CodeForbidden, What: "no"}
	see(t, types(m, "\x1b\x1b bGy"), "Responses: 0 accepted, 1 not accepted", "not accepted: no")
}

// Esc leads from the confirmation back to the text, which is still there.
func TestBackToTheText(t *testing.T) {
	m, e := newDay(t, 120, 40)
	see(t, types(m, "\rrnot today\r"), "feedback not today", "y reject")
	see(t, types(m, "\x1b"), "> not today")
	see(t, types(m, "!\ry"), "git push")
	if len(e.responses) != 1 || e.responses[0].Feedback != "not today!" {
		t.Errorf("responses: %+v", e.responses)
	}
	if d, ok := m.top().(*detailScreen); !ok {
		t.Errorf("after the response the screen is %T", d)
	}
	m, e = newDay(t, 120, 40)
	types(m, "jhbob\rplease\r\x1b")
	if types(m, "by\r\ry"); len(e.responses) != 1 || e.responses[0].To != "bobby" || e.responses[0].Note != "please" {
		t.Errorf("responses: %+v", e.responses)
	}
}

// An empty result is a mistake, as in the web console.
func TestEmptyResult(t *testing.T) {
	m, _ := newDay(t, 120, 40)
	types(m, "\rt ")
	m.Update(tea.KeyMsg{Type: tea.KeyCtrlS})
	see(t, m.View(), "The result is empty")
	if _, open := m.top().(*composeScreen); !open {
		t.Error("the confirmation of an empty result is open")
	}
}

// Esc stops a response to several requests after the one on its way, and the others stay open.
func TestSeveralStopped(t *testing.T) {
	m, e := newDay(t, 120, 40)
	types(m, "*bG")
	_, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("y")})
	see(t, m.View(), "Sending, 6 to go", "esc stop after this one")
	types(m, "\x1b")
	for cmd != nil {
		_, cmd = m.Update(cmd())
	}
	see(t, m.View(), "Responses: 1 accepted, 5 not accepted", "not sent: you stopped · Wire")
	if len(e.responses) != 1 || len(m.sending) != 0 {
		t.Errorf("after esc %d responses were sent, and %d are on their way", len(e.responses), len(m.sending))
	}
	if types(m, "\x1b"); m.top() != m.list {
		t.Error("esc does not lead back to the list")
	}
}

// The list of several requests keeps showing which of them an approval omits.
func TestSeveralWithoutASignature(t *testing.T) {
	m, _ := newDay(t, 120, 40)
	for _, q := range m.qs.all {
		if q.call.Call == "call_05" {
			q.call.Request.Requirement.Signed = true
			q.call.Digest, _ = q.call.Request.Digest()
		}
	}
	types(m, "*b")
	for range 2 {
		see(t, m.View(), "Approve 5 requests?", "Not included: This request requires your signature", "y approve 5  r reject 6")
	}
}

// "Approve and next" opens the next request of the list, or the first one at the end.
func TestApproveAndNext(t *testing.T) {
	m, e := newDay(t, 80, 24)
	types(m, "\ra")
	see(t, types(m, "Y"), "refund  call_02", "Refund 49.00 EUR")
	see(t, types(m, "a Y"), "bash  call_05")
	if len(e.responses) != 2 {
		t.Errorf("responses: %v", e.responses)
	}
	m, _ = newDay(t, 80, 24)
	see(t, types(m, "Ga Y"), "bash  call_01")
}

func mouse(m *model, x, y int, b tea.MouseButton) string {
	_, cmd := m.Update(tea.MouseMsg{X: x, Y: y, Button: b, Action: tea.MouseActionPress})
	run(m, cmd)
	return m.View()
}

// lineOf returns where a text is on the screen.
func lineOf(t *testing.T, screen, text string) (x, y int) {
	t.Helper()
	for y, line := range strings.Split(screen, "\n") {
		if before, _, found := strings.Cut(line, text); found {
			return len([]rune(before)), y
		}
	}
	t.Fatalf("no %q on\n%s", text, screen)
	return 0, 0
}

// A click selects a tab or a row, a second click opens the row, and the wheel scrolls the part
// under the pointer. No click sends anything.
func TestMouse(t *testing.T) {
	for _, keys := range []string{"", "v"} {
		m, e := newDay(t, 120, 40)
		screen := types(m, keys)
		x, y := lineOf(t, screen, "Run rm -rf build?")
		screen = mouse(m, x, y, tea.MouseButtonLeft)
		if m.list.at.Call != "call_05" {
			t.Errorf("the click selected %v", m.list.at)
		}
		see(t, screen, "─ bash  call_05 ─")
		mouse(m, x, y, tea.MouseButtonLeft)
		if d, ok := m.top().(*detailScreen); !ok || d.request.Call != "call_05" {
			t.Errorf("the second click leads to %T", m.top())
		}
		screen = types(m, "\x1b")
		x, y = lineOf(t, screen, "2 Active")
		see(t, mouse(m, x, y, tea.MouseButtonLeft), "[2 Active 2]", "deploy")
		x, y = lineOf(t, m.View(), "1 Open")
		mouse(m, x, y, tea.MouseButtonLeft)
		mouse(m, 5, 6, tea.MouseButtonWheelDown)
		if m.list.row != wheelRows {
			t.Errorf("the wheel moved to row %d", m.list.row)
		}
		if mouse(m, 2, 0, tea.MouseButtonLeft); len(e.responses) != 0 {
			t.Errorf("a click responded: %v", e.responses)
		}
	}
}

// The confirmation shows the policy's decision about an edit. An edit that the policy refuses is
// not sent.
func TestEditPreview(t *testing.T) {
	for _, tc := range []struct {
		name string
		call api.PreviewedCall
		err  error
		want string
		sent bool
	}{
		{"runs", api.PreviewedCall{Edit: api.EditRuns}, nil, "permits the edited call", true},
		{"asks", api.PreviewedCall{Edit: api.EditAsks, Decision: &toolcall.Decision{Reason: "over the limit"}}, nil, "asks again about the edited call: over the limit", true},
		{"refused", api.PreviewedCall{Edit: api.EditRefused, Decision: &toolcall.Decision{Behavior: message.BehaviorDeny, Reason: "cap"}}, nil, "The policy refuses this edit: cap. The request stays open", false},
		{"no answer", api.PreviewedCall{}, errors.New("gone"), "no preview: gone", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, e := newDay(t, 100, 40)
			var asked api.PreviewRequest
			m.cfg.Preview = func(_ context.Context, r api.PreviewRequest) (api.PreviewReply, error) {
				asked = r
				return api.PreviewReply{Calls: []api.PreviewedCall{tc.call}}, tc.err
			}
			d := newDraft(m.qs.get(m.list.rows(m)[1].call.Key).call, toolcall.ResponseApprove)
			input := `{"order_id":"A-1042","amount_cents":100}`
			d.response.Input = &input
			m.push(newConfirm(d))
			cmd := d.askPreview(m)
			see(t, m.View(), "asking the engine")
			m.Update(cmd())
			see(t, m.View(), tc.want)
			if asked.Edit == nil || asked.Edit.Input != input || asked.Edit.Digest != d.call.Digest || asked.Session != "ticket-7" {
				t.Errorf("asked about %+v", asked)
			}
			if types(m, " y"); (len(e.responses) == 1) != tc.sent {
				t.Errorf("sent: %v", e.responses)
			}
		})
	}
}

// A list of 10,000 requests is complete, and the cost of a key does not grow with the list.
func TestTenThousandRequests(t *testing.T) {
	m, _ := newShown(t)
	m.now = clock
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	const n, page = 10_000, 500
	var all []*toolcall.Call
	for i := range n {
		all = append(all, proposed(t, i+1, "bash", "coder", fmt.Sprint("session-", i%50), fmt.Sprintf(`{"command":"make -j %d"}`, i), fmt.Sprintf("Run make -j %d?", i), nil))
	}
	for at := 0; at < n; at += page {
		m.Update(listedMsg{calls: all[at : at+page]})
		see(t, m.View(), fmt.Sprintf("%d+ open", at+page))
	}
	m.Update(listed(all...))
	see(t, types(m, "G"), "10000 of 10000", "[1 Open 10000]", "make -j 9999?")
	see(t, types(m, "/9998?\r"), "1 of 1", "[1 Open 1]")
	types(m, "\x1bg")
	made := m.list.made
	types(m, "jjjj")
	m.Update(listed(all...)) // the same list again
	types(m, "kk")
	if m.list.made != made {
		t.Error("the rows were sorted again although nothing changed")
	}
	if got := testing.AllocsPerRun(5, func() { types(m, "j") }); got > 20_000 {
		t.Errorf("a key costs %.0f allocations", got)
	}
}

func BenchmarkTenThousandRequests(b *testing.B) {
	e := &fakeEngine{calls: map[toolcall.Key]*toolcall.Call{}}
	m := benchModel(b, e)
	var all []*toolcall.Call
	for i := range 10_000 {
		all = append(all, proposed(b, i+1, "bash", "coder", fmt.Sprint("session-", i%50), fmt.Sprintf(`{"command":"make -j %d"}`, i), fmt.Sprintf("Run make -j %d?", i), nil))
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			m = benchModel(b, e)
			m.Update(listed(all...))
			_ = m.View()
		}
	})
	m.Update(listed(all...))
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			types(m, "j")
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			c := all[i%len(all)].Clone()
			c.Seq = uint64(20_000 + i)
			m.Update(sawMsg{key: c.Key, call: c})
			_ = m.View()
		}
	})
}

// Text with several lines, such as feedback, is shown as lines and not with marks.
func TestWordsOfSeveralLines(t *testing.T) {
	m, _ := newDay(t, 120, 40)
	types(m, "j")
	before := m.list.rows(m)[1].call
	c := before.Clone()
	c.State, c.Cause, c.Seq = message.ToolCallFinished, "reject", 100
	c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseReject, By: toolcall.Principal{Name: "bob"}, Digest: c.Digest, Feedback: "not today\nask on Monday"}}
	m.Update(sawMsg{key: c.Key, call: c})
	screen := m.View()
	see(t, screen, "rejected by bob: not today / ask on Monday")
	if strings.Contains(screen, "U+000A") {
		t.Errorf("a line break is shown as a mark:\n%s", screen)
	}
}

// Arguments that were edited to several lines are shown as lines in the confirmation.
func TestEditOfSeveralLines(t *testing.T) {
	c := asking(t, "c", func(req *toolcall.ApprovalRequest) { req.Input, req.Text = "{\n  \"cents\": 1\n}", "Pay\nnow?" })
	c.Input = c.Request.Input
	m, _ := newShown(t, c)
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, keys := range []string{"", "\r", "x", "a", "x"} {
		if screen := types(m, keys); strings.Contains(screen, "U+000A") {
			t.Errorf("after %q a line break is shown as a mark:\n%s", keys, screen)
		}
	}
}
