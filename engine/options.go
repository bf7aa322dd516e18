package engine

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Policy decides about calls. *permission.Bundle and *permission.Live are
// policies. Decide must never return allow for what it could not decide.
type Policy interface {
	Decide(ctx context.Context, r permission.Request) permission.Decision
	// Denied reports whether a deny rule in force now is about the call: asked
	// again before a call that was allowed under an older bundle begins.
	Denied(ctx context.Context, r permission.Request) (permission.Decision, bool)
	// Hash is the content hash of the bundle in force.
	Hash() string

	// What else the engine needs to know is part of every policy: a wrapper that
	// left one of these out would show what is to be hidden, or forget what holds
	// a standing approval back.
	Rememberer
	Redactor
	Explainer
}

// Explainer tells how a decision comes about.
type Explainer interface {
	// Explain decides about a call as Decide does and gives the reasons, rule by
	// rule. What rules redact of the arguments is not in it.
	Explain(ctx context.Context, r permission.Request) *permission.Explanation
}

type config struct {
	id        string
	executor  Executor
	signals   Signals
	directory Directory
	remind    time.Duration
	reviewers message.ReviewerLimits
	signer    Signer

	approverKeys func() message.ApproverKeys
	log          *slog.Logger
	mode         permission.Mode
	cwd          string
	dirs         []string
	grace        time.Duration
	drain        time.Duration
	keep         int
	version      string
	policyErr    func() error
}

// Option changes an engine's configuration. The constructor reports bad ones.
type Option func(*config) error

// WithExecutor runs local tools. Without one no local call can start here.
func WithExecutor(x Executor) Option { return func(c *config) error { c.executor = x; return nil } }

// WithSignals sends hints, cancels and progress beside the journal.
func WithSignals(s Signals) Option { return func(c *config) error { c.signals = s; return nil } }

// WithSigningKey signs the grants of remote calls. Without a key an engine
// makes one of its own, which only workers that are given Engine.PublicKey
// will trust.
func WithSigningKey(key ed25519.PrivateKey) Option {
	return func(c *config) error {
		if len(key) != ed25519.PrivateKeySize {
			return fmt.Errorf("signing key has %d bytes, want %d", len(key), ed25519.PrivateKeySize)
		}
		c.signer = oneKey(key)
		return nil
	}
}

// WithSigner signs the grants of remote calls with keys that may change while
// the engine runs. Call Engine.Renew when one of them is not good any more.
func WithSigner(s Signer) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("signer is nil")
		}
		c.signer = s
		return nil
	}
}

// WithLogger sets where the engine reports; the default discards.
func WithLogger(l *slog.Logger) Option { return func(c *config) error { c.log = l; return nil } }

// WithMode sets the permission mode of all calls; the default is the mode of
// the bundle.
func WithMode(m permission.Mode) Option {
	return func(c *config) error {
		mode, err := permission.ParseMode(string(m))
		c.mode = mode
		return err
	}
}

// WithWorkingDirs sets the process directory and the working directories that
// file tools' rules are about.
func WithWorkingDirs(cwd string, dirs ...string) Option {
	return func(c *config) error { c.cwd, c.dirs = cwd, dirs; return nil }
}

// WithGrace sets how long a step that another replica owes may be late before
// this one takes it; the default is 1 s.
func WithGrace(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("grace %s must be positive", d)
		}
		c.grace = d
		return nil
	}
}

// WithKeep sets how many finished calls are kept in memory; the default is
// 4096. What is forgotten is read from the journal when it is asked for.
func WithKeep(calls int) Option {
	return func(c *config) error {
		if calls < 0 {
			return fmt.Errorf("keep %d must not be negative", calls)
		}
		c.keep = calls
		return nil
	}
}

// WithReminders repeats the hint of an open approval request about which nothing was
// said for so long, again and again; 0, the default, never does. A reminder has
// the sequence of the hint before it.
func WithReminders(every time.Duration) Option {
	return func(c *config) error {
		if every < 0 {
			return fmt.Errorf("reminders every %s: must not be negative", every)
		}
		c.remind = every
		return nil
	}
}

// WithDrain sets how long Close waits for running local calls before it
// cancels them; the default is 10 s.
func WithDrain(d time.Duration) Option { return func(c *config) error { c.drain = d; return nil } }

// WithVersion is what Info reports as the program's version.
func WithVersion(v string) Option { return func(c *config) error { c.version = v; return nil } }

// WithPolicyError gives Info the present load error of the policy, if any.
func WithPolicyError(f func() error) Option {
	return func(c *config) error { c.policyErr = f; return nil }
}
