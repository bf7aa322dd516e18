package permission

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message/api"
)

// Live holds the policy in force and replaces it while calls are decided. A policy that cannot be
// read or compiled is refused as a whole, and the last good one stays in force. Before the first
// good one only tools declared read-only are allowed; everything else is denied.
//
// It can have a shadow policy, a candidate that decides nothing: calls that it would have decided
// differently are counted and listed in Status.
//
// All methods are safe for concurrent use. Decide and Denied never wait for a reload.
type Live struct {
	source  Source
	options LiveOptions
	current atomic.Pointer[Bundle]
	counts  counters
	shadow  *shadow // nil: none

	files  plainfile.Reloader
	tried  bool // the files of digest have been read, and compiled or refused; guarded by a reload
	digest [sha256.Size]byte
	// history is nil before KeepHistory; guarded by a reload.
	history *history

	mu       sync.Mutex // guards what follows
	inForce  []api.PolicyFile
	versions []version // the oldest first; the last one is in force if inForce is set
	loads    uint64
	refused  uint64
}

// LiveOptions are Options and callbacks for reloads.
type LiveOptions struct {
	Options
	// Alarm is called when a policy is refused, once for each different fault, and with nil when a
	// good policy ends the problem. It runs on the goroutine that reloads and must not reload
	// itself.
	Alarm func(error)
	// Loaded is called in the same way with each bundle that comes into force.
	Loaded func(*Bundle)
	// Shadow supplies the rule files of the shadow policy; nil means that there is none. It is
	// compiled against the same options, and reloaded and watched together with the live one. Its
	// faults go to Alarm as *ShadowError. Every decision then evaluates the rules of both.
	Shadow Source
}

// NewLive returns a Live without a policy. Call Reload before use. An error here is about the tools
// in the options.
func NewLive(source Source, options LiveOptions) (*Live, error) {
	options.Tools = slices.Clone(options.Tools) // our own copy: bundles compare its address
	none, err := noPolicy(options.Options)
	if err != nil {
		return nil, err
	}
	l := &Live{source: source, options: options, files: plainfile.Reloader{Report: options.Alarm}}
	l.current.Store(none)
	if options.Shadow != nil {
		l.shadow = newShadow(none, options)
	}
	return l, nil
}

// Bundle is the policy in force. It is never nil.
func (l *Live) Bundle() *Bundle { return l.current.Load() }

// Hash identifies the policy in force.
func (l *Live) Hash() string { return l.Bundle().Hash() }

// trial is the context key of [WithTrial].
type trial struct{}

// WithTrial marks decisions that are not those of a call, for instance for a preview: a Live
// neither counts them nor compares them with its shadow.
func WithTrial(ctx context.Context) context.Context { return context.WithValue(ctx, trial{}, true) }

// Decide decides by the policy in force. See Bundle.Decide.
func (l *Live) Decide(ctx context.Context, req Request) Decision {
	b := l.Bundle()
	d, read := b.decideAfter(ctx, &req, nil)
	if ctx.Value(trial{}) != nil {
		return d
	}
	l.counts.countDecision(&d)
	if l.shadow != nil {
		l.shadow.compare(ctx, b, &req, &d, read)
	}
	return d
}

// Denied evaluates the deny rules of the policy in force. See Bundle.Denied.
func (l *Live) Denied(ctx context.Context, req Request) (Decision, bool) {
	d, denied := l.Bundle().Denied(ctx, req)
	if denied {
		l.counts.countDecision(&d)
	}
	return d, denied
}

// Err says why the newest policy was refused; nil if it is in force.
func (l *Live) Err() error {
	_, err := l.files.Fault()
	return err
}

// Reload reads the source and puts its policy in force. On any error, usually a *LoadError, the
// last good policy stays. The shadow is also reloaded; its faults are not errors here.
func (l *Live) Reload(ctx context.Context) error {
	if l.shadow != nil {
		_ = l.shadow.live.Reload(ctx) // kept for Status
	}
	return l.files.Reload(ctx, func(ctx context.Context) error {
		files, err := l.source.Read(ctx)
		if err != nil {
			return l.recordUnreadable(err)
		}
		return l.loadFiles(files)
	})
}

// Watch checks the source every interval and loads changes until ctx ends; it then returns the
// cause. A change is loaded at the second check that finds it unchanged, so a file that is still
// being written is left alone.
func (l *Live) Watch(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return errors.New("watch policy: the interval must be positive")
	}
	l.files.Watch(ctx, interval, l.sourceCheck())
	return context.Cause(ctx)
}

func (l *Live) sourceCheck() func(context.Context) error {
	var seen [sha256.Size]byte
	checkShadow := func(context.Context) {}
	if l.shadow != nil {
		check := l.shadow.live.sourceCheck()
		checkShadow = func(ctx context.Context) { _ = l.shadow.live.files.Reload(ctx, check) } // kept for Status
	}
	return func(ctx context.Context) error {
		checkShadow(ctx)
		files, err := l.source.Read(ctx)
		if err != nil {
			seen = [sha256.Size]byte{}
			if ctx.Err() != nil {
				return err // the program is stopping, which is not a fault of the policy
			}
			return l.recordUnreadable(err)
		}
		before := seen
		seen = digestOf(files)
		if seen != before || l.tried && seen == l.digest {
			return l.Err()
		}
		return l.loadFiles(files)
	}
}

// loadFiles compiles files and swaps the bundle. It runs within a reload.
func (l *Live) loadFiles(files []File) error {
	b, err := Load(files, l.options.Options)
	l.digest, l.tried = digestOf(files), true
	if err != nil {
		l.countRefusal()
		return err
	}
	l.mu.Lock()
	l.counts.keepRules(l.current.Swap(b), b)
	l.inForce = describeFiles(files)
	l.loads++
	l.keepVersion(version{api.PolicyVersion{Bundle: b.Hash(), Rules: b.Rules(), Loaded: time.Now().UTC().Round(0)}, files})
	now := l.versions[len(l.versions)-1]
	l.mu.Unlock()
	if l.history != nil {
		l.history.write(now)
	}
	if l.options.Loaded != nil {
		l.options.Loaded(b)
	}
	return nil
}

// recordUnreadable keeps the last good policy and makes sure that the files are tried again as soon
// as they can be read, even if they have not changed. It runs within a reload.
func (l *Live) recordUnreadable(err error) error {
	l.tried = false
	l.countRefusal()
	return err
}

func (l *Live) countRefusal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

func digestOf(files []File) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range files {
		for _, part := range [][]byte{[]byte(f.Name), []byte(f.Layer), f.Data} {
			var n [8]byte
			binary.BigEndian.PutUint64(n[:], uint64(len(part)))
			h.Write(n[:])
			h.Write(part)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// Explain explains how the policy in force decides. See Bundle.Explain.
func (l *Live) Explain(ctx context.Context, req Request) *Explanation {
	return l.Bundle().Explain(ctx, req)
}

// Status returns a snapshot. Its parts may be a few decisions apart.
func (l *Live) Status() api.PolicyStatusReply {
	l.mu.Lock()
	b := l.Bundle()
	s := api.PolicyStatusReply{Bundle: b.Hash(), Rules: b.Rules(), ByRule: l.counts.snapshot(b), Ignored: []string{}, Versions: l.listVersions()}
	s.Calls, s.Failures = l.counts.calls.Load(), l.counts.other.Load() // a call is counted here first
	if len(s.Versions) > 0 {
		s.Loaded = s.Versions[0].Loaded
	}
	s.Loads, s.Refused, s.Files = l.loads, l.refused, append([]api.PolicyFile{}, l.inForce...)
	l.mu.Unlock()
	if since, err := l.files.Fault(); err != nil {
		s.Alarm, s.AlarmSince = strings.ToValidUTF8(err.Error(), "\uFFFD"), since // it may name a file
	}
	if source, ok := l.source.(interface{ Ignored() []Notice }); ok {
		for _, n := range source.Ignored() {
			s.Ignored = append(s.Ignored, n.String())
		}
	}
	if l.shadow != nil {
		s.Shadow = l.shadow.status(b)
	}
	return s
}

type counters struct {
	rules sync.Map // name to *counter
	calls atomic.Uint64
	other atomic.Uint64 // failures that belong to no single rule: bad input, a tool's check
}

type counter struct {
	since                    time.Time
	decided, watched, failed atomic.Uint64
}

func (c *counters) of(rule string) *counter {
	if found, ok := c.rules.Load(rule); ok {
		return asCounter(found)
	}
	found, _ := c.rules.LoadOrStore(rule, &counter{since: time.Now().UTC().Round(0)})
	return asCounter(found)
}

func asCounter(v any) *counter {
	c, ok := v.(*counter)
	if !ok {
		return new(counter) // cannot happen: the map holds nothing else
	}
	return c
}

func (c *counters) countDecision(d *Decision) {
	c.calls.Add(1)
	if d.Rule != "" {
		c.of(d.Rule).decided.Add(1)
	}
	for i := range d.Errors {
		if rule := d.Errors[i].Rule; rule == "" {
			c.other.Add(1)
		} else {
			c.of(rule).failed.Add(1)
		}
	}
	for i := range d.Watched {
		w := c.of(d.Watched[i].Rule)
		if d.Watched[i].Failed {
			w.failed.Add(1)
		} else {
			w.watched.Add(1)
		}
	}
}

// keepRules drops the counters of rules that are gone or changed, and starts those of new rules.
func (c *counters) keepRules(before, now *Bundle) {
	c.rules.Range(func(name, _ any) bool {
		if rule, _ := name.(string); rule != SessionRuleName && !now.isUnchanged(before, rule) {
			c.rules.Delete(name)
		}
		return true
	})
	for rule := range now.known {
		c.of(rule)
	}
}

func (c *counters) snapshot(b *Bundle) []api.PolicyRuleCount {
	out := []api.PolicyRuleCount{}
	c.rules.Range(func(name, v any) bool {
		n := asCounter(v)
		rule, _ := name.(string)
		k, known := b.known[rule]
		if !known && rule != SessionRuleName { // a decision by the bundle before ended late
			return true
		}
		out = append(out, api.PolicyRuleCount{Rule: rule, Behavior: k.behavior, File: k.place.File, Line: k.place.Line, Since: n.since,
			Decided: n.decided.Load(), Watched: n.watched.Load(), Failed: n.failed.Load()})
		return true
	})
	slices.SortFunc(out, func(a, b api.PolicyRuleCount) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}
