package cli

import (
	"context"
	"errors"
	"os"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

// errAborted says that a person left a question without answering.
var errAborted = errors.New("left without an answer")

// runForm asks a person. It ends when ctx does, because somebody else answered.
func (env *environment) runForm(ctx context.Context, fields ...huh.Field) error {
	f := huh.NewForm(huh.NewGroup(fields...)).
		WithInput(env.in).WithOutput(env.err).WithShowHelp(true).
		WithAccessible(os.Getenv("ACCESSIBLE") != "")
	if os.Getenv("NO_COLOR") != "" {
		f = f.WithTheme(huh.ThemeBase())
	}
	err := f.RunWithContext(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, huh.ErrUserAborted):
		return errAborted
	}
	return err
}

// confirm asks for a yes or no; no is what is chosen at first.
func (env *environment) confirm(ctx context.Context, title string) (bool, error) {
	var yes bool
	err := env.runForm(ctx, huh.NewConfirm().Title(term.SafeLine(title)).Affirmative("Yes").Negative("No").Value(&yes))
	return yes, err
}
