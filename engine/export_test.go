package engine

import (
	"context"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Remembered gives the rules that answers of a session left behind.
func (e *Engine) Remembered(s message.SessionID) []message.PermissionRule {
	return e.view.Rules(&toolcall.Call{Key: toolcall.Key{Space: e.space, Session: s}})
}

// Membership asks the engine's directory.
func (e *Engine) Membership(ctx context.Context, by toolcall.Principal) (Membership, error) {
	groups, source, err := e.groupsOf(ctx, by)
	return Membership{Groups: groups, Source: source}, err
}

// Meeting is a policy whose duties are the only ones that the engine carries out.
func Meeting(p Policy, met ...permission.Duty) Policy { return dutiful{p, met} }

// StepAt is how far the plan of a call's approval request has come.
var StepAt = approve.StepAt

// ShownText is what people see of a worker's line.
var ShownText = shownText

// KeepResponses bounds what the ledger of reviewers keeps for windows; to be
// set before Start.
func (e *Engine) KeepResponses(n int) { e.view.Reviewers.Keep(n) }
