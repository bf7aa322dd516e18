package inbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// termsScreen edits the terms of a standing approval: the rules, for which calls they are, until
// when, how often and up to what sum. It works on a copy, which esc discards.
type termsScreen struct {
	detail *detailScreen
	wish   wish
	at     int // 0 is the scope, the fields follow
	fields []termsField
}

// termsField is one input line.
type termsField struct {
	label string
	set   func(*wish, string)
	in    textinput.Model
}

func newTerms(d *detailScreen) *termsScreen {
	s := &termsScreen{detail: d, wish: d.wish}
	s.wish.offers = slices.Clone(d.wish.offers)
	if !s.wish.hasAny() {
		for i := range s.wish.offers {
			s.wish.offers[i].on = true
		}
	}
	s.add("Until (such as 2h or 2026-01-31T18:00:00Z; empty: as long as permitted)", s.wish.until, func(w *wish, t string) { w.until = t })
	s.add("Number of later calls (empty: as many as permitted)", s.wish.uses, func(w *wish, t string) { w.uses = t })
	s.add("Budget (such as args.cents=10000; empty: none)", s.wish.budget, func(w *wish, t string) { w.budget = t })
	for i, o := range s.wish.offers {
		if o.on {
			label := fmt.Sprintf("Rule %d for %s (offered: %s; empty: every call)", i+1, reveal.Line(o.rule.ToolName), contentText(contentOf(o.rule)))
			s.add(label, o.content, func(w *wish, t string) { w.offers[i].content = t })
		}
	}
	return s
}

func contentText(content string) string {
	if content == "" {
		return "every call"
	}
	return reveal.Line(content)
}

func (s *termsScreen) add(label, value string, set func(*wish, string)) {
	f := termsField{label: label, set: set, in: newInput("> ", toolcall.MaxStandingBytes)}
	f.in.SetValue(scrub(value))
	f.in.Blur()
	s.fields = append(s.fields, f)
}

func (s *termsScreen) writes() {}

func (s *termsScreen) holds(k toolcall.Key) bool { return k == s.detail.request }

// stale says why the terms no longer apply.
func (s *termsScreen) stale(m *model) string {
	q := m.qs.get(s.detail.request)
	if q == nil || !q.open() || q.call.Digest != s.wish.digest {
		return "The request changed: go back to review it."
	}
	return ""
}

func (s *termsScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
	case s.stale(m) != "":
	case k.Type == tea.KeyCtrlS, k.Type == tea.KeyEnter && s.at == len(s.fields):
		s.done(m)
	case k.Type == tea.KeyEnter, k.Type == tea.KeyTab, k.Type == tea.KeyDown:
		return s.move(1)
	case k.Type == tea.KeyShiftTab, k.Type == tea.KeyUp:
		return s.move(-1)
	case s.at == 0:
		s.choose(k.String())
	default:
		return update(&s.fields[s.at-1].in, k)
	}
	return nil
}

func (s *termsScreen) move(d int) tea.Cmd {
	if s.at > 0 {
		s.fields[s.at-1].in.Blur()
	}
	s.at = max(0, min(len(s.fields), s.at+d))
	if s.at > 0 {
		return s.fields[s.at-1].in.Focus()
	}
	return nil
}

// choose takes the next scope, or the one before.
func (s *termsScreen) choose(key string) {
	all := s.wish.scopes()
	i := slices.Index(all, s.wish.scope)
	switch key {
	case " ", "right", "l":
		i++
	case "left", "h":
		i += len(all) - 1
	default:
		return
	}
	s.wish.scope = all[i%len(all)]
}

// done accepts the terms, if they are valid.
func (s *termsScreen) done(m *model) {
	for i := range s.fields {
		s.fields[i].set(&s.wish, strings.TrimSpace(s.fields[i].in.Value()))
	}
	if _, err := s.wish.terms(m.now); err != nil {
		m.say(m.out.Bad, "Cannot continue: %v", err)
		return
	}
	s.detail.wish = s.wish
	m.pop()
	m.say(m.out.Good, "Your approval creates this standing approval: a approves, 0 removes it.")
}

func (s *termsScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	title = "Standing approval"
	if bad := s.stale(m); bad != "" {
		return title, paintAll(m.out.Bad, wrap(bad, w)), "esc back"
	}
	line := func(i int, label string) {
		paint := m.out.Dim
		if i == s.at {
			paint = m.out.Bold
		}
		body = append(body, paintAll(paint, wrap(label, w))...)
	}
	at := 0 // the line on which the person writes
	line(0, "Scope: < "+string(s.wish.scope)+" > "+asked.Scope(s.wish.scope))
	for i := range s.fields {
		f := &s.fields[i]
		f.in.Width = max(1, w-4)
		line(i+1, f.label)
		body = append(body, f.in.View())
		if s.at == i+1 {
			at = len(body) - 1
		}
	}
	if text := s.wish.bounds(); text != "" {
		body = append(body, paintAll(m.out.Dim, wrap(text, w))...)
	}
	if s.at == 0 {
		keys = "space next scope  down next field  ctrl+s done  esc back"
	} else {
		keys = "enter next  up previous  ctrl+s done  esc back"
	}
	return title, body[max(0, min(at-h+2, len(body)-h)):], keys
}
