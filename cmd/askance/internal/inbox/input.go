package inbox

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textarea"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/askance-dev/askance/internal/reveal"
)

// newInput is a line to write on. Its cursor does not blink: nothing moves on
// the screen that did not happen.
func newInput(prompt string, limit int) textinput.Model {
	in := textinput.New()
	in.Prompt, in.CharLimit = prompt, limit
	in.PromptStyle, in.TextStyle, in.Cursor.Style = lipgloss.NewStyle(), lipgloss.NewStyle(), lipgloss.NewStyle().Reverse(true)
	in.Cursor.SetMode(cursor.CursorStatic)
	in.Focus()
	return in
}

// newArea is a sheet to write on.
func newArea(limit int) textarea.Model {
	a := textarea.New()
	a.Prompt, a.CharLimit, a.ShowLineNumbers, a.MaxHeight = "│ ", limit, false, 0
	plain := textarea.Style{}
	a.FocusedStyle, a.BlurredStyle = plain, plain
	a.Cursor.SetMode(cursor.CursorStatic)
	a.Focus()
	return a
}

// update gives a key to an input, and takes out what was pasted and would not
// be seen.
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

// updateArea is update for a sheet.
func updateArea(a *textarea.Model, k tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	*a, cmd = a.Update(k)
	if v, clean := a.Value(), scrub(a.Value()); v != clean {
		a.SetValue(clean)
	}
	return cmd
}

// scrub takes out the characters that a terminal obeys or does not show.
func scrub(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && reveal.Invisible(r) {
			return -1
		}
		return r
	}, s)
}
