package engine

import (
	"errors"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
)

// WithReviewerLimits bounds how much one reviewer answers and is given. An
// answer over a limit is refused with CodeOverLimit and changes nothing. Each
// engine counts the answers that it takes itself, and those of others as soon
// as it has read them in the journal.
func WithReviewerLimits(l message.ReviewerLimits) Option {
	return func(c *config) error {
		if l.PerMinute < 0 || l.MaxOpen < 0 {
			return errors.New("a limit of reviewers is negative")
		}
		c.reviewers = l
		return nil
	}
}

// leave is that of one answer, asked for once however often it is tried.
type leave struct {
	ledger *reviewers.Ledger
	end    func(taken bool)
}

// ask asks for it, when everything else about the answer is right. A question
// that the vote is not about gets the machine's better error.
func (l *leave) ask(c *message.Call, v message.Vote) error {
	if l.end != nil || c.State != message.ToolCallAsking || v.Digest != c.Digest {
		return nil
	}
	end, err := l.ledger.Admit(v.By.Name, v.To, v.At)
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
