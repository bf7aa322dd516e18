package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// There is one space, and one person.
const (
	space = toolcall.SpaceID("default")
	you   = "you"
)

//go:embed policy.yaml
var rules []byte

// house is everything except the model: a journal, a policy, tools and an engine.
type house struct {
	engine  *engine.Engine
	journal *journal.Journal
	tools   []engine.Tool
	log     *slog.Logger
	close   []func()
}

// openHouse opens the journal and starts the engine.
func openHouse(ctx context.Context, o options) (_ *house, err error) {
	h := &house{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if err := h.openJournal(ctx, o.data); err != nil {
		return nil, err
	}
	if h.tools, err = tools(); err != nil {
		return nil, err
	}
	policy, err := loadPolicy(o.policy, h.tools)
	if err != nil {
		return nil, err
	}
	var local executor.Registry
	if err := register(&local, o.workspace); err != nil {
		return nil, err
	}
	if h.engine, err = engine.New(space, h.journal, policy, h.tools, engine.WithExecutor(&local), engine.WithLogger(h.log)); err != nil {
		return nil, err
	}
	h.close = append(h.close, func() { _ = h.engine.Close() }) // always nil
	return h, h.engine.Start(ctx)
}

func (h *house) openJournal(ctx context.Context, dir string) error {
	if dir == "" {
		temp, err := os.MkdirTemp("", "openai-agent-")
		if err != nil {
			return err
		}
		dir = temp
		h.close = append(h.close, func() { _ = os.RemoveAll(temp) }) // it is only temporary
	}
	server, err := embed.Start(ctx, embed.Options{StoreDir: filepath.Join(dir, "journal"), Logger: h.log})
	if err != nil {
		return err
	}
	h.close = append(h.close, server.Close)
	anchorFile := filepath.Join(dir, "anchor")
	keys, err := journal.LoadOrCreateSpaceKeys(filepath.Join(dir, "engine.key"), anchorFile)
	if err != nil {
		return err
	}
	anchor, err := journal.OpenAnchor(anchorFile, space, keys)
	if err != nil {
		return err
	}
	h.close = append(h.close, func() { _ = anchor.Close() }) // its content was already written
	nc, err := server.Connect(ctx, bus.ConnectOptions{Principal: creds.EngineName})
	if err != nil {
		return err
	}
	h.close = append(h.close, nc.Close)
	h.journal, err = journal.Open(ctx, nc, space, keys, journal.Options{Anchor: anchor})
	return err
}

func loadPolicy(path string, tools []engine.Tool) (*permission.Bundle, error) {
	file := permission.File{Name: "policy.yaml", Data: rules}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file = permission.File{Name: path, Data: data}
	}
	opts := permission.Options{Enforced: engine.Duties()}
	for _, t := range tools {
		opts.Tools = append(opts.Tools, t.Tool)
	}
	bundle, err := permission.Load([]permission.File{file}, opts)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return bundle, nil
}

// Close closes everything, in reverse order of opening.
func (h *house) Close() {
	for _, end := range slices.Backward(h.close) {
		end()
	}
}

func (h *house) as(p toolcall.Principal) engine.Client { return h.engine.As(p) }

func (h *house) toolNames() []string {
	var out []string
	for _, t := range h.tools {
		out = append(out, t.Name)
	}
	return out
}

// space returns the house as a space of the gateway.
func (h *house) space() *gateway.Space {
	return &gateway.Space{
		ID: space, As: h.as, Tools: h.tools,
		Watch: func(ctx context.Context, sink toolcall.Sink) error {
			head, err := h.journal.Head(ctx)
			if err != nil {
				return err
			}
			return h.journal.Watch(ctx, head, sink)
		},
	}
}
