package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/toolcall"
)

// checkInput checks new arguments that were read.
func checkInput(text string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if err := asked.CheckInput(text); err != nil {
		return "", usagef("%w", err)
	}
	return text, nil
}

// openEditor returns what the person makes of the text. If path is not "", that file has it: the
// caller removes its folder.
func openEditor(ctx context.Context, text string) (edited, path string, err error) {
	dir, err := os.MkdirTemp("", "askance-edit-")
	if err != nil {
		return "", "", fmt.Errorf("edit: %w", err)
	}
	defer func() {
		if path == "" {
			_ = os.RemoveAll(dir) // the system cleans its temporary folder
		}
	}()
	file := filepath.Join(dir, "input.json")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return "", "", fmt.Errorf("edit: %w", err)
	}
	argv := editor()
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("edit: the editor %s: %w", argv[0], err)
	}
	b, err := textfile.Read("edit", file, toolcall.MaxInputBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if err == nil && string(b) == text+"\n" {
		return "", "", errors.New("edit: the arguments did not change, so no response was sent; askance approve approves them as they are")
	}
	return string(b), file, err
}

// keepWritten keeps what the person wrote in the editor if no response was accepted.
func (d *responding) keepWritten(err error) {
	switch {
	case d.written == "":
	case err == nil:
		_ = os.RemoveAll(filepath.Dir(d.written)) // the system cleans its temporary folder
	default:
		d.env.notef("Your text is in %s: correct it and pass --args @%[1]s.\n", term.ShellWord(d.written))
	}
}

func editor() []string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if argv := strings.Fields(os.Getenv(name)); len(argv) > 0 {
			return argv
		}
	}
	return []string{"vi"}
}

func diffText(on *term.Out, lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		paint := on.Dim
		switch l[0] {
		case '-':
			paint = on.Bad
		case '+':
			paint = on.Good
		}
		b.WriteString(paint(term.Safe(l)) + "\n")
	}
	return b.String()
}
