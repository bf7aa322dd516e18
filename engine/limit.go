package engine

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
)

// WithReviewerLimits bounds how much one reviewer answers and is given. An
// answer, or a proposal, over a limit is refused with CodeOverLimit and changes
// nothing. Each engine counts what it takes itself, and what others take as soon
// as it has read that in the journal.
func WithReviewerLimits(l message.ReviewerLimits) Option {
	return func(c *config) error {
		c.reviewers = l
		return l.Validate()
	}
}

// leave is that of one answer, asked for once however often it is tried.
type leave struct {
	ledger *reviewers.Ledger
	end    func(taken bool)
}

// ask asks for it, when everything else about the answer is right. An approval request
// that the vote is not about gets the machine's better error.
func (l *leave) ask(c *message.Call, v message.Vote) error {
	if l.end != nil || c.State != message.ToolCallAsking || v.Digest != c.Digest {
		return nil
	}
	end, err := l.ledger.Admit(c.Key, v.By.Name, v.To, v.At)
	if err != nil {
		if me, ok := errors.AsType[*message.Error](err); ok {
			me.Call = c.Clone()
		}
		return err
	}
	l.end = end
	return nil
}

// done says what became of the answer.
func (l *leave) done(err error) {
	if l.end != nil {
		l.end(err == nil)
	}
	if errors.Is(err, message.ErrOverLimit) {
		l.ledger.Refused()
	}
}

// assign asks leave to put a new call's approval request to the people whom it names.
// done must be called when the call is written, or is not.
func (e *Engine) assign(c *message.Call) (done func(), err error) {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return func() {}, nil
	}
	done, err = e.view.Reviewers.Assign(c.Key, c.Request.Requirement)
	if errors.Is(err, message.ErrOverLimit) {
		e.view.Reviewers.Refused()
	}
	return done, err
}

// load answers a LoadRequest: from what is at hand or, if the window reaches
// further back, from the journal.
func (e *Engine) load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	now := stamp().At
	if !r.Window() {
		return e.view.Reviewers.Report(now), nil
	}
	if err := r.Validate(); err != nil {
		return message.LoadReply{}, err
	}
	if out, all := e.view.Reviewers.Window(r.Since, r.Until, now); all {
		return out, nil
	}
	select { // one at a time: it reads everything
	case e.folding <- struct{}{}:
		defer func() { <-e.folding }()
	case <-ctx.Done():
		return message.LoadReply{}, context.Cause(ctx)
	}
	sum, err := reviewers.Read(ctx, e.journal, r.Since, r.Until)
	if err != nil {
		return message.LoadReply{}, err
	}
	here := e.view.Reviewers.Report(now) // limits and refusals are this engine's
	out := sum.Report(now)
	out.Limits, out.Refused = here.Limits, here.Refused
	return out, nil
}
