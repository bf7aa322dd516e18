package node

import (
	"context"
	"fmt"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/toolcall"
)

func (n *Node) openEngine(ctx context.Context) error {
	opts := []engine.Option{
		engine.WithSigner(n.signing), engine.WithLogger(n.cfg.Log), engine.WithVersion(n.cfg.Version),
		engine.WithPolicyError(n.policy.loadError), engine.WithSignals(n.signals()),
		engine.WithWorkingDirs(n.cfg.Cwd, n.cfg.WorkingDirs...), engine.WithReminders(n.cfg.Remind),
		engine.WithReviewerLimits(n.cfg.Reviewers),
	}
	groups := gateway.Directory{} // what the log-ins of people over HTTP say of them
	if n.people != nil {
		groups.Next = n.people
		opts = append(opts, engine.WithApproverKeys(n.people.ApproverKeys))
	}
	opts = append(opts, engine.WithDirectory(groups))
	if n.cfg.Mode != "" {
		opts = append(opts, engine.WithMode(n.cfg.Mode))
	}
	if !n.cfg.Offline {
		opts = append(opts, engine.WithExecutor(n.cfg.Local))
	}
	var err error
	if n.engine, err = engine.New(n.cfg.Space, n.journal, n.policy.Policy, n.tools, opts...); err != nil {
		return err
	}
	n.journal.Reserve(n.engine.Owed)
	n.onClose(n.engine.Close)
	return n.engine.Start(ctx)
}

// engineTools gives the engine's tools, and the local ones that are commands a
// handler.
func (n *Node) engineTools() ([]engine.Tool, error) {
	if n.cfg.Local == nil {
		n.cfg.Local = new(executor.Registry)
	}
	out := make([]engine.Tool, 0, len(n.cfg.Tools))
	for _, t := range n.cfg.Tools {
		out = append(out, t.Tool)
		switch {
		case n.cfg.Offline || t.Placement != toolcall.PlaceLocal:
		case len(t.Command) > 0:
			h, err := executor.Command{Argv: t.Command}.Handler()
			if err == nil {
				err = n.cfg.Local.Register(t.Name, h)
			}
			if err != nil {
				return nil, fmt.Errorf("tool %s: %w", t.Name, err)
			}
		case !n.cfg.Local.Has(t.Name):
			n.cfg.Log.Warn("nothing here can run a local tool: its calls wait until an engine that can", "tool", t.Name, "hint", "give it a command in the tools file")
		}
	}
	return out, nil
}
