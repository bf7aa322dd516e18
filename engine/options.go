package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
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

// Rememberer says for which calls a standing approval answers. Every Policy does.
type Rememberer interface {
	// Covers reports whether remembered allow rules cover a call; nil: they do.
	Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error
	// Values gives what a call has at each of the paths.
	Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error)
}

// Redactor says beforehand whether rules hide anything: then arguments that a
// runtime streams are not shown until their call is decided. Every Policy does.
type Redactor interface {
	// Redacts reports whether a rule in force may hide a part of arguments.
	Redacts() bool
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
	reviewers toolcall.ReviewerLimits
	signer    Signer

	approverKeys func() toolcall.ApproverKeys
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

func newConfig(opts []Option) (config, error) {
	cfg := config{log: slog.New(slog.DiscardHandler), grace: time.Second, drain: 10 * time.Second, keep: 4096, version: "devel", signals: noSignals{}, executor: noExecutor{}}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return cfg, err
		}
	}
	if cfg.id == "" {
		cfg.id = "eng_" + store.RandomHex(6)
	}
	if cfg.signer == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return cfg, fmt.Errorf("make a signing key: %w", err)
		}
		cfg.signer = oneKey(key)
	}
	return cfg, nil
}

// WithExecutor runs local tools. Without one no local call can start here.
func WithExecutor(x Executor) Option { return func(c *config) error { c.executor = x; return nil } }

// WithSignals sends hints, cancels and progress outside the journal.
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

// WithApproverKeys tells the engine with which keys approvers sign. f is called
// for every signed answer, from many goroutines, and must not block. Without it
// no signature can be checked, and none is accepted.
func WithApproverKeys(f func() toolcall.ApproverKeys) Option {
	return func(c *config) error {
		if f == nil {
			return errors.New("approver keys are nil")
		}
		c.approverKeys = f
		return nil
	}
}

// WithReviewerLimits bounds how much one reviewer answers and is given. An
// answer, or a proposal, over a limit is refused with CodeOverLimit and changes
// nothing. Each engine counts what it takes itself, and what others take as soon
// as it has read that in the journal.
func WithReviewerLimits(l toolcall.ReviewerLimits) Option {
	return func(c *config) error {
		c.reviewers = l
		return l.Validate()
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

// noSignals is the Signals of an engine without listeners.
type noSignals struct{}

func (noSignals) Hint(*toolcall.Call) {}

func (noSignals) Cancel(toolcall.Queue, string, toolcall.HeartbeatRequest, string) {}

func (noSignals) Beat(string, string, toolcall.HeartbeatRequest) {}

func (noSignals) Progress(*toolcall.Call, toolcall.ProgressRequest) {}

// noExecutor runs nothing.
type noExecutor struct{}

func (noExecutor) Has(string) bool { return false }

func (noExecutor) Run(_ context.Context, inv toolcall.Invocation, _ func(string)) message.ToolResultBlock {
	return message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultError,
		Output: message.Content{Text: "no executor"}}
}

// Signer has the keys that grants are signed with. Its methods are called from
// many goroutines and must not block.
type Signer interface {
	// SigningKey is the key that signs now.
	SigningKey() ed25519.PrivateKey
	// InForce reports whether grants of the key with this id are good: no worker may
	// start a call by any other grant.
	InForce(id string) bool
}

// oneKey is a Signer whose key never changes. Grants of other keys it leaves to
// the workers to judge.
type oneKey ed25519.PrivateKey

// SigningKey implements Signer.
func (k oneKey) SigningKey() ed25519.PrivateKey { return ed25519.PrivateKey(k) }

// InForce implements Signer.
func (oneKey) InForce(string) bool { return true }
