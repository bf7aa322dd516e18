package inbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// editedMsg: the editor has ended.
type editedMsg struct {
	draft *draftAnswer
	dir   string
	given string // what the editor was given
	err   error
}

// editFile is the file that the editor gets.
const editFile = "input.json"

// edit opens the arguments in the person's editor. The inbox leaves the
// terminal to it meanwhile.
func (m *model) edit(d *draftAnswer) tea.Cmd {
	if strictjson.Check([]byte(d.call.Input), strictjson.MaxBytes(message.MaxInputBytes)) != nil {
		m.say(m.out.Bad, "The arguments are no JSON that can be edited.")
		return nil
	}
	dir, err := os.MkdirTemp("", "askance-edit-")
	if err != nil {
		m.say(m.out.Bad, "edit: %v", err)
		return nil
	}
	given := asked.Editable(d.call.Input) + "\n"
	path := filepath.Join(dir, editFile)
	if err := os.WriteFile(path, []byte(given), 0o600); err != nil {
		m.say(m.out.Bad, "edit: %v", errors.Join(err, os.RemoveAll(dir)))
		return nil
	}
	argv := m.cfg.Editor
	cmd := exec.CommandContext(m.ctx, argv[0], append(argv[1:len(argv):len(argv)], path)...)
	return tea.ExecProcess(cmd, func(err error) tea.Msg { return editedMsg{d, dir, given, err} })
}

// edited takes what the person wrote to where it can be compared and sent.
func (m *model) edited(e editedMsg) tea.Cmd {
	defer func() { _ = os.RemoveAll(e.dir) }() // in the system's folder for such things
	text, err := e.result()
	if err != nil {
		m.say(m.out.Bad, "%v", err)
		return nil
	}
	e.draft.answer.Input = &text
	m.push(newConfirm(e.draft))
	return nil
}

func (e editedMsg) result() (string, error) {
	if e.err != nil {
		return "", fmt.Errorf("the editor failed: %w", e.err)
	}
	b, err := os.ReadFile(filepath.Join(e.dir, editFile))
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == strings.TrimSpace(e.given) {
		return "", errors.New("nothing was changed: a approves it as it is")
	}
	return text, asked.CheckInput(text)
}
