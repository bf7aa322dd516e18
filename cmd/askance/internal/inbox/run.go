// Package inbox is the terminal inbox: the open approval requests of a space on one
// screen, live, and everything that a person can say to one.
//
// Run shows it until the person leaves. What is shown follows from three
// things: hints say that something happened, queries say what is true, and a
// clock moves the times. A lost hint costs seconds, never truth: the list is
// asked for again and again, and no approval request leaves the screen before the
// engine was asked what became of it.
//
// # What an answer stands for
//
// An answer names the digest of the approval request that was on the screen. Before
// one is sent, the inbox computes the digest from the very approval request that it
// shows and refuses to send if the engine named another. An approval can be
// sent only after the last line of the approval request was on the screen. An approval request
// that somebody else has resolved, or that is asked anew, is never answered from
// an old screen: the screen says who did what, and the engine would refuse it
// by its digest.
//
// # What an approval lets remember
//
// Offered rules can be ticked, and edited before they are accepted: narrowed,
// for fewer or more calls, until a time, for a number of uses, up to a sum.
// What is sent stands on the last screen before it. What is remembered has a
// list of its own, which lives as well and takes a rule back.
//
// # What reaches the terminal
//
// Everything that comes from agents, tools and other people passes through
// package reveal: no control sequence, no turned text, no dead letter in disguise.
// The editor gets such characters as JSON escapes.
//
// # Parts
//
// approval requests is the state, and pure. feed keeps it up to date from goroutines of
// its own, which send messages to the program's loop. Each screen (list,
// detail, terms, compose, confirm, walk, leases, lease) is a type with an update and a view; they lie
// on a stack. Everything but the feed runs on one goroutine.
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
	// Session, if set, leaves the approval requests of all others out.
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
