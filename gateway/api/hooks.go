package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
)

// Webhooks knows the webhook messages of one space that were given up.
// *webhook.Webhooks is one. Its methods may be called from several goroutines.
type Webhooks interface {
	Space() message.SpaceID
	Letters(ctx context.Context) ([]message.Letter, error)
	// Retry makes one more attempt, now; Drop forgets a letter.
	Retry(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
	Drop(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
}

const letterPath = "/v1/webhooks/dead/{destination}/{seq}"

func hookOps(keep *kept, hooks Webhooks) []*op {
	return []*op{
		get(op{id: "listDeadLetters", path: "/v1/webhooks/dead", tag: "webhooks", roles: asOperator,
			summary: "List webhook messages that were given up", doc: "With the reason of the last attempt."}, func(a *ask) (LettersReply, error) {
			if err := a.hooked(hooks); err != nil {
				return LettersReply{}, err
			}
			all, err := hooks.Letters(a.ctx())
			return LettersReply{Letters: append([]message.Letter{}, all...)}, err
		}),
		act(op{id: "retryDeadLetter", method: http.MethodPost, path: letterPath + "/retry", tag: "webhooks", roles: asOperator,
			summary: "Try one of them again, now", doc: "One more attempt. If it is not taken, the answer is unavailable with the reason, and the letter stays. A question that is not open any more is told to nobody: the fate is stale."}, keep, letterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Retry(a.ctx(), to, seq)
		})),
		act(op{id: "dropDeadLetter", method: http.MethodDelete, path: letterPath, tag: "webhooks", roles: asOperator,
			summary: "Forget one of them", doc: "Nobody is told of it any more."}, keep, letterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Drop(a.ctx(), to, seq)
		})),
	}
}

// hooked refuses where the space of the credentials has no webhooks.
func (a *ask) hooked(hooks Webhooks) error {
	e := &message.Error{Code: message.CodeNotFound, Op: a.op.id, Hint: "name destinations with askance serve --webhooks"}
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

// letterOp does something with the letter that the path names.
func letterOp(hooks Webhooks, do func(a *ask, destination string, seq uint64) (webhook.Fate, error)) func(*ask) (FateReply, error) {
	return func(a *ask) (FateReply, error) {
		if err := a.hooked(hooks); err != nil {
			return FateReply{}, err
		}
		seq, err := strconv.ParseUint(a.r.PathValue("seq"), 10, 64)
		if err != nil {
			return FateReply{}, &message.Error{Code: message.CodeInvalid, Op: a.op.id, What: "seq is no number", Hint: "GET /v1/webhooks/dead lists them"}
		}
		fate, err := do(a, a.r.PathValue("destination"), seq)
		return FateReply{fate}, err
	}
}
