package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

type sources []permission.Source

// Read implements permission.Source.
func (s sources) Read(ctx context.Context) ([]permission.File, error) {
	var all []permission.File
	for _, source := range s {
		files, err := source.Read(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// Ignored returns the files that the sources found in folders and did not read.
func (s sources) Ignored() []permission.Notice {
	var all []permission.Notice
	for _, source := range s {
		if paths, ok := source.(*permission.PathSource); ok {
			all = append(all, paths.Ignored()...)
		}
	}
	return all
}

type inBucket struct{ bucket *bus.PolicyBucket }

// Read implements permission.Source.
func (b inBucket) Read(ctx context.Context) ([]permission.File, error) {
	found, err := b.bucket.Read(ctx)
	if err != nil {
		return nil, err
	}
	files := make([]permission.File, len(found))
	for i, f := range found {
		files[i] = permission.File{Name: b.bucket.Name() + "/" + f.Name, Data: f.Data}
	}
	return files, nil
}

// follow loads the bucket as soon as its changes come to rest, without waiting for the next poll.
func (p policy) follow(ctx context.Context, log *slog.Logger) {
	changed := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- p.bucket.Follow(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // a change is already announced
			}
		})
	}()
	err := whenAtRest(changed, ended, func() {
		_ = p.live.Reload(ctx) // the alarm logs the error, and the status has it
	})
	if !errors.Is(err, context.Cause(ctx)) {
		log.Warn("changes of the policy bucket are found only by polling", "error", err)
	}
}

// whenAtRest calls load after each series of changes, once no change has come for
// resolveFor. It returns the error of ended.
func whenAtRest(changed <-chan struct{}, ended <-chan error, load func()) error {
	rest := time.NewTimer(resolveFor)
	defer rest.Stop()
	rest.Stop()
	for {
		select {
		case <-changed:
			rest.Reset(resolveFor)
		case <-rest.C:
			load()
		case err := <-ended:
			return err
		}
	}
}

// prepared resolves the paths in the input of calls that run on this machine, before
// the policy decides about them, because the policy reads no files.
type prepared struct {
	*permission.Live
	schemas map[string]*permission.Schema
}

func localSchemas(tools []toolfile.Tool) map[string]*permission.Schema {
	out := map[string]*permission.Schema{}
	for _, t := range tools {
		if t.Placement == toolcall.PlaceLocal && t.Schema != nil {
			out[t.Name] = t.Schema
		}
	}
	return out
}

// Decide implements engine.Policy.
func (p prepared) Decide(ctx context.Context, r permission.Request) permission.Decision {
	return p.Live.Decide(ctx, p.resolve(ctx, r))
}

// Denied implements engine.Policy.
func (p prepared) Denied(ctx context.Context, r permission.Request) (permission.Decision, bool) {
	return p.Live.Denied(ctx, p.resolve(ctx, r))
}

// Covers implements engine.Rememberer.
func (p prepared) Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error {
	return p.Live.Covers(ctx, p.resolve(ctx, r), rules)
}

// Values implements engine.Rememberer.
func (p prepared) Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error) {
	return p.Live.Values(ctx, p.resolve(ctx, r), paths)
}

// Explain implements engine.Explainer.
func (p prepared) Explain(ctx context.Context, r permission.Request) *permission.Explanation {
	return p.Live.Explain(ctx, p.resolve(ctx, r))
}

// resolve does not change a request that rules route to workers: they run it on another
// machine, with other symbolic links.
func (p prepared) resolve(ctx context.Context, r permission.Request) permission.Request {
	s := p.schemas[r.Tool]
	if s == nil {
		return r
	}
	here := r
	here.WorkingDirs = slices.Clone(r.WorkingDirs)
	here.Resolve(s)
	if here.Resolved != nil && p.Bundle().Decide(ctx, here).Executor.Subject != "" {
		return r
	}
	return here
}
