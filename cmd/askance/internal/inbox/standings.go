package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// alive is a screen that wants to be told of the time.
type alive interface {
	tick(m *model) tea.Cmd
}

// standingApprovalsScreen is the standing approvals that are in force, one on a line.
type standingApprovalsScreen struct {
	all     []*toolcall.StandingApproval
	more    bool // there are more than are kept
	known   bool // the engine has answered once
	trouble error
	asked   time.Time // the last time that the engine was asked
	at      toolcall.StandingID
	row     int
	first   int
	page    int
}

// standingApprovalsMsg has the standing approvals as the engine knows them.
type standingApprovalsMsg struct {
	standingApprovals []*toolcall.StandingApproval
	more              bool
	err               error
}

func newStandingApprovals() *standingApprovalsScreen { return &standingApprovalsScreen{page: 1} }

func (s *standingApprovalsScreen) holds(toolcall.Key) bool { return false }

// tick asks again now and then.
func (s *standingApprovalsScreen) tick(m *model) tea.Cmd {
	if m.now.Sub(s.asked) < every {
		return nil
	}
	return s.ask(m)
}

func (s *standingApprovalsScreen) ask(m *model) tea.Cmd {
	s.asked = m.now
	parent, engine := m.ctx, m.cfg.Engine
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, askWithin)
		defer cancel()
		var out standingApprovalsMsg
		r := toolcall.StandingApprovalsRequest{V: 1}
		for {
			page, err := engine.StandingApprovals(ctx, r)
			if err != nil {
				return standingApprovalsMsg{err: err}
			}
			out.standingApprovals = append(out.standingApprovals, page.StandingApprovals...)
			if r.After = page.Next; r.After == "" {
				return out
			}
			if out.more = len(out.standingApprovals) >= maxListed; out.more {
				return out
			}
		}
	}
}

// take takes in what the engine said.
func (s *standingApprovalsScreen) take(r standingApprovalsMsg) {
	s.trouble = r.err
	if r.err != nil {
		return
	}
	s.known, s.all, s.more = true, r.standingApprovals, r.more
	slices.SortStableFunc(s.all, func(a, b *toolcall.StandingApproval) int { return a.GrantedAt.Compare(b.GrantedAt) })
}

// resolve puts the selection on a row that is there, and shows it.
func (s *standingApprovalsScreen) resolve() {
	i := slices.IndexFunc(s.all, func(l *toolcall.StandingApproval) bool { return l.ID == s.at })
	if i < 0 {
		i = min(s.row, len(s.all)-1)
	}
	s.row, s.at = max(0, i), ""
	if i >= 0 {
		s.at = s.all[i].ID
	}
	s.first = max(0, min(s.first, len(s.all)-s.page))
	s.first = max(min(s.first, s.row), s.row-s.page+1)
}

func (s *standingApprovalsScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	s.resolve()
	key := k.String()
	if key == "esc" || key == "q" || key == "left" {
		m.pop()
		return nil
	}
	if d, ok := moves(key, s.page); ok && len(s.all) > 0 {
		s.row = max(0, min(len(s.all)-1, s.row+d))
		s.at = s.all[s.row].ID
		return nil
	}
	if len(s.all) == 0 {
		return nil
	}
	switch l := s.all[s.row]; key {
	case "enter", "right", "l":
		d := newStandingApproval(l)
		m.push(d)
		return d.ask(m)
	case "d":
		m.push(newTakeBack(l))
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
	for i, l := range s.all[s.first:] {
		if i == s.page {
			break
		}
		mark, paint := "  ", func(t string) string { return t }
		if l.ID == s.at {
			mark, paint = "> ", m.out.Bold
		}
		if l.State(m.now) != toolcall.StandingActive {
			paint = m.out.Dim
		}
		body = append(body, paint(c.line(mark, allows(l), grantors(l), asked.Until(l.Terms.Until, m.now), stateText(l, m.now)+reveal.Line(l.Text()))))
	}
	return title, body, "enter open  d revoke  ? help  esc back"
}

// stateText says that a rule is not in force any more.
func stateText(l *toolcall.StandingApproval, now time.Time) string {
	if s := l.State(now); s != toolcall.StandingActive {
		return "(" + string(s) + ") "
	}
	return ""
}

// allows is which calls a standing approval is about.
func allows(l *toolcall.StandingApproval) string {
	var out []string
	for _, r := range l.Terms.Rules {
		text := reveal.Line(r.ToolName)
		if c := contentOf(r); c != "" {
			text += "(" + reveal.Line(c) + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// grantors are those who gave a standing approval.
func grantors(l *toolcall.StandingApproval) string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, reveal.Line(v.By.Name))
	}
	return strings.Join(out, ", ")
}

// standingApprovalWidths are the widths of the list's columns.
type standingApprovalWidths struct{ rule, by, left, terms int }

func standingApprovalColumns(all []*toolcall.StandingApproval, w int) standingApprovalWidths {
	c := standingApprovalWidths{rule: 6, by: 2, left: 6}
	for _, l := range all {
		c.rule, c.by = max(c.rule, ansi.StringWidth(allows(l))), max(c.by, ansi.StringWidth(grantors(l)))
	}
	c.rule, c.by = min(c.rule, w*2/5), min(c.by, w/6)
	c.terms = max(0, w-2-c.rule-c.by-c.left-3)
	return c
}

func (c standingApprovalWidths) line(mark, rule, by, left, terms string) string {
	return strings.TrimRight(fmt.Sprintf("%s%s %s %s %s", mark, cell(rule, c.rule), cell(by, c.by), cell(left, c.left), fit(terms, c.terms)), " ")
}
