package inbox

import (
	"context"
	"errors"
	"io"
	"sync"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

// Config says whose inbox it is. Engine, Who, In and Out are required.
type Config struct {
	Engine Engine
	Hints  Hints // nil: the list is asked for now and then
	// Who answers, as the engine knows them.
	Who   string
	Space message.SpaceID
	// Session, if set, leaves the questions of all others out.
	Session message.SessionID
	// Editor is the command that opens a file for editing.
	Editor []string
	// Signer signs approvals; nil: they go unsigned.
	Signer *Signer
	// In and Out are a terminal.
	In  io.Reader
	Out *term.Out
}

// Run shows the inbox until the person leaves or ctx ends, whose cause it
// returns then.
func Run(ctx context.Context, cfg Config) error {
	feeding, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	var p *tea.Program
	f := newFeed(cfg, func(m tea.Msg) { p.Send(m) })
	p = tea.NewProgram(newModel(feeding, cfg, f),
		tea.WithContext(ctx), tea.WithAltScreen(), tea.WithInput(cfg.In), tea.WithOutput(cfg.Out.Writer), tea.WithoutSignalHandler())
	wg.Go(func() { f.run(feeding) })
	_, err := p.Run()
	if ctx.Err() != nil && (err == nil || errors.Is(err, tea.ErrProgramKilled)) {
		return context.Cause(ctx)
	}
	return err
}
