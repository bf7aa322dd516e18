package webhook

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Routes implements gateway.Surface.
func (w *Webhooks) Routes() []gateway.Route {
	operators := gateway.Only(message.RoleOperator)
	return []gateway.Route{
		{Method: http.MethodGet, Path: "/v1/webhooks/dead", Access: operators, Doc: "Webhook messages that were given up.", Serve: w.list},
		{Method: http.MethodPost, Path: "/v1/webhooks/dead/{destination}/{seq}/retry", Access: operators, Doc: "Try one of them again, now.", Serve: w.letter(w.Retry)},
		{Method: http.MethodDelete, Path: "/v1/webhooks/dead/{destination}/{seq}", Access: operators, Doc: "Forget one of them.", Serve: w.letter(w.Drop)},
	}
}

// mine refuses peers of other spaces.
func (w *Webhooks) mine(p *gateway.Peer) error {
	if p.Space.ID != w.cfg.Space.ID {
		return &message.Error{Code: message.CodeNotFound, Op: "webhooks", What: "this space has no webhooks", Hint: "name destinations with askance serve --webhooks"}
	}
	return nil
}

// LetterList is the answer of GET /v1/webhooks/dead.
type LetterList struct {
	Letters []Letter `json:"letters"`
}

func (w *Webhooks) list(rw http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if err := w.mine(p); err != nil {
		return err
	}
	all, err := w.cfg.Outbox.Letters(r.Context())
	if err != nil {
		return err
	}
	return answer(rw, LetterList{Letters: append([]Letter{}, all...)})
}

// Fate is what became of a dead letter.
type Fate string

// The fates.
const (
	FateDelivered Fate = "delivered"
	FateStale     Fate = "stale" // its question is not open any more; nobody was told
	FateDropped   Fate = "dropped"
)

// LetterFate is the answer of the routes about one dead letter.
type LetterFate struct {
	Fate Fate `json:"fate"`
}

func (w *Webhooks) letter(do func(ctx context.Context, destination string, seq uint64) (Fate, error)) gateway.Handler {
	return func(rw http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
		if err := w.mine(p); err != nil {
			return err
		}
		seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			return &message.Error{Code: message.CodeInvalid, Op: "webhooks", What: "seq is no number", Hint: "GET /v1/webhooks/dead lists them"}
		}
		fate, err := do(r.Context(), r.PathValue("destination"), seq)
		if err != nil {
			return err
		}
		return answer(rw, LetterFate{fate})
	}
}

func answer(rw http.ResponseWriter, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	_, err = rw.Write(append(b, '\n'))
	return err
}

// Drop forgets a dead letter. ErrNotFound if there is none.
func (w *Webhooks) Drop(ctx context.Context, destination string, seq uint64) (Fate, error) {
	return FateDropped, w.cfg.Outbox.Dig(ctx, destination, seq)
}

// Retry makes one more attempt for a dead letter, now. A question that is not
// open any more is told to nobody. ErrUnavailable if it was not taken: the
// letter stays, with the new error. ErrNotFound if there is none.
func (w *Webhooks) Retry(ctx context.Context, destination string, seq uint64) (Fate, error) {
	const op = "retry a dead letter"
	letters, err := w.cfg.Outbox.Letters(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(letters, func(l Letter) bool { return l.Destination == destination && l.Seq == seq })
	if i < 0 {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no such dead letter", Hint: "list them"}
	}
	d := w.byName[destination]
	if d == nil {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no destination " + strconv.Quote(destination) + " any more", Hint: "add it to the webhooks file again, or drop the letter"}
	}
	record, err := w.cfg.Outbox.Record(ctx, seq)
	if err != nil {
		return "", err
	}
	fate := FateDelivered
	if n := w.noticeOf(d, record); n == nil {
		fate = FateStale // the destination does not ask for it any more
	} else if current, err := w.current(ctx, n); err != nil {
		return "", err
	} else if !current {
		fate = FateStale
	} else if err := w.send(ctx, d, n); err != nil {
		l := letters[i]
		l.Attempts, l.Error, l.At = l.Attempts+1, err.Error(), time.Now().UTC()
		return "", errors.Join(&message.Error{Code: message.CodeUnavailable, Op: op, What: err.Error(), Hint: "mend the receiver, then try again"}, w.cfg.Outbox.Bury(ctx, l))
	}
	return fate, w.cfg.Outbox.Dig(ctx, destination, seq)
}
