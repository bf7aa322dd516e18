package engine

import (
	"cmp"
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
	lag          func() time.Duration // on a cluster
	drain        time.Duration
	keep         int
	maxOpen      int
	maxRunning   int
	version      string
	notReady     func() error
	policyStatus func() api.PolicyStatusReply
	proofs       Proofs
	snapshots    Snapshots // nil if none are kept
	policyText   func(bundle string) (api.PolicyTextReply, bool)
	observers    []func(Written)
	newTrace     func(toolcall.Key) toolcall.Trace
}

// Option changes an engine's configuration. New reports invalid options.
type Option func(*config) error

// setIf returns an option that sets a valid value, or fails with why.
func setIf(valid bool, why error, set func(*config)) Option {
	return func(c *config) error {
		if !valid {
			return why
		}
		set(c)
		return nil
	}
}

func newConfig(opts []Option) (config, error) {
	cfg := config{log: slog.New(slog.DiscardHandler), grace: time.Second, drain: 10 * time.Second, keep: 4096, maxOpen: 250_000, maxRunning: 4096, version: "devel", signals: noSignals{}, executor: noExecutor{}, lag: func() time.Duration { return 0 }, proofs: noProofs{}}
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

// WithExecutor sets what runs local tools. Without it no local call can start here.
func WithExecutor(x Executor) Option { return func(c *config) error { c.executor = x; return nil } }

// WithSignals sets what sends hints, cancels and progress outside the journal.
func WithSignals(s Signals) Option { return func(c *config) error { c.signals = s; return nil } }

// WithSigningKey sets the key that signs the grants of remote calls. Without one, the engine
// generates its own key, which only workers that are given Engine.PublicKey trust.
func WithSigningKey(key ed25519.PrivateKey) Option {
	return setIf(len(key) == ed25519.PrivateKeySize, fmt.Errorf("signing key has %d bytes, want %d", len(key), ed25519.PrivateKeySize), func(c *config) { c.signer = oneKey(key) })
}

// WithSigner is WithSigningKey for keys that may change while the engine runs. Call
// Engine.Renew when one of them is no longer valid.
func WithSigner(s Signer) Option {
	return setIf(s != nil, errors.New("signer is nil"), func(c *config) { c.signer = s })
}

// WithApproverKeys sets the keys with which approvers sign. f is called for every signed
// response, from many goroutines, and must not block. Without it no signature can be
// checked, and none is accepted.
func WithApproverKeys(f func() toolcall.ApproverKeys) Option {
	return setIf(f != nil, errors.New("approver keys are nil"), func(c *config) { c.approverKeys = f })
}

// WithReviewerLimits limits how many responses one reviewer may give and how many open
// requests one may have. A response or proposal over a limit is refused with CodeOverLimit
// and changes nothing. Each engine counts its own records at once, and those of others as
// soon as it has read them in the journal.
func WithReviewerLimits(l toolcall.ReviewerLimits) Option {
	return func(c *config) error {
		c.reviewers = l
		return l.Validate()
	}
}

// WithLogger sets the logger; by default nothing is logged.
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

// WithWorkingDirs sets the current directory and the working directories for the rules
// of file tools.
func WithWorkingDirs(cwd string, dirs ...string) Option {
	return func(c *config) error { c.cwd, c.dirs = cwd, dirs; return nil }
}

// WithGrace sets how long this engine waits for another replica to take a step before
// it takes the step itself; the default is 1 s.
func WithGrace(d time.Duration) Option {
	return setIf(d > 0, fmt.Errorf("grace %s must be positive", d), func(c *config) { c.grace = d })
}

// WithLag sets a function for how long a request waits for news of a call that it does not fit. On
// a cluster its sender may have learned of a later state from another engine, which was told
// earlier. The default, 0, is for journals that are never behind.
func WithLag(now func() time.Duration) Option {
	return setIf(now != nil, errors.New("lag is nil"), func(c *config) { c.lag = now })
}

// WithKeep sets how many finished calls are kept in memory; the default is 4096. Others
// are read from the journal when needed.
func WithKeep(calls int) Option {
	return setIf(calls >= 0, fmt.Errorf("keep %d must not be negative", calls), func(c *config) { c.keep = calls })
}

// WithMaxOpen sets how many calls of the space may be open. Beyond it new calls are refused
// with CodeOverloaded, because each open call takes memory. A proposal is accepted or refused
// as a whole. Several engines may together exceed the limit. The default is 250,000; 0 means no limit.
func WithMaxOpen(calls int) Option {
	return setIf(calls >= 0, fmt.Errorf("limit of %d open calls must not be negative", calls), func(c *config) { c.maxOpen = calls })
}

// WithMaxRunning sets how many local calls may run here. Beyond it new calls are refused with
// CodeOverloaded, except those that running calls make. The default is 4096; 0 means no limit.
func WithMaxRunning(calls int) Option {
	return setIf(calls >= 0, fmt.Errorf("limit of %d running calls must not be negative", calls), func(c *config) { c.maxRunning = calls })
}

// WithReminders repeats the hint of an open approval request whenever the request has not
// changed for this long; 0, the default, never does. A reminder has the same sequence as the
// hint before it.
func WithReminders(every time.Duration) Option {
	return setIf(every >= 0, fmt.Errorf("reminders every %s: must not be negative", every), func(c *config) { c.remind = every })
}

// WithDrain sets how long Close waits for running local calls before it
// cancels them; the default is 10 s.
func WithDrain(d time.Duration) Option { return func(c *config) error { c.drain = d; return nil } }

// WithVersion sets the program version that Info reports.
func WithVersion(v string) Option { return func(c *config) error { c.version = v; return nil } }

// WithReadiness lets Info report why the journal takes no new calls now, if it does not. f
// must return at once.
func WithReadiness(f func() error) Option {
	return func(c *config) error { c.notReady = f; return nil }
}

// WithPolicyStatus sets what answers PolicyStatus, and lets Info report its alarm; without it,
// the reply only names the policy in force.
func WithPolicyStatus(f func() api.PolicyStatusReply) Option {
	return func(c *config) error { c.policyStatus = f; return nil }
}

// WithPolicyText sets what answers PolicyText with the text of current and past policies. ""
// names the one in force, and false reports that there is none. Without f there is none.
func WithPolicyText(f func(bundle string) (api.PolicyTextReply, bool)) Option {
	return func(c *config) error { c.policyText = f; return nil }
}

// Proofs proves the contents of a journal; journal.Proofs implements it.
type Proofs interface {
	// ProofStatus reports how far the journal is signed; with verify, it starts verifying it.
	ProofStatus(ctx context.Context, verify bool) (api.ProofStatusReply, error)
	// MakeReceipt makes the receipt of a call, without what rules redact.
	MakeReceipt(ctx context.Context, key toolcall.Key) ([]byte, error)
	// CheckReceipt returns the verdict about a receipt.
	CheckReceipt(receipt []byte) (api.CheckReceiptReply, error)
}

// WithSnapshots lets the engine start from a snapshot, and keep one.
func WithSnapshots(s Snapshots) Option { return func(c *config) error { c.snapshots = s; return nil } }

// WithProofs sets what proves the journal; without it, nothing can be proved.
func WithProofs(p Proofs) Option { return func(c *config) error { c.proofs = p; return nil } }

// noProofs is the Proofs of an engine without checkpoints.
type noProofs struct{}

var errNoProofs = &message.Error{Code: message.CodeUnavailable, What: "this engine signs no checkpoints", Hint: "use an engine of askance serve"}

func (noProofs) ProofStatus(context.Context, bool) (api.ProofStatusReply, error) {
	return api.ProofStatusReply{}, errNoProofs
}

func (noProofs) MakeReceipt(context.Context, toolcall.Key) ([]byte, error) { return nil, errNoProofs }
func (noProofs) CheckReceipt([]byte) (api.CheckReceiptReply, error) {
	return api.CheckReceiptReply{}, errNoProofs
}

// noSignals is the Signals of an engine without listeners.
type noSignals struct{}

func (noSignals) Hint(*toolcall.Call)                                              {}
func (noSignals) Cancel(toolcall.Queue, string, toolcall.HeartbeatRequest, string) {}
func (noSignals) Beat(toolcall.Queue, string, toolcall.HeartbeatRequest)           {}
func (noSignals) Progress(*toolcall.Call, toolcall.ProgressRequest)                {}

// noExecutor is the Executor of an engine without local tools.
type noExecutor struct{}

func (noExecutor) Has(string) bool { return false }

func (noExecutor) Run(_ context.Context, inv toolcall.Invocation, _ func(string)) message.ToolResultBlock {
	return message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultError,
		Output: message.Content{Text: "no executor"}}
}

// Signer holds the keys that sign grants. Its methods are called from many goroutines
// and must not block.
type Signer interface {
	// SigningKey is the current signing key.
	SigningKey() ed25519.PrivateKey
	// HasRetired reports whether a key was retired: no call starts with its grants.
	HasRetired(id string) bool
}

// oneKey is a Signer whose key never changes.
type oneKey ed25519.PrivateKey

func (k oneKey) SigningKey() ed25519.PrivateKey { return ed25519.PrivateKey(k) }
func (oneKey) HasRetired(string) bool           { return false }

// Directory provides the groups of people. Groups is called from many goroutines, with a
// principal that a transport has authenticated, when groups may respond to an approval
// request or rules may read a requester's groups. It must return soon after ctx ends. An
// error, or a return after ctx ended, means no groups: the person may still respond
// individually.
type Directory interface {
	Groups(ctx context.Context, by toolcall.Principal) (Membership, error)
}

// Membership is a person's groups and their source, which are stored with the vote or
// the call. Without groups and source the membership is unknown. Groups with an empty
// name are ignored.
type Membership struct {
	Groups []string
	Source string // such as "file" or "oidc"
}

// StaticDirectory maps each person to their groups. It must not be changed while an
// engine uses it.
type StaticDirectory map[string][]string

// Groups implements Directory.
func (d StaticDirectory) Groups(_ context.Context, by toolcall.Principal) (Membership, error) {
	return Membership{Groups: d[by.Name], Source: "static"}, nil
}

// WithDirectory sets the source of people's groups. Without one, people are not in any
// group.
func WithDirectory(d Directory) Option {
	return setIf(d != nil, errors.New("directory is nil"), func(c *config) { c.directory = d })
}

// maxRequesterGroups bounds the groups that a call's records carry, in bytes.
const maxRequesterGroups = 8 << 10

// noteRequester stores the requester's groups with their calls if rules may read them.
// Rules that need unknown groups fail closed.
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
		c.log.Warn("the requester is in too many groups: conditions on groups cannot use them", "by", by.String(), "bytes", size, "limit", maxRequesterGroups)
		return
	}
	for _, call := range calls {
		call.Requester = &toolcall.Requester{Groups: append([]string{}, groups...), From: source}
	}
}

// directoryTime bounds one lookup in the directory.
const directoryTime = 2 * time.Second

// groupsOf asks the directory; if that fails, there are no groups.
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
		c.log.Warn("cannot look up the groups of a person", "by", by.String(), "error", err)
		return nil, "", err
	}
	groups = slices.DeleteFunc(slices.Clone(m.Groups), func(g string) bool { return g == "" })
	slices.Sort(groups)
	return slices.Compact(groups), m.Source, nil
}

// Tool is the configuration of a tool. Zero durations mean the defaults named at each
// field.
type Tool struct {
	permission.Tool // name, schema, annotations and the tool's own check

	Description string
	// Summary is the template that describes a call, such as "Refund {cents} cents of order
	// {order}"; see [CheckSummary]. If it is empty, kind and arguments describe the call.
	Summary   string
	Placement toolcall.Placement // default local
	// ConcurrencySafe tools of one proposal run independently; the others run serially,
	// as in AgentScope.
	ConcurrencySafe bool

	Lease        time.Duration // an owner that is silent for this long counts as dead; default 10 s, at least MinLease
	Timeout      time.Duration // longest run of one attempt; 0 means no limit
	OfferTimeout time.Duration // an unstarted task is offered again after this; default 10 min
	QueueTimeout time.Duration // a call unstarted for this long is blocked; 0 means that it waits forever
	MaxAttempts  int           // for an idempotent tool, before the call becomes a dead letter; default 3
	Backoff      time.Duration // before attempt 2; doubles for each further one; default 1 s
}

// Defaults of Tool.
const (
	DefaultLease        = 10 * time.Second
	DefaultOfferTimeout = 10 * time.Minute
	DefaultMaxAttempts  = 3
	DefaultBackoff      = time.Second

	// MinLease is the shortest lease: an engine notices its own pauses only from 200 ms,
	// and the owner sends four heartbeats per lease.
	MinLease = toolcall.MinLease

	maxOfferTimeout = 6 * time.Hour
	maxBackoff      = 5 * time.Minute
)

// CheckSummary refuses a template that cannot be parsed, or that names an argument which
// the schema does not declare. "" is no template.
func CheckSummary(text string, s *permission.Schema) error {
	if text == "" {
		return nil
	}
	_, err := summary.Parse(text, s)
	return err
}

// CheckLease refuses a lease too short for heartbeats. Zero means the default.
func CheckLease(lease time.Duration) error {
	if lease > 0 && lease < MinLease {
		return fmt.Errorf("the lease %s is too short for heartbeats; use %s or more", lease, MinLease)
	}
	return nil
}

func (t Tool) withDefaults() Tool {
	t.Placement = cmp.Or(t.Placement, toolcall.PlaceLocal)
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

// offerFor is how long an offer lasts. It grows with each fruitless offer, so that a call
// that waits for days writes few event records.
func (t Tool) offerFor(offers int) time.Duration {
	return schedule.Double(t.OfferTimeout, offers, max(t.OfferTimeout, maxOfferTimeout))
}

// backoffAfter is the pause after attempt n.
func (t Tool) backoffAfter(n int) time.Duration {
	return schedule.Double(t.Backoff, n-1, max(t.Backoff, maxBackoff))
}

// heartbeatInterval is how often an owner sends heartbeats: three may be lost before the
// lease is.
func heartbeatInterval(lease time.Duration) time.Duration { return max(lease/4, time.Millisecond) }
