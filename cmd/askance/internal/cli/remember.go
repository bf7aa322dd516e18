package cli

import (
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/message"
)

// memory is what an approval wants remembered.
type memory struct {
	remember     bool
	scope, until string
	uses         int
	budget       string
	rules        []string
	cmd          *cobra.Command // whose flags they are
}

func (m *memory) flags(c *cobra.Command) {
	m.cmd = c
	f := c.Flags()
	f.BoolVar(&m.remember, "remember", false, "remember the offered rules, for the session unless told otherwise")
	f.StringVar(&m.scope, "scope", "session", "for which calls: call_like, session, agent, user or space")
	f.StringVar(&m.until, "until", "", "when it ends: a duration from now, as 2h, or a time, as 2026-01-31T18:00:00Z")
	f.IntVar(&m.uses, "uses", 0, "for how many further calls; 0: as many as the policy lets it")
	f.StringVar(&m.budget, "budget", "", "what the further calls may add up to, as args.cents=10000")
	f.StringArrayVar(&m.rules, "rule", nil, "the content of a rule instead of those that are offered, narrower than one of them; can be repeated")
}

// into completes an approval. Offered rules without terms go the way that every
// AgentScope client has; with an edit they are those of the edited call, which
// only the engine knows.
func (m *memory) into(answer *message.Answer, call *message.Call, now time.Time) error {
	named := slices.ContainsFunc([]string{"scope", "until", "uses", "budget", "rule"}, m.cmd.Flags().Changed)
	switch {
	case !m.remember && named:
		return usagef("--scope, --until, --uses, --budget and --rule say how to remember: give --remember as well")
	case !m.remember:
		return nil
	case !named && answer.Input == nil && (call.Question == nil || call.Question.Requirement.Remember == nil):
		answer.Rules = call.Suggested
		return nil
	}
	t := message.LeaseTerms{Uses: m.uses}
	var err error
	if t.Scope, err = terms.Scope(m.scope); err != nil {
		return usagef("--scope %w", err)
	}
	if t.Until, err = terms.Until(m.until, now); err != nil {
		return usagef("--until %w", err)
	}
	if t.Budget, err = terms.Budget(m.budget); err != nil {
		return usagef("--budget %w", err)
	}
	for _, content := range m.rules {
		t.Rules = append(t.Rules, terms.Allow(call.Tool, content))
	}
	answer.Remember = &t
	return nil
}

// signing is how an approver signs.
type signing struct {
	cfg   *config
	lasts time.Duration
}

func (s *signing) flags(c *cobra.Command) {
	s.cfg.bind(c, &s.cfg.SignKey)
	c.Flags().DurationVar(&s.lasts, "sign-for", 24*time.Hour, "how long the signature is good: no worker starts the call after that")
}

// signer signs approvals with the key that was named.
type signer struct {
	key   ed25519.PrivateKey
	as    string
	lasts time.Duration
}

// load reads the key, once; nil if none was named.
func (s *signing) load() (*signer, error) {
	if s.cfg.SignKey == "" {
		return nil, nil //nolint:nilnil // nobody asked for a signature
	}
	if s.lasts <= 0 {
		return nil, usagef("--sign-for must be positive")
	}
	key, err := bus.LoadApproverKey(s.cfg.SignKey)
	if err != nil {
		return nil, err
	}
	return &signer{key, s.cfg.As, s.lasts}, nil
}

// keyID names the key, as lists of approvers have it.
func (s *signer) keyID() string { return message.KeyID(s.key.Public().(ed25519.PublicKey)) }

// sign signs the approval of the question that was shown. The digest is computed
// here, from what was shown, and not taken from anybody.
func (s *signer) sign(call *message.Call, now time.Time) (*message.ApproverSignature, error) {
	digest, err := call.Question.Digest()
	if err != nil {
		return nil, err
	}
	if digest != call.Digest || call.Question.Key != call.Key || call.Question.Tool != call.Tool {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "sign", What: "the question that was shown is not the one that its digest names", Hint: "do not approve it, and tell whoever runs the engine"}
	}
	return message.SignApproval(*call.Question, s.as, now.Add(s.lasts), s.key)
}
