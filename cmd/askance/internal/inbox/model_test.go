package inbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// fakeEngine has calls and accepts every response.
type fakeEngine struct {
	mu                sync.Mutex // guards the fields below
	calls             map[toolcall.Key]*toolcall.Call
	responses         []toolcall.Response
	standingApprovals []*toolcall.StandingApproval
	revoked           []toolcall.RevokeStandingApprovalRequest
	err               error
	listed            int
}

func (*fakeEngine) Explain(context.Context, toolcall.ExplainRequest) (toolcall.ExplainReply, error) {
	return toolcall.ExplainReply{}, message.ErrUnavailable
}

func (f *fakeEngine) List(_ context.Context, q toolcall.ListRequest) (toolcall.ListReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed++
	var r toolcall.ListReply
	for _, c := range f.calls {
		if finished := c.State == message.ToolCallFinished; finished == q.All {
			r.Calls = append(r.Calls, c)
		}
	}
	slices.SortFunc(r.Calls, func(a, b *toolcall.Call) int { return cmp.Compare(b.Seq, a.Seq) })
	return r, f.err
}

func (f *fakeEngine) Show(_ context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[r.Key]
	if c == nil && f.err == nil {
		return toolcall.ShowReply{}, message.ErrNotFound
	}
	return toolcall.ShowReply{Call: c}, f.err
}

func (f *fakeEngine) SubmitResponse(_ context.Context, resp toolcall.Response) (*toolcall.Call, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.responses = append(f.responses, resp)
	if f.err != nil {
		return nil, f.err
	}
	c := f.calls[resp.Key]
	return c, nil
}

func (f *fakeEngine) StandingApprovals(context.Context, toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return toolcall.StandingApprovalsReply{StandingApprovals: f.standingApprovals}, f.err
}

func (f *fakeEngine) ShowStandingApproval(_ context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.standingApprovals {
		if s.ID == r.ID {
			return toolcall.ShowStandingApprovalReply{Standing: s}, f.err
		}
	}
	return toolcall.ShowStandingApprovalReply{}, message.ErrNotFound
}

func (f *fakeEngine) RevokeStandingApproval(_ context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked = append(f.revoked, r)
	return &toolcall.StandingApproval{ID: r.ID, Revoked: &toolcall.Revocation{}}, f.err
}

// asking returns a call with an open approval request.
func asking(t testing.TB, id string, change func(*toolcall.ApprovalRequest)) *toolcall.Call {
	t.Helper()
	c := &toolcall.Call{
		Key: toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: message.CallID(id)}, Tool: "pay", Runtime: "bot",
		Input: `{"cents":1}`, State: message.ToolCallAsking, Cause: "ask", First: 1, Seq: 1,
		Decision: &toolcall.Decision{Behavior: message.BehaviorAsk, Reason: "because"},
	}
	c.Request = &toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: "Pay?", Rule: "large", Source: "shop"}
	if change != nil {
		change(c.Request)
	}
	var err error
	if c.Digest, err = c.Request.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

// newShown returns a program with these approval requests on a terminal of 80x24.
func newShown(t *testing.T, calls ...*toolcall.Call) (*model, *fakeEngine) {
	t.Helper()
	e := &fakeEngine{calls: map[toolcall.Key]*toolcall.Call{}}
	m := benchModel(t, e)
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	if len(calls) > 0 {
		m.Update(listed(calls...))
	}
	return m, e
}

// benchModel returns a program without requests.
func benchModel(t testing.TB, e *fakeEngine) *model {
	t.Helper()
	cfg := Config{Engine: e, Who: "ann", Out: term.New(&strings.Builder{}), Editor: []string{"true"}}
	m := newModel(t.Context(), cfg, newFeed(cfg, func(tea.Msg) {}))
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	return m
}

// listed returns a complete list.
func listed(calls ...*toolcall.Call) listedMsg {
	keys := map[toolcall.Key]bool{}
	for _, c := range calls {
		keys[c.Key] = true
	}
	return listedMsg{calls, keys}
}

// types presses keys one after the other and draws after each.
func types(m *model, keys string) string {
	for _, r := range keys {
		k := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}
		switch r {
		case '\r':
			k = tea.KeyMsg{Type: tea.KeyEnter}
		case '\x1b':
			k = tea.KeyMsg{Type: tea.KeyEsc}
		}
		_, cmd := m.Update(k)
		run(m, cmd)
		_ = m.View()
	}
	return m.View()
}

// run carries out a command that returns a message. Other commands wait for a time.
func run(m *model, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if msg, ok := cmd().(replyMsg); ok {
		m.Update(msg)
	}
}

// An approval request whose digest differs from the engine's cannot be answered, because what
// runs would not be what is shown.
func TestForgedDigest(t *testing.T) {
	c := asking(t, "c", nil)
	c.Request.Input = `{"cents":1000000}`
	m, e := newShown(t, c)
	screen := types(m, "\ra  y")
	if !strings.Contains(screen, "does not match the approval") || len(e.responses) != 0 {
		t.Errorf("answers %v\n%s", e.responses, screen)
	}
	if screen := types(m, "\x1br\ry"); !strings.Contains(screen, "does not match the approval") || len(e.responses) != 0 {
		t.Errorf("answers %v\n%s", e.responses, screen)
	}
}

func TestPasteDecidesNothing(t *testing.T) {
	m, e := newShown(t, asking(t, "c", nil))
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("\raly"), Paste: true})
	types(m, "\ra")
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("y"), Paste: true})
	if len(e.responses) != 0 {
		t.Errorf("a paste sent a response: %v", e.responses)
	}
	types(m, "y")
	if len(e.responses) != 1 {
		t.Errorf("answers: %v", e.responses)
	}
}

func TestTooSmallDecidesNothing(t *testing.T) {
	m, e := newShown(t, asking(t, "c", nil))
	types(m, "\ra")
	m.Update(tea.WindowSizeMsg{Width: minWidth - 1, Height: 24})
	types(m, "y")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: minHeight - 1})
	types(m, "y")
	if len(e.responses) != 0 {
		t.Errorf("a response was sent without being seen: %v", e.responses)
	}
}

// Keys that arrive together count as separate keys, even after esc.
func TestKeysInOnePiece(t *testing.T) {
	m, _ := newShown(t, asking(t, "a", nil), asking(t, "b", nil))
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("jl")})
	if d, ok := m.top().(*detailScreen); !ok || d.request.Call != "b" {
		t.Errorf("jl shows %T", m.top())
	}
	types(m, "a")
	m.Update(tea.KeyMsg{Type: tea.KeyEsc, Alt: true})
	if len(m.stack) != 0 {
		t.Errorf("two escapes led to %T", m.top())
	}
}

func TestRefusals(t *testing.T) {
	won := asking(t, "c", nil)
	won.State, won.Cause, won.Seq = message.ToolCallFinished, "reject", 2
	won.Votes = []toolcall.Vote{{Kind: toolcall.ResponseReject, By: toolcall.Principal{Name: "bob"}, Digest: won.Digest, Feedback: "no"}}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"another person was first", &message.Error{Code: message.CodeFinished, What: "finished", Call: toolcall.ErrorCall(won)}, "Not accepted: too late, it was rejected by bob: no"},
		{"not allowed", &message.Error{Code: message.CodeForbidden, What: "ann may not", Hint: "ask bob"}, "Not accepted: ann may not (ask bob)"},
		{"anything else", errors.New("pipe \x1b[2J broke"), "Outcome unknown, review c again: pipe ‹U+001B›[2J broke"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, e := newShown(t, asking(t, "c", nil))
			e.err = tc.err
			if screen := types(m, "\ray"); !strings.Contains(screen, tc.want) {
				t.Errorf("no %q on\n%s", tc.want, screen)
			}
		})
	}
}

func TestTroubleIsShown(t *testing.T) {
	m, _ := newShown(t, asking(t, "c", nil))
	m.Update(troubleMsg{errors.New("gone")})
	m.Update(tickMsg(m.now.Add(12 * time.Second)))
	if screen := m.View(); !strings.Contains(screen, "no connection for 12s") {
		t.Error(screen)
	}
	m.Update(listed())
	if screen := m.View(); strings.Contains(screen, "no answer") {
		t.Error(screen)
	}
}

// For any keys and any size, the screen is filled and never overflows.
func TestViewFits(t *testing.T) {
	m, e := newShown(t, asking(t, "a", func(req *toolcall.ApprovalRequest) { req.Text, req.Rule = strings.Repeat("long ", 50), "" }), asking(t, "b", nil))
	m.qs.all[toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "a"}].call.Suggested = []message.PermissionRule{terms.Allow("pay", strings.Repeat("x", 200))}
	long := strings.Repeat("git push ", 30)
	e.standingApprovals = []*toolcall.StandingApproval{{ID: "sta_1", Tool: "Bash", Terms: toolcall.StandingTerms{Scope: toolcall.ScopeSpace, Rules: []message.PermissionRule{terms.Allow("Bash", long)}}, GrantedBy: []toolcall.Vote{{By: toolcall.Principal{Name: long}}}}}
	for _, keys := range []string{"", "\r", "a", "\x1b", "w", "\x1b", "r", "\x1b", "t", "\x1b", "h", "\x1b", "?", "\x1b\x1b", "b", "\x1b", "R", "\r", "dwhy", "\r", "\x1b\x1b\x1b", "/x"} {
		types(m, keys)
		for _, size := range [][2]int{{80, 24}, {40, 10}, {39, 9}, {10, 3}, {200, 60}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			lines := strings.Split(m.View(), "\n")
			if len(lines) > size[1] {
				t.Errorf("%T at %v has %d lines", m.top(), size, len(lines))
			}
			for _, l := range lines {
				if w := len([]rune(l)); w > size[0] {
					t.Errorf("%T at %v has a line of %d: %q", m.top(), size, w, l)
				}
			}
		}
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	}
}
