package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/summary"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

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
	maxOpen      int
	maxRunning   int
	version      string
	policyErr    func() error
	notReady     func() error
	policyStatus func() (api.PolicyStatusReply, error)
	proofs       Proofs
	snapshots    Snapshots // nil: none are kept
	policyText   func(bundle string) (api.PolicyTextReply, bool, error)
	observers    []func(Written)
	newTrace     func(toolcall.Key) toolcall.Trace
}

// Option changes an engine's configuration. The constructor reports bad ones.
type Option func(*config) error

func newConfig(opts []Option) (config, error) {
	cfg := config{log: slog.New(slog.DiscardHandler), grace: time.Second, drain: 10 * time.Second, keep: 4096, maxOpen: defaultMaxOpen, maxRunning: defaultMaxRunning, version: "devel", signals: noSignals{}, executor: noExecutor{}, proofs: noProofs{}}
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

// How much work an engine takes on, see WithMaxOpen and WithMaxRunning.
const (
	defaultMaxOpen    = 250_000
	defaultMaxRunning = 4096
)

// WithMaxOpen sets how many calls of the space can be open: above it new calls are
// refused with CodeOverloaded, because each open call takes memory. A proposal is taken
// whole. Several engines can exceed it by what each records. The default is 250,000; 0: no limit.
func WithMaxOpen(calls int) Option {
	return func(c *config) error {
		if calls < 0 {
			return fmt.Errorf("limit of %d open calls must not be negative", calls)
		}
		c.maxOpen = calls
		return nil
	}
}

// WithMaxRunning sets how many local calls can run here: above it new calls are refused
// with CodeOverloaded, but not those that running calls make. The default is 4096; 0: no limit.
func WithMaxRunning(calls int) Option {
	return func(c *config) error {
		if calls < 0 {
			return fmt.Errorf("limit of %d running calls must not be negative", calls)
		}
		c.maxRunning = calls
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

// WithReadiness gives Info why the journal takes no new calls now, if it does not. It
// must answer at once.
func WithReadiness(f func() error) Option {
	return func(c *config) error { c.notReady = f; return nil }
}

// WithPolicyStatus gives PolicyStatus what the policy has to say; without it, the reply
// names the policy in force and nothing else.
func WithPolicyStatus(f func() (api.PolicyStatusReply, error)) Option {
	return func(c *config) error { c.policyStatus = f; return nil }
}

// WithPolicyText gives PolicyText the text of the policies that are or were in force; ""
// names the one in force, and false says that there is none. Without it there is none.
func WithPolicyText(f func(bundle string) (api.PolicyTextReply, bool, error)) Option {
	return func(c *config) error { c.policyText = f; return nil }
}

// Proofs proves what a journal has; bus.Proofs implements it.
type Proofs interface {
	// ProofStatus says how far the journal is signed; with verify, it begins to verify it.
	ProofStatus(ctx context.Context, verify bool) (api.ProofStatusReply, error)
	// MakeReceipt makes the receipt of a call, without what rules redact.
	MakeReceipt(ctx context.Context, key toolcall.Key) ([]byte, error)
	// CheckReceipt gives its verdict about a receipt.
	CheckReceipt(receipt []byte) (api.CheckReceiptReply, error)
}

// WithSnapshots lets the engine begin where a snapshot ends, and keep one.
func WithSnapshots(s Snapshots) Option {
	return func(c *config) error { c.snapshots = s; return nil }
}

// WithProofs gives the engine what proves its journal; without it, nothing is proved.
func WithProofs(p Proofs) Option {
	return func(c *config) error { c.proofs = p; return nil }
}

// noProofs is the Proofs of an engine without checkpoints.
type noProofs struct{}

var errNoProofs = &message.Error{Code: message.CodeUnavailable, What: "this engine signs no checkpoints", Hint: "use a server of askance serve"}

func (noProofs) ProofStatus(context.Context, bool) (api.ProofStatusReply, error) {
	return api.ProofStatusReply{}, errNoProofs
}

func (noProofs) MakeReceipt(context.Context, toolcall.Key) ([]byte, error) { return nil, errNoProofs }

func (noProofs) CheckReceipt([]byte) (api.CheckReceiptReply, error) {
	return api.CheckReceiptReply{}, errNoProofs
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

// Directory knows which groups people are in. Groups is called from many
// goroutines, with a principal that a transport has authenticated, when an
// approval request can be answered by groups, and when rules may read the groups of
// a requester; it must return soon after ctx ends. An error, or an answer after ctx
// ended, means no groups: the person may still answer as themselves.
type Directory interface {
	Groups(ctx context.Context, by toolcall.Principal) (Membership, error)
}

// Membership is a person's groups, and where they come from: it is kept with
// the vote or the call. Without groups and source it is not known. No group has an
// empty name.
type Membership struct {
	Groups []string
	Source string // such as "file" or "oidc"
}

// StaticDirectory has the groups of each person by name. It must not be
// changed while an engine uses it.
type StaticDirectory map[string][]string

// Groups implements Directory.
func (d StaticDirectory) Groups(_ context.Context, by toolcall.Principal) (Membership, error) {
	return Membership{Groups: d[by.Name], Source: "static"}, nil
}

// WithDirectory sets who knows the groups of people. Without one no person is in
// any group.
func WithDirectory(d Directory) Option {
	return func(c *config) error {
		if d == nil {
			return errors.New("directory is nil")
		}
		c.directory = d
		return nil
	}
}

// maxRequesterGroups bounds the groups that records of a call carry, in bytes.
const maxRequesterGroups = 8 << 10

// noteRequester notes the groups of the requester with their calls where rules may
// read them. Rules that need groups which are not known fail closed.
func (c *core) noteRequester(ctx context.Context, by toolcall.Principal, calls []*toolcall.Call) {
	if !c.policy.ReadsGroups() {
		return
	}
	groups, source, err := c.groupsOf(ctx, by)
	size := 0
	for _, g := range groups {
		size += len(g)
	}
	switch {
	case err != nil || source == "" && len(groups) == 0: // no directory, and no credentials that name groups
		return
	case size > maxRequesterGroups:
		c.log.Warn("the requester is in too many groups for conditions on groups", "by", by.String(), "bytes", size, "limit", maxRequesterGroups)
		return
	}
	for _, call := range calls {
		call.Requester = &toolcall.Requester{Groups: append([]string{}, groups...), From: source}
	}
}

// directoryTime is how long a directory may take.
const directoryTime = 2 * time.Second

// groupsOf asks the directory; a failure there gives no groups.
func (c *core) groupsOf(ctx context.Context, by toolcall.Principal) (groups []string, source string, err error) {
	if c.cfg.directory == nil {
		return nil, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, directoryTime)
	defer cancel()
	m, err := c.cfg.directory.Groups(ctx, by)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.log.Warn("the groups of a person are not known", "by", by.String(), "error", err)
		return nil, "", err
	}
	groups = slices.DeleteFunc(slices.Clone(m.Groups), func(g string) bool { return g == "" })
	slices.Sort(groups)
	return slices.Compact(groups), m.Source, nil
}

// Tool is what the engine knows of a tool. The zero values of the durations
// mean the defaults named at each.
type Tool struct {
	permission.Tool // name, schema, annotations and the tool's own check

	Description string
	// Summary is the template of what a call does, such as "Refund {cents} cents of order
	// {order}"; see [CheckSummary]. "": its kind and arguments tell.
	Summary   string
	Placement toolcall.Placement // default local
	// ConcurrencySafe tools of one proposal run independently; the others run
	// serially, as AgentScope does it.
	ConcurrencySafe bool

	Lease        time.Duration // an owner silent for so long counts as dead; default 10 s, at least MinLease
	Timeout      time.Duration // longest run of one attempt; 0: none
	OfferTimeout time.Duration // an unstarted item is offered again after this; default 10 min
	QueueTimeout time.Duration // unstarted for so long, the call is handed to a person; 0: waits for ever
	MaxAttempts  int           // of an idempotent tool, then it is a dead letter; default 3
	Backoff      time.Duration // before attempt 2; doubles with each further one; default 1 s
}

// Defaults of Tool.
const (
	DefaultLease        = 10 * time.Second
	DefaultOfferTimeout = 10 * time.Minute
	DefaultMaxAttempts  = 3
	DefaultBackoff      = time.Second

	// MinLease is the shortest lease: an engine notices its own pauses from 200 ms
	// on, and the owner beats four times in a lease.
	MinLease = toolcall.MinLease

	maxOfferTimeout = 6 * time.Hour
	maxBackoff      = 5 * time.Minute
)

// CheckSummary refuses a template that names an argument which the schema does not
// declare, or that cannot be read. "" is no template.
func CheckSummary(text string, s *permission.Schema) error {
	if text == "" {
		return nil
	}
	_, err := summary.Parse(text, s)
	return err
}

// CheckLease refuses a lease that heartbeats cannot keep. Zero is the default.
func CheckLease(lease time.Duration) error {
	if lease > 0 && lease < MinLease {
		return fmt.Errorf("the lease %s is too short for heartbeats to keep it; use %s or more", lease, MinLease)
	}
	return nil
}

func (t Tool) withDefaults() Tool {
	if t.Placement == "" {
		t.Placement = toolcall.PlaceLocal
	}
	if t.Lease <= 0 {
		t.Lease = DefaultLease
	}
	if t.OfferTimeout <= 0 {
		t.OfferTimeout = DefaultOfferTimeout
	}
	if t.MaxAttempts <= 0 {
		t.MaxAttempts = DefaultMaxAttempts
	}
	if t.Backoff <= 0 {
		t.Backoff = DefaultBackoff
	}
	return t
}

// offerFor grows with each fruitless offer, so that a call that waits for days
// writes few event records.
func (t Tool) offerFor(offers int) time.Duration {
	return schedule.Double(t.OfferTimeout, offers, max(t.OfferTimeout, maxOfferTimeout))
}

// backoffAfter is the pause before the attempt after number n.
func (t Tool) backoffAfter(n int) time.Duration {
	return schedule.Double(t.Backoff, n-1, max(t.Backoff, maxBackoff))
}

// heartbeatInterval is how often an owner is asked to give a sign of life: three may
// be lost before the lease is.
func heartbeatInterval(lease time.Duration) time.Duration { return max(lease/4, time.Millisecond) }
