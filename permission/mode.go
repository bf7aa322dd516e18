package permission

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// Mode is AgentScope's permission mode: what happens to a call that no rule
// resolves. In a Request the empty Mode stands for the bundle's default.
type Mode = message.PermissionMode

// The modes. In all of them deny rules deny, and no call that an ask rule
// matches is allowed without an answer.
const (
	ModeDefault     = message.ModeDefault     // ask
	ModeAcceptEdits = message.ModeAcceptEdits // ask; tools' own checks may allow edits inside a working directory
	ModeExplore     = message.ModeExplore     // deny what is not proven read-only
	ModeBypass      = message.ModeBypass      // allow
	ModeDontAsk     = message.ModeDontAsk     // deny: no approver is available
)

// ParseMode returns the mode of that name. Names are case-sensitive.
func ParseMode(s string) (Mode, error) {
	m := Mode(s)
	if _, ok := modeRows[m]; !ok {
		return "", fmt.Errorf("unknown permission mode %q, want one of default, accept_edits, explore, bypass, dont_ask", s)
	}
	return m, nil
}

// modeRow is one column of the decision table in doc.go: what the steps that
// depend on the mode do. Its zero value, for an unknown mode, denies.
type modeRow struct {
	known bool
	// converts turns every ask into a deny.
	converts bool
	// rulesOnly leaves out the tool's own check and the allow rules.
	rulesOnly bool
	// ignoresImmune lets a safety ask of the tool fall through.
	ignoresImmune bool
	fallback      outcome
}

// outcome is how a decision without a deciding rule ends.
type outcome uint8

const (
	outcomeDeny outcome = iota
	outcomeAsk
	outcomeAllow
)

var modeRows = map[Mode]modeRow{
	ModeDefault:     {known: true, fallback: outcomeAsk},
	ModeAcceptEdits: {known: true, fallback: outcomeAsk},
	ModeExplore:     {known: true, fallback: outcomeDeny, rulesOnly: true},
	ModeBypass:      {known: true, fallback: outcomeAllow, ignoresImmune: true},
	ModeDontAsk:     {known: true, fallback: outcomeDeny, converts: true},
}
