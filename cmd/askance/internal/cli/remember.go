package cli

import (
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// memory is the standing approval that an approval asks for.
type memory struct {
	remember     bool
	scope, until string
	uses         int
	budget       string
	rules        []string
	cmd          *cobra.Command // whose flags they are

	named bool                   // a limit was given
	terms toolcall.StandingTerms // what check read
}

func (m *memory) flags() {
	f := m.cmd.Flags()
	f.BoolVar(&m.remember, "remember", false, "create a standing approval from the offered rules, for the session unless --scope says otherwise")
	f.StringVar(&m.scope, "scope", "session", "calls that the standing approval covers: call_like, session, agent, user or space")
	f.StringVar(&m.until, "until", "", "end of the standing approval: a duration from now, such as 2h, or a time, such as 2026-01-31T18:00:00Z")
	f.IntVar(&m.uses, "uses", 0, "number of later calls; 0: as many as the policy permits")
	f.StringVar(&m.budget, "budget", "", "limit for the sum of a field over the later calls, such as args.cents=10000")
	f.StringArrayVar(&m.rules, "rule", nil, "rule content that is narrower than one of the offered rules, to use instead of them; may be repeated")
}

// check reads the flags, without a call and before anything is shown or sent.
func (m *memory) check(now time.Time) error {
	m.named = slices.ContainsFunc([]string{"scope", "until", "uses", "budget", "rule"}, func(flag string) bool {
		f := m.cmd.Flags().Lookup(flag)
		return f != nil && f.Changed
	})
	if !m.remember && m.named {
		return usagef("--scope, --until, --uses, --budget and --rule limit a standing approval: pass --remember as well")
	}
	t := toolcall.StandingTerms{Uses: m.uses}
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
	m.terms = t
	return nil
}

// into adds the standing approval to a response. Offered rules without terms use the field
// that every AgentScope client has. Only the engine has the offered rules of an edited call.
func (m *memory) into(response *toolcall.Response, call *toolcall.Call) {
	switch {
	case !m.remember:
		return
	case !m.named && response.Input == nil && (call.Request == nil || call.Request.Requirement.Remember == nil):
		response.Rules = call.Suggested
		return
	}
	t := m.terms
	for _, content := range m.rules {
		t.Rules = append(t.Rules, terms.Allow(call.Tool, content))
	}
	response.Remember = &t
}

type signing struct {
	cfg   *config
	cmd   *cobra.Command // whose flags they are
	lasts time.Duration
}

func (s *signing) flags() {
	s.cfg.bind(s.cmd, &s.cfg.SignKey)
	durationVar(s.cmd.Flags(), &s.lasts, "sign-for", 24*time.Hour, "lifetime of the signature: no worker starts the call after it")
}

type signer struct {
	key   ed25519.PrivateKey
	as    string
	lasts time.Duration
}

// load reads the key; nil without --sign-key.
func (s *signing) load() (*signer, error) {
	if s.cfg.SignKey == "" {
		return nil, nil //nolint:nilnil // no signature was requested
	}
	if s.lasts <= 0 {
		return nil, usagef("--sign-for must be positive")
	}
	key, err := keyfile.LoadApproverKey(s.cfg.SignKey)
	if err != nil {
		return nil, err
	}
	return &signer{key, s.cfg.As, s.lasts}, nil
}

// keyID names the key as lists of approvers do.
func (s *signer) keyID() string { return toolcall.KeyID(s.key.Public().(ed25519.PublicKey)) }

// sign signs the approval of what the person reviewed. It computes the digest itself
// and does not trust the one that the engine sent.
func (s *signer) sign(call *toolcall.Call, now time.Time) (*toolcall.ApproverSignature, error) {
	digest, err := call.Request.Digest()
	if err != nil {
		return nil, err
	}
	if digest != call.Digest || call.Request.Key != call.Key || call.Request.Tool != call.Tool {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "sign", What: "the digest does not match the approval request that the engine sent", Hint: "do not approve the call, and tell the operator of the engine"}
	}
	return toolcall.SignApproval(*call.Request, s.as, now.Add(s.lasts), s.key)
}
