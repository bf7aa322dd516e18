package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
)

// Webhooks knows the webhook messages of one space that were given up.
// *webhook.Webhooks is one. Its methods may be called from several goroutines.
type Webhooks interface {
	Space() message.SpaceID
	DeadLetters(ctx context.Context) ([]message.DeadLetter, error)
	// Retry makes one more attempt, now; Drop forgets a dead letter.
	Retry(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
	Drop(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
}

const deadLetterPath = "/v1/webhooks/dead/{destination}/{seq}"

func hookOps(keep *kept, hooks Webhooks) []*op {
	return []*op{
		get(operation.HTTP{ID: "listDeadLetters", Path: "/v1/webhooks/dead", Tag: "webhooks",
			Summary: "List webhook messages that were given up", Doc: "With the reason of the last attempt."}, asOperator, func(a *ask) (DeadLettersReply, error) {
			if err := a.hooked(hooks); err != nil {
				return DeadLettersReply{}, err
			}
			all, err := hooks.DeadLetters(a.ctx())
			return DeadLettersReply{DeadLetters: append([]message.DeadLetter{}, all...)}, err
		}),
		act(operation.HTTP{ID: "retryDeadLetter", Method: http.MethodPost, Path: deadLetterPath + "/retry", Tag: "webhooks",
			Summary: "Retry one of them now", Doc: "One more attempt. If the receiver does not take it, the answer is unavailable with the reason, and the dead letter stays. An approval request that is not open any more is not sent: the fate is stale."}, asOperator, keep, deadLetterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Retry(a.ctx(), to, seq)
		})),
		act(operation.HTTP{ID: "dropDeadLetter", Method: http.MethodDelete, Path: deadLetterPath, Tag: "webhooks",
			Summary: "Drop one of them", Doc: "It is not sent any more."}, asOperator, keep, deadLetterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Drop(a.ctx(), to, seq)
		})),
	}
}

// hooked refuses where the space of the credentials has no webhooks.
func (a *ask) hooked(hooks Webhooks) error {
	e := &message.Error{Code: message.CodeNotFound, Op: a.op.ID, Hint: "name destinations with askance serve --webhooks"}
	switch {
	case hooks == nil:
		e.What = "no webhooks are set up here"
	case hooks.Space() != a.p.Space.ID:
		e.What = "this space has no webhooks"
	default:
		return nil
	}
	return e
}

// deadLetterOp does something with the dead letter that the path names.
func deadLetterOp(hooks Webhooks, do func(a *ask, destination string, seq uint64) (webhook.Fate, error)) func(*ask) (FateReply, error) {
	return func(a *ask) (FateReply, error) {
		if err := a.hooked(hooks); err != nil {
			return FateReply{}, err
		}
		seq, err := strconv.ParseUint(a.r.PathValue("seq"), 10, 64)
		if err != nil {
			return FateReply{}, &message.Error{Code: message.CodeInvalid, Op: a.op.ID, What: "seq is no number", Hint: "GET /v1/webhooks/dead lists them"}
		}
		fate, err := do(a, a.r.PathValue("destination"), seq)
		return FateReply{fate}, err
	}
}
