package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textarea"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// composeScreen asks for the text of a response: feedback, a result, a name or a
// note. Every draft gets the same text.
type composeScreen struct {
	drafts []*draftResponse
	bulk   *bulkScreen // that it belongs to, or nil
	fields []field[toolcall.Response]
	at     int
	area   *textarea.Model // instead of fields, for a result
}

// field is an input line for a part of T.
type field[T any] struct {
	label string
	must  bool
	set   func(*T, string)
	in    textinput.Model
}

func newField[T any](label string, limit int, set func(*T, string)) field[T] {
	f := field[T]{label: label, set: set, in: newInput("> ", limit)}
	f.in.Blur()
	return f
}

func newCompose(drafts []*draftResponse) *composeScreen {
	s := &composeScreen{drafts: drafts}
	add := func(label string, set func(*toolcall.Response, string)) {
		s.fields = append(s.fields, newField(label, toolcall.MaxTextBytes/4, set))
	}
	switch kind := drafts[0].response.Kind; kind {
	case toolcall.ResponseRespond:
		a := newArea(toolcall.MaxOutputBytes / 4)
		s.area = &a
		return s
	case toolcall.ResponseDelegate, toolcall.ResponseSkip:
		if kind == toolcall.ResponseDelegate {
			add("Delegate to", func(resp *toolcall.Response, t string) { resp.To = t })
			s.fields[0].must = true
		}
		add("Note for the next approver (optional)", func(resp *toolcall.Response, t string) { resp.Note = t })
	default:
		add("Feedback for the model (optional)", func(resp *toolcall.Response, t string) { resp.Feedback = t })
	}
	s.fields[0].in.Focus()
	return s
}

func (s *composeScreen) writes() {}

func (s *composeScreen) holds(k toolcall.Key) bool {
	return slices.ContainsFunc(s.drafts, func(d *draftResponse) bool { return d.call.Key == k })
}

// stale says why a single draft can no longer be sent.
func (s *composeScreen) stale(m *model) string {
	if s.bulk != nil {
		return "" // each is checked when it is sent
	}
	return s.drafts[0].stale(m)
}

func (s *composeScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
		return nil
	case s.stale(m) != "":
		return nil
	case s.area != nil && k.Type == tea.KeyCtrlS && strings.TrimSpace(s.area.Value()) == "":
		m.say(m.out.Bad, "The result is empty: enter the text for the model.")
		return nil
	case s.area != nil && k.Type == tea.KeyCtrlS:
		for _, d := range s.drafts {
			d.response.Output = s.area.Value()
		}
		return s.done(m)
	case s.area != nil:
		return updateArea(s.area, k)
	case k.Type == tea.KeyEnter:
		return s.next(m)
	}
	return update(&s.fields[s.at].in, k)
}

func (s *composeScreen) next(m *model) tea.Cmd {
	f := &s.fields[s.at]
	text := strings.TrimSpace(f.in.Value())
	if text == "" && f.must {
		m.say(m.out.Bad, "%s: enter a value.", f.label)
		return nil
	}
	for _, d := range s.drafts {
		f.set(&d.response, text)
	}
	if s.at < len(s.fields)-1 {
		return s.write(s.at + 1)
	}
	s.write(0) // for a person who comes back
	return s.done(m)
}

// write puts the cursor into a field.
func (s *composeScreen) write(at int) tea.Cmd {
	s.fields[s.at].in.Blur()
	s.at = at
	return s.fields[at].in.Focus()
}

// done sends to several requests, or opens the confirmation, from which esc leads back to the text.
func (s *composeScreen) done(m *model) tea.Cmd {
	if s.bulk != nil {
		m.pop()
		return s.bulk.sendAll(m, s.drafts)
	}
	m.push(newConfirm(s.drafts[0]))
	return nil
}

func (s *composeScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	d := s.drafts[0]
	title = asked.Verb(d.response) + ": " + reveal.Line(d.call.Tool) + "  " + reveal.MarkedName(string(d.call.Call))
	if s.bulk != nil {
		title = asked.Verb(d.response) + ": " + asked.Count(len(s.drafts), "request")
	}
	if bad := s.stale(m); bad != "" {
		return title, []string{m.out.Bad(bad)}, "esc back"
	}
	if s.area != nil {
		s.area.SetWidth(w)
		s.area.SetHeight(max(1, h-1))
		body = append(body, m.out.Dim("Result for the model. Nothing runs."))
		return title, append(body, strings.Split(s.area.View(), "\n")...), "ctrl+s continue  esc back"
	}
	for i := range s.fields {
		f := &s.fields[i]
		f.in.Width = max(1, w-4)
		body = append(body, m.out.Dim(f.label), f.in.View(), "")
	}
	return title, body, "enter continue  esc back"
}

// newInput returns an input line. Its cursor does not blink: the screen changes only
// when something happened.
func newInput(prompt string, limit int) textinput.Model {
	in := textinput.New()
	in.Prompt, in.CharLimit = prompt, limit
	in.PromptStyle, in.TextStyle, in.Cursor.Style = lipgloss.NewStyle(), lipgloss.NewStyle(), lipgloss.NewStyle().Reverse(true)
	in.Cursor.SetMode(cursor.CursorStatic)
	in.Focus()
	return in
}

func newArea(limit int) textarea.Model {
	a := textarea.New()
	a.Prompt, a.CharLimit, a.ShowLineNumbers, a.MaxHeight = "│ ", limit, false, 0
	plain := textarea.Style{}
	a.FocusedStyle, a.BlurredStyle = plain, plain
	a.Cursor.SetMode(cursor.CursorStatic)
	a.Focus()
	return a
}

// update passes a key to an input, and removes pasted characters that would not be visible.
func update(in *textinput.Model, k tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	*in, cmd = in.Update(k)
	if v, clean := in.Value(), scrub(in.Value()); v != clean {
		at := in.Position()
		in.SetValue(clean)
		in.SetCursor(min(at, utf8.RuneCountInString(clean)))
	}
	return cmd
}

func updateArea(a *textarea.Model, k tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	*a, cmd = a.Update(k)
	if v, clean := a.Value(), scrub(a.Value()); v != clean {
		a.SetValue(clean)
	}
	return cmd
}

// scrub removes control characters and invisible characters.
func scrub(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && reveal.Invisible(r) {
			return -1
		}
		return r
	}, s)
}

const editFile = "input.json"

// edit opens the arguments in the person's editor, which has the terminal until it ends.
func (m *model) edit(d *draftResponse) tea.Cmd {
	if strictjson.Check([]byte(d.call.Input), strictjson.MaxBytes(toolcall.MaxInputBytes)) != nil {
		m.say(m.out.Bad, "The arguments are not valid JSON, so you cannot edit them.")
		return nil
	}
	dir, err := os.MkdirTemp("", "askance-edit-")
	if err != nil {
		m.say(m.out.Bad, "edit: %v", err)
		return nil
	}
	given := cmp.Or(m.edits[d.call.Digest], asked.Editable(d.call.Input)) + "\n"
	path := filepath.Join(dir, editFile)
	if err := os.WriteFile(path, []byte(given), 0o600); err != nil {
		m.say(m.out.Bad, "edit: %v", errors.Join(err, os.RemoveAll(dir)))
		return nil
	}
	argv := m.cfg.Editor
	cmd := exec.CommandContext(m.ctx, argv[0], append(argv[1:len(argv):len(argv)], path)...)
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		return replyMsg(func(m *model) tea.Cmd { return tea.Batch(tea.EnableMouseCellMotion, m.takeEdited(d, dir, err)) })
	})
}

// takeEdited opens the confirmation of what the person wrote, and asks for a preview.
func (m *model) takeEdited(d *draftResponse, dir string, failed error) tea.Cmd {
	defer func() { _ = os.RemoveAll(dir) }() // the system cleans its temporary folder
	text, err := readEdited(d, dir, failed)
	if err == nil {
		m.edits[d.call.Digest] = text
		if err = asked.CheckInput(text); err != nil {
			err = fmt.Errorf("press e to open your text again: %w", err)
		}
	}
	if err != nil {
		m.say(m.out.Bad, "%v", err)
		return nil
	}
	d.response.Input = &text
	m.push(newConfirm(d))
	return d.askPreview(m)
}

func readEdited(d *draftResponse, dir string, failed error) (string, error) {
	if failed != nil {
		return "", fmt.Errorf("the editor failed: %w", failed)
	}
	b, err := os.ReadFile(filepath.Join(dir, editFile))
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == strings.TrimSpace(asked.Editable(d.call.Input)) {
		return "", errors.New("the arguments did not change; press a to approve them as they are")
	}
	return text, nil
}
