package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/permission"
)

// reloadEvery is how often rule files are looked at.
const reloadEvery = time.Second

// policy is the policy in force, and how it is kept up to date.
type policy struct {
	engine.Policy
	live *permission.Live // nil: there are no rule files
}

// PolicyOptions are those that an engine with these tools loads its policy with.
// Whatever judges a policy beforehand must use the same.
func PolicyOptions(tools []toolfile.Tool) permission.Options {
	opts := permission.Options{AllowUnknownTools: len(tools) == 0, Enforced: engine.Duties()}
	for _, t := range tools {
		opts.Tools = append(opts.Tools, t.Tool.Tool)
	}
	return opts
}

// loadPolicy reads the rule files. Without any, every call that is not declared
// read-only asks a person.
func loadPolicy(ctx context.Context, paths []string, tools []toolfile.Tool, log *slog.Logger) (policy, error) {
	opts := PolicyOptions(tools)
	if len(paths) == 0 {
		b, err := permission.Compile(permission.Policy{}, opts)
		return policy{Policy: b}, err
	}
	live, err := permission.NewLive(permission.Paths(paths...), permission.LiveOptions{
		Options: opts,
		Alarm: func(err error) {
			if err != nil {
				log.Error("the policy is refused, the last good one stays in force", "error", err)
			}
		},
		Loaded: func(b *permission.Bundle) { log.Info("policy loaded", "rules", b.Rules(), "hash", b.Hash()) },
	})
	if err != nil {
		return policy{}, err
	}
	if err := live.Reload(ctx); err != nil {
		return policy{}, err
	}
	return policy{Policy: live, live: live}, nil
}

// watch reloads until ctx ends.
func (p policy) watch(ctx context.Context, log *slog.Logger) {
	if p.live == nil {
		return
	}
	if err := p.live.Watch(ctx, reloadEvery); err != nil && !errors.Is(err, context.Cause(ctx)) {
		log.Error("the policy is not watched any more", "error", err)
	}
}

// Rules is the number of rules in force; -1 if there are no rule files.
func (p policy) rules() int {
	if p.live == nil {
		return -1
	}
	return p.live.Bundle().Rules()
}

func (p policy) loadError() error {
	if p.live == nil {
		return nil
	}
	return p.live.Err()
}
