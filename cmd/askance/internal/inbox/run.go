// Package inbox is the terminal inbox: it shows the open approval requests of a
// space and sends the responses of one person.
//
// Run shows it until the person quits. Hints announce changes, queries read the
// state, and a clock moves the times. A lost hint costs seconds, never
// correctness: the inbox reads the list every few seconds, and asks the engine
// about a request before it removes the request from the screen.
//
// # Digest
//
// A response names the digest of the request on the screen. The inbox computes
// the digest from what it shows, and refuses to send if the engine named another
// one. It sends an approval only after the last line of the confirmation was on the
// screen. The engine refuses a response to a request that changed or that another
// person decided.
//
// # Lists
//
// Open calls are kept in memory, so that every tab, its counter and every action see the
// same rows: the filter, the order and the groups apply to all of them. Finished calls
// are asked for page by page.
//
// # Standing approvals
//
// A person can select offered rules, edit them, and limit the standing approval by
// scope, end, uses and budget. The confirmation shows exactly what is sent. A
// separate list shows and revokes standing approvals.
//
// # Safe output
//
// All text of agents, tools and other people passes through package reveal, which
// shows control sequences and deceptive characters by number. The editor gets such
// characters as JSON escapes.
//
// # Parts
//
// requests is the state, without side effects. feed updates it from its own
// goroutines, which send messages to the program's loop. Each screen (list, detail,
// terms, compose, confirm, bulk, resolve, standing approvals, explanation, help) is a type with an
// update and a view, on a stack. Everything except the feed runs on one goroutine.
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
	Hints  Hints // nil: the inbox only reads the list every few seconds
	// Preview decides about an edit before it is sent; nil: edits have no preview.
	Preview Preview
	// Resolve resolves a blocked call; nil: the person cannot resolve calls.
	Resolve Resolve
	// Who responds, as the engine knows them.
	Who string
	// Session, if set, is the only session that is shown.
	Session message.SessionID
	// Editor is the command that opens a file for editing.
	Editor []string
	// Signer signs approvals; nil: they go unsigned.
	Signer *Signer
	// In and Out are a terminal.
	In  io.Reader
	Out *term.Out
}

// ErrInterrupted says that the person left with ctrl+c.
var ErrInterrupted = tea.ErrInterrupted

// Run shows the inbox until the person leaves or ctx ends. It returns the cause of
// ctx if that ended, and ErrInterrupted after ctrl+c.
func Run(ctx context.Context, cfg Config) error {
	feeding, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	var p *tea.Program
	f := newFeed(cfg, func(m tea.Msg) { p.Send(m) })
	p = tea.NewProgram(newModel(feeding, cfg, f),
		tea.WithContext(ctx), tea.WithAltScreen(), tea.WithMouseCellMotion(), tea.WithInput(cfg.In), tea.WithOutput(cfg.Out.Writer), tea.WithoutSignalHandler())
	wg.Go(func() { f.run(feeding) })
	_, err := p.Run()
	if ctx.Err() != nil && (err == nil || errors.Is(err, tea.ErrProgramKilled)) {
		return context.Cause(ctx)
	}
	return err
}
