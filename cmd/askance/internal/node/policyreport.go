package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/permission"
)

// reportEvery is how often it is logged that rules fail, that rules which only
// warn or audit match, or that the shadow policy differs, where there is
// something new to say.
const reportEvery = time.Minute

// reporter knows what has been said.
type reporter struct {
	log               *slog.Logger
	failed, watched   map[string]uint64
	failures, differs uint64
}

// report logs until ctx ends, and once more then.
func (p policy) report(ctx context.Context, log *slog.Logger) {
	r := reporter{log: log, failed: map[string]uint64{}, watched: map[string]uint64{}}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.say(p.live.Status())
			return
		case <-tick.C:
			r.say(p.live.Status())
		}
	}
}

func (r *reporter) say(s permission.Status) {
	for _, rule := range s.ByRule {
		if n := rule.Failed - min(rule.Failed, r.failed[rule.Rule]); n > 0 {
			r.log.Warn("a rule could not be evaluated and fell to the closed side", "rule", rule.Rule, "times", n, "bundle", s.Bundle)
		}
		if n := rule.Watched - min(rule.Watched, r.watched[rule.Rule]); n > 0 {
			r.log.Warn("a rule that does not decide yet matched", "rule", rule.Rule, "times", n, "bundle", s.Bundle)
		}
		r.failed[rule.Rule], r.watched[rule.Rule] = rule.Failed, rule.Watched
	}
	if s.Failures > r.failures {
		r.log.Warn("calls could not be evaluated", "times", s.Failures-r.failures, "hint", "their input is broken or does not fit the tool's schema, or a tool's own check failed")
	}
	r.failures = s.Failures
	if s.Shadow == nil {
		return
	}
	if s.Shadow.Differing < r.differs {
		r.differs = 0 // compared anew
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
