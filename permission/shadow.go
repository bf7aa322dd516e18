package permission

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission/internal/display"
)

// ShadowError is a fault of the shadow policy. It does not affect the live one.
type ShadowError struct{ Err error }

// Error says that the fault is the shadow policy's.
func (e *ShadowError) Error() string { return "shadow policy: " + e.Err.Error() }

// Unwrap returns the fault.
func (e *ShadowError) Unwrap() error { return e.Err }

// maxDifferences limits the list of kinds of differing verdicts. The total keeps counting beyond
// it.
const maxDifferences = 200

func verdictOf(d *Decision) api.PolicyVerdict {
	return api.PolicyVerdict{Behavior: d.Behavior, Step: string(d.Step), Rule: d.Rule}
}

type shadow struct {
	live *Live
	now  atomic.Pointer[comparison]
}

func newShadow(none *Bundle, options LiveOptions) *shadow {
	l := &Live{source: options.Shadow, options: LiveOptions{Options: options.Options}}
	l.current.Store(none)
	if alarm := options.Alarm; alarm != nil {
		l.files.Report = func(err error) {
			if err != nil {
				alarm(&ShadowError{Err: err})
			}
		}
	}
	return &shadow{live: l}
}

type comparison struct {
	live, shadow *Bundle
	compared     atomic.Uint64 // a differing call is counted here first

	mu                  sync.Mutex // guards what follows; taken on a difference only
	kinds               map[differenceKey]*api.PolicyDifference
	differing, unlisted uint64
}

type differenceKey struct {
	tool         string
	mode         Mode
	live, shadow api.PolicyVerdict
}

// of returns the comparison of the bundles, a new one if either bundle is new.
func (s *shadow) of(live, candidate *Bundle) *comparison {
	for {
		c := s.now.Load()
		if c != nil && c.live == live && c.shadow == candidate {
			return c
		}
		fresh := c.carryOver(live, candidate)
		if s.now.CompareAndSwap(c, fresh) {
			return fresh
		}
	}
}

// carryOver starts the comparison of two bundles with what is still valid from the previous one.
func (c *comparison) carryOver(live, candidate *Bundle) *comparison {
	fresh := &comparison{live: live, shadow: candidate, kinds: map[differenceKey]*api.PolicyDifference{}}
	if c == nil || !live.sharesRule(c.live) || !candidate.sharesRule(c.shadow) {
		return fresh
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh.compared.Store(c.compared.Load())
	for key, d := range c.kinds {
		// If the shadow decided without a rule, no rule of it matched; another shadow may have one
		// that does.
		byShadow := candidate.hash == c.shadow.hash || candidate.isUnchanged(c.shadow, key.shadow.Rule)
		if byShadow && (key.live.Rule == "" || live.isUnchanged(c.live, key.live.Rule)) {
			kept := *d
			fresh.kinds[key] = &kept
			fresh.differing += d.Count
		}
	}
	return fresh
}

// sharesRule reports whether the bundles are the same or have an unchanged rule in common.
func (b *Bundle) sharesRule(before *Bundle) bool {
	if b == before || b.hash == before.hash {
		return true
	}
	for rule := range b.known {
		if b.isUnchanged(before, rule) {
			return true
		}
	}
	return false
}

func (s *shadow) compare(ctx context.Context, live *Bundle, req *Request, d *Decision, read *evaluation) {
	candidate := s.live.Bundle()
	if candidate.noRules || live.noRules || ctx.Err() != nil {
		return // there is nothing to compare with
	}
	own, _ := candidate.decideAfter(ctx, req, read)
	if ctx.Err() != nil {
		return // the context decided then
	}
	c := s.of(live, candidate)
	c.compared.Add(1)
	if own.Behavior != d.Behavior {
		c.addDifference(req, d, &own)
	}
}

func (c *comparison) addDifference(req *Request, live, own *Decision) {
	key := differenceKey{tool: display.Quoted(req.Tool), mode: live.Mode, live: verdictOf(live), shadow: verdictOf(own)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.differing++
	diff := c.kinds[key]
	if diff == nil {
		if len(c.kinds) >= maxDifferences {
			c.unlisted++
			return
		}
		diff = &api.PolicyDifference{Tool: key.tool, Mode: key.mode, Live: key.live, Shadow: key.shadow}
		c.kinds[key] = diff
	}
	diff.Count++
	diff.Last, diff.Session, diff.Reply = req.Now, req.Caller.Session, req.Caller.Reply
}

func (s *shadow) status(live *Bundle) *api.ShadowPolicyStatus {
	b := s.live.Bundle()
	out := &api.ShadowPolicyStatus{Bundle: b.Hash(), Rules: b.Rules(), Differences: []api.PolicyDifference{}}
	if err := s.live.Err(); err != nil {
		out.Alarm = strings.ToValidUTF8(err.Error(), "\uFFFD")
	}
	if s.now.Load() == nil {
		return out
	}
	c := s.of(live, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Compared, out.Differing, out.Unlisted = c.compared.Load(), c.differing, c.unlisted
	for _, d := range c.kinds {
		out.Differences = append(out.Differences, *d)
	}
	slices.SortFunc(out.Differences, func(a, b api.PolicyDifference) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Mode, b.Mode),
			cmp.Compare(a.Live.Rule, b.Live.Rule), cmp.Compare(a.Shadow.Rule, b.Shadow.Rule), cmp.Compare(a.Live.Step, b.Live.Step),
			cmp.Compare(a.Shadow.Step, b.Shadow.Step))
	})
	return out
}
