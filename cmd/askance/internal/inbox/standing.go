package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// standingApprovalScreen shows one standing approval in full.
type standingApprovalScreen struct {
	standing *toolcall.StandingApproval
	uses     []toolcall.StandingUse
	scroll
	repeated
}

func (s *standingApprovalScreen) ask(m *model) tea.Cmd {
	s.asked = m.now
	id := s.standing.ID
	return m.inBackground(askWithin, func(ctx context.Context, engine Engine) replyMsg {
		r, err := engine.ShowStandingApproval(ctx, toolcall.ShowStandingApprovalRequest{V: 1, ID: id})
		return func(*model) tea.Cmd {
			if err == nil && r.Standing != nil { // else the screen stays as it is
				s.standing, s.uses = r.Standing, r.Uses
			}
			return nil
		}
	})
}

func (s *standingApprovalScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); key {
	case "esc", "q", "left":
		m.pop()
	case "d":
		if s.standing.Revoked == nil {
			m.push(newRevoke(s.standing))
		}
	default:
		s.scroll.key(key)
	}
	return nil
}

func (s *standingApprovalScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	lines := standingApprovalLines(m, s.standing, w)
	f := records{width: w, dim: m.out.Dim}
	for _, u := range slices.Backward(s.uses) { // the latest first
		text := callPath(u.Call) + ", " + asked.Span(m.now.Sub(u.At)) + " ago"
		if u.Amount != "" {
			text += ", " + reveal.Line(u.Amount)
		}
		f.add("used", text)
	}
	lines = append(lines, f.lines...)
	keys = "d revoke  space more  ? help  esc back"
	if s.standing.Revoked != nil {
		keys = "space more  ? help  esc back"
	}
	return "Standing approval " + reveal.Line(string(s.standing.ID)), s.scroll.view(m, nil, lines, h), keys
}

// standingApprovalLines returns everything about a standing approval except its uses.
func standingApprovalLines(m *model, s *toolcall.StandingApproval, w int) []string {
	f := records{width: w, dim: m.out.Dim}
	f.add("state", string(s.State(m.now)))
	if e := s.Revoked; e != nil {
		text := "by " + reveal.MarkedName(asked.Who(e.By)) + ", " + asked.Span(m.now.Sub(e.At)) + " ago"
		if e.Reason != "" {
			text += ": " + reveal.Line(e.Reason)
		}
		f.add("revoked", text)
	}
	for _, r := range s.Terms.Rules {
		f.add("allows", asked.RuleText(r))
	}
	for _, r := range s.Within {
		f.add("within", asked.RuleText(r))
	}
	f.add("limits", reveal.Line(s.Text())+": "+asked.Scope(s.Terms.Scope))
	end := "until it is revoked"
	if at := s.Terms.Until; !at.IsZero() {
		end = asked.Until(at, m.now) + ", until " + at.Local().Format(time.DateTime)
	}
	f.add("time", end)
	f.add("reason", reveal.Line(s.Reason))
	f.add("same", asked.Same(s)...)
	for _, v := range s.GrantedBy {
		f.add("granted", reveal.MarkedName(asked.Who(v.By))+", "+asked.Span(m.now.Sub(v.At))+" ago")
	}
	of := "runtime " + reveal.MarkedName(s.User)
	if s.Agent != "" {
		of += ", agent " + reveal.MarkedName(s.Agent)
	}
	f.add("for", of)
	f.add("from", callPath(s.From))
	return f.lines
}

func callPath(k toolcall.Key) string {
	return reveal.MarkedName(string(k.Session) + "/" + string(k.Reply) + "/" + string(k.Call))
}

// revokeScreen revokes a standing approval: first the reason, then a confirmation.
type revokeScreen struct {
	standing *toolcall.StandingApproval
	reason   textinput.Model
	sure     bool // the reason is written
}

func newRevoke(s *toolcall.StandingApproval) *revokeScreen {
	return &revokeScreen{standing: s, reason: newInput("> ", toolcall.MaxTextBytes/4)}
}

func (s *revokeScreen) writes() {}

func (s *revokeScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
	case !s.sure && k.Type == tea.KeyEnter:
		s.sure = true
		s.reason.Blur()
	case !s.sure:
		return update(&s.reason, k)
	case k.String() == "y" && !k.Paste:
		m.pop()
		m.say(m.out.Dim, "Revoking %s", s.standing.ID)
		return s.send(m)
	}
	return nil
}

func (s *revokeScreen) send(m *model) tea.Cmd {
	r := toolcall.RevokeStandingApprovalRequest{V: 1, ID: s.standing.ID, Reason: strings.TrimSpace(s.reason.Value())}
	return m.inBackground(sendWithin, func(ctx context.Context, engine Engine) replyMsg {
		sa, err := engine.RevokeStandingApproval(ctx, r)
		return func(m *model) tea.Cmd { return m.showRevoked(r.ID, sa, err) }
	})
}

// showRevoked shows the reply, and reads the standing approvals again.
func (m *model) showRevoked(id toolcall.StandingID, sa *toolcall.StandingApproval, err error) tea.Cmd {
	if err != nil {
		m.say(m.out.Bad, "Not revoked: %s", asked.Refusal(err))
	} else {
		m.say(m.out.Good, "%s is %s: it allows no more calls", id, sa.State(m.now))
	}
	switch s := m.top().(type) {
	case *standingApprovalScreen:
		return s.ask(m)
	case *standingApprovalsScreen:
		return s.ask(m)
	}
	return nil
}

func (s *revokeScreen) view(m *model, w, _ int) (title string, body []string, keys string) {
	s.reason.Width = max(1, w-4)
	body = append(body, m.out.Dim("Reason, for the journal (optional)"), s.reason.View(), "")
	keys = "enter continue  esc back"
	if s.sure {
		keys = "y revoke it now  esc back"
	}
	return "Revoke " + reveal.Line(string(s.standing.ID)) + "?", append(body, standingApprovalLines(m, s.standing, w)...), keys
}

// alive is a screen that asks the engine again and again.
type alive interface {
	isDue(now time.Time) bool
	ask(m *model) tea.Cmd
}

// repeated is embedded in a screen that asks the engine every few seconds.
type repeated struct{ asked time.Time } // the last time

func (r repeated) isDue(now time.Time) bool { return now.Sub(r.asked) >= every }

// standingApprovalsScreen lists the standing approvals in force, one on a line.
type standingApprovalsScreen struct {
	all     []*toolcall.StandingApproval
	more    bool // there are more than are kept
	known   bool // the engine has answered once
	trouble error
	repeated
	picker[toolcall.StandingID]
}

func (s *standingApprovalsScreen) ask(m *model) tea.Cmd {
	s.asked = m.now
	return m.inBackground(askWithin, func(ctx context.Context, engine Engine) replyMsg {
		var all []*toolcall.StandingApproval
		r := toolcall.StandingApprovalsRequest{V: 1}
		for {
			page, err := engine.StandingApprovals(ctx, r)
			all, r.After = append(all, page.StandingApprovals...), page.Next
			if more := r.After != ""; err != nil || !more || len(all) >= maxListed {
				return func(*model) tea.Cmd { s.take(all, more, err); return nil }
			}
		}
	})
}

func (s *standingApprovalsScreen) take(all []*toolcall.StandingApproval, more bool, err error) {
	s.trouble = err
	if err != nil {
		return
	}
	s.known, s.all, s.more = true, all, more
	slices.SortStableFunc(s.all, func(a, b *toolcall.StandingApproval) int { return a.GrantedAt.Compare(b.GrantedAt) })
}

func (s *standingApprovalsScreen) resolve() { s.choose(len(s.all), s.keyOf) }

func (s *standingApprovalsScreen) keyOf(i int) toolcall.StandingID { return s.all[i].ID }

func (s *standingApprovalsScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	s.resolve()
	key := k.String()
	if key == "esc" || key == "q" || key == "left" {
		m.pop()
		return nil
	}
	if d, ok := moves(key, s.page); ok && len(s.all) > 0 {
		s.move(len(s.all), d, s.keyOf)
		return nil
	}
	if len(s.all) == 0 {
		return nil
	}
	switch sa := s.all[s.row]; key {
	case "enter", "right", "l":
		d := &standingApprovalScreen{standing: sa}
		m.push(d)
		return d.ask(m)
	case "d":
		m.push(newRevoke(sa))
	}
	return nil
}

func (s *standingApprovalsScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	s.resolve()
	title = "Standing approvals: " + fmt.Sprint(len(s.all)) + " in force"
	if s.more {
		title += ", and more (see askance standing list)"
	}
	switch {
	case s.trouble != nil:
		body = paintAll(m.out.Bad, wrap("Cannot load them: "+reveal.Line(asked.Refusal(s.trouble)), w))
	case !s.known:
		return title, []string{"", m.out.Dim("  loading")}, "esc back"
	case len(s.all) == 0:
		return title, []string{"", m.out.Dim("  No standing approvals: the policy and the approvers decide every call.")}, "esc back"
	}
	s.page = max(1, h-len(body)-1)
	s.resolve()
	c := standingApprovalColumns(s.all, w)
	body = append(body, m.out.Dim(c.line("  ", "ALLOWS", "BY", "LEFT", "LIMITS")))
	for i, sa := range s.all[s.first:] {
		if i == s.page {
			break
		}
		mark, state, paint := "  ", "", func(t string) string { return t }
		if sa.ID == s.at {
			mark, paint = "> ", m.out.Bold
		}
		if s := sa.State(m.now); s != toolcall.StandingActive {
			paint, state = m.out.Dim, "("+string(s)+") "
		}
		body = append(body, paint(c.line(mark, asked.Allows(sa), asked.Grantors(sa), asked.Until(sa.Terms.Until, m.now), state+reveal.Line(sa.Text()))))
	}
	return title, body, "enter open  d revoke  ? help  esc back"
}

// standingApprovalWidths are the widths of the list's columns.
type standingApprovalWidths struct{ rule, by, left, terms int }

func standingApprovalColumns(all []*toolcall.StandingApproval, w int) standingApprovalWidths {
	c := standingApprovalWidths{rule: 6, by: 2, left: 6}
	for _, s := range all {
		c.rule, c.by = max(c.rule, ansi.StringWidth(asked.Allows(s))), max(c.by, ansi.StringWidth(asked.Grantors(s)))
	}
	c.rule, c.by = min(c.rule, w*2/5), min(c.by, w/6)
	c.terms = max(0, w-2-c.rule-c.by-c.left-3)
	return c
}

func (s standingApprovalWidths) line(mark, rule, by, left, terms string) string {
	return strings.TrimRight(fmt.Sprintf("%s%s %s %s %s", mark, cell(rule, s.rule), cell(by, s.by), cell(left, s.left), fit(terms, s.terms)), " ")
}
