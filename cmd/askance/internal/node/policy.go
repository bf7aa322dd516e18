package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const reloadEvery = time.Second

// watchTools logs that the tools file no longer has the text that the engine read at its start: other
// commands explain and check with the new one.
func watchTools(ctx context.Context, path string, first []byte, log *slog.Logger) {
	files := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			log.Warn(err.Error(), "file", path)
		}
	}}
	files.Watch(ctx, reloadEvery, func(context.Context) error {
		now, err := textfile.Read("tools file", path, textfile.MaxBytes)
		if err == nil && !bytes.Equal(now, first) {
			return errors.New("the tools file has changed: restart askance serve to use it")
		}
		return err
	})
}

// resolveFor is how long a bucket must be unchanged before its rules are loaded:
// files that are put one after the other belong together.
const resolveFor = 250 * time.Millisecond

type policy struct {
	engine.Policy
	live   *permission.Live      // nil: there are no rule files
	bucket *journal.PolicyBucket // nil: there is none
	files  bool                  // there are rule files next to the bucket
}

// PolicyOptions returns the options with which an engine with these tools loads its
// policy. Checks of a policy before it is in force must use the same.
func PolicyOptions(tools []toolfile.Tool) permission.Options {
	opts := permission.Options{AllowUnknownTools: len(tools) == 0, Enforced: engine.Duties()}
	for _, t := range tools {
		opts.Tools = append(opts.Tools, t.Tool.Tool)
	}
	return opts
}

// loadPolicy reads the rule files. Without any, every call that is not declared
// read-only asks a person. A bucket may still be empty, or have an invalid policy, when
// an engine starts: rules reach it through that engine's server. Until it has a valid
// one, everything except read-only tools is denied.
func loadPolicy(ctx context.Context, cfg *Config, conn *nats.Conn) (policy, error) {
	log, opts := cfg.Log, PolicyOptions(cfg.Tools)
	if len(cfg.Policy) == 0 && !cfg.PolicyBucket {
		if len(cfg.Shadow) > 0 {
			return policy{}, errors.New("a shadow policy needs a policy in force to compare it with")
		}
		b, err := permission.Compile(permission.Policy{}, opts)
		return policy{Policy: b}, err
	}
	var sources sources
	var bucket *journal.PolicyBucket
	if len(cfg.Policy) > 0 {
		sources = append(sources, permission.Paths(cfg.Policy...))
	}
	if cfg.PolicyBucket {
		var err error
		if bucket, err = journal.OpenPolicyBucket(ctx, conn, cfg.Space, journal.PolicyBucketOptions{Replicas: cfg.Replicas}); err != nil {
			return policy{}, err
		}
		sources = append(sources, inBucket{bucket})
	}
	var shadow permission.Source
	if len(cfg.Shadow) > 0 {
		shadow = permission.Paths(cfg.Shadow...)
	}
	var good atomic.Bool // a policy has been in force
	live, err := permission.NewLive(sources, permission.LiveOptions{
		Options: opts, Shadow: shadow,
		Alarm: func(err error) { alarm(log, err, good.Load(), bucket == nil) },
		Loaded: func(b *permission.Bundle) {
			level, what := slog.LevelInfo, "policy loaded"
			if good.Swap(true) { // people who change a file want to see that it counts
				level, what = slog.LevelWarn, "the policy has changed and is in force"
			}
			log.Log(ctx, level, what, "rules", b.Rules(), "hash", b.Hash())
			for _, n := range sources.Ignored() {
				log.Warn("a file in a policy folder is not read", "file", n.File, "notice", n.Text)
			}
			for _, n := range b.Notices() {
				log.Warn("a rule may mean less than its author expects", "rule", n.Rule, "tool", n.Tool, "file", n.File, "line", n.Line, "notice", n.Text)
			}
		},
	})
	if err != nil {
		return policy{}, err
	}
	if err := live.Reload(ctx); err != nil && bucket == nil {
		return policy{}, err
	}
	return policy{Policy: prepared{live, localSchemas(cfg.Tools)}, live: live, bucket: bucket, files: len(cfg.Policy) > 0}, nil
}

// keepHistory stores the versions of the policy beyond this process. No decision reads them.
func (p policy) keepHistory(ctx context.Context, dir string, log *slog.Logger) {
	if p.live != nil {
		p.live.KeepHistory(ctx, dir, func(err error) {
			log.Warn("the history of the policy is incomplete; decisions do not depend on it", "error", err)
		})
	}
}

// readPolicy loads the policy, unless a bucket has a part of it: then it only parses the files.
func readPolicy(ctx context.Context, cfg *Config) (p policy, err error) {
	if !cfg.PolicyBucket {
		return loadPolicy(ctx, cfg, nil)
	}
	if len(cfg.Policy) == 0 {
		return p, nil
	}
	files, err := permission.Paths(cfg.Policy...).Read(ctx)
	if err != nil {
		return p, err
	}
	_, err = permission.Parse(files...)
	return p, err
}

// alarm logs the error of a reload. good: a policy is in force. fatal: the engine does
// not start without one, and its caller gets the error.
func alarm(log *slog.Logger, err error, good, fatal bool) {
	_, shadow := errors.AsType[*permission.ShadowError](err)
	switch {
	case err == nil && good:
		log.Warn("the policy is valid again")
	case shadow:
		log.Error("the shadow policy is refused; the policy in force is not affected", "error", err)
	case err != nil && good:
		log.Error("the policy is refused; the last good one stays in force", "error", err)
	case err != nil && !fatal:
		log.Error("the policy is refused; everything except read-only tools is denied until there is a good one", "error", err)
	}
}

// watch reloads until ctx ends.
func (p policy) watch(ctx context.Context, log *slog.Logger) {
	if p.live == nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { p.report(watching, log) })
	if p.bucket != nil {
		wg.Go(func() { p.follow(watching, log) })
	}
	if err := p.live.Watch(ctx, reloadEvery); err != nil && !errors.Is(err, context.Cause(ctx)) {
		log.Error("the policy is no longer watched", "error", err)
	}
}

// status returns the status of the policy; without rule files, only what is in force.
func (p policy) status() api.PolicyStatusReply {
	if p.live == nil {
		return api.PolicyStatusReply{Bundle: p.Hash(), Files: []api.PolicyFile{}, Ignored: []string{}, Versions: []api.PolicyVersion{}, ByRule: []api.PolicyRuleCount{}}
	}
	return p.live.Status()
}

func (p policy) text(bundle string) (api.PolicyTextReply, bool) {
	if p.live == nil {
		return api.PolicyTextReply{}, false
	}
	return p.live.Text(bundle)
}

// reportEvery is how often new failures of rules, new matches of rules that only warn
// or audit, and new differences of the shadow policy are logged.
const reportEvery = time.Minute

// reporter has the counts that were logged.
type reporter struct {
	log               *slog.Logger
	failed, watched   map[string]uint64
	failures, differs uint64
}

// report logs until ctx ends, and once more at the end.
func (p policy) report(ctx context.Context, log *slog.Logger) {
	r := reporter{log: log, failed: map[string]uint64{}, watched: map[string]uint64{}}
	for range gateway.Every(ctx, reportEvery) {
		r.say(p.live.Status())
	}
	r.say(p.live.Status())
}

func (r *reporter) say(s api.PolicyStatusReply) {
	for _, rule := range s.ByRule {
		if n := rule.Failed - min(rule.Failed, r.failed[rule.Rule]); n > 0 {
			r.log.Warn("a rule could not be evaluated and failed closed", "rule", rule.Rule, "times", n, "bundle", s.Bundle)
		}
		if n := rule.Watched - min(rule.Watched, r.watched[rule.Rule]); n > 0 {
			r.log.Warn("a rule that does not decide yet matched", "rule", rule.Rule, "times", n, "bundle", s.Bundle)
		}
		r.failed[rule.Rule], r.watched[rule.Rule] = rule.Failed, rule.Watched
	}
	if s.Failures > r.failures {
		r.log.Warn("calls could not be evaluated", "times", s.Failures-r.failures, "hint", "their input is invalid or does not match the tool's schema, or a tool's own check failed")
	}
	r.failures = s.Failures
	if s.Shadow == nil {
		return
	}
	if s.Shadow.Differing < r.differs {
		r.differs = 0 // a new comparison
	}
	if s.Shadow.Differing == r.differs {
		return
	}
	r.differs = s.Shadow.Differing
	r.log.Warn("the shadow policy differs", "calls", s.Shadow.Differing, "of", s.Shadow.Compared, "shadow", s.Shadow.Bundle)
	for _, d := range s.Shadow.Differences[:min(len(s.Shadow.Differences), 10)] {
		r.log.Warn("shadow difference", "tool", d.Tool, "mode", d.Mode, "calls", d.Count, "live", d.Live.Behavior, "live_rule", d.Live.Rule,
			"shadow", d.Shadow.Behavior, "shadow_rule", d.Shadow.Rule, "last_session", d.Session, "last_reply", d.Reply)
	}
}

type sources []permission.Source

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

type inBucket struct{ bucket *journal.PolicyBucket }

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
	err := whenAtRest(changed, ended, func() { p.loadBucket(ctx) })
	if !errors.Is(err, context.Cause(ctx)) {
		log.Warn("changes of the policy bucket are found only by polling", "error", err)
	}
}

// loadBucket loads the rules now, unless a rule file next to the bucket may be half written: the
// poll waits for that.
func (p policy) loadBucket(ctx context.Context) {
	if !p.files {
		_ = p.live.Reload(ctx) // the alarm logs the error, and the status has it
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

// prepared is an engine.Policy that resolves the paths in the input of calls that run on this
// machine, before the policy decides about them, because the policy reads no files.
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

func (p prepared) Decide(ctx context.Context, r permission.Request) permission.Decision {
	return p.Live.Decide(ctx, p.resolve(ctx, r))
}

func (p prepared) Denied(ctx context.Context, r permission.Request) (permission.Decision, bool) {
	return p.Live.Denied(ctx, p.resolve(ctx, r))
}

func (p prepared) Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error {
	return p.Live.Covers(ctx, p.resolve(ctx, r), rules)
}

func (p prepared) Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error) {
	return p.Live.Values(ctx, p.resolve(ctx, r), paths)
}

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
