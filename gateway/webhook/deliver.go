package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// unsure is the pause where it cannot be told whether an approval request is still open.
const unsure = 15 * time.Second

// deliver deals with one event record for one destination.
func (w *Webhooks) deliver(ctx context.Context, d *Destination, dl toolcall.Delivery) {
	n := w.noticeOf(d, dl.Record)
	if n == nil {
		w.resolve(ctx, dl)
		return
	}
	log := w.cfg.Log.With("destination", d.Name, "id", n.ID, "type", n.Type, "attempt", dl.Attempt)
	current, err := w.current(ctx, n)
	switch {
	case err != nil:
		log.Debug("whether an approval request is open cannot be told", "err", err)
		w.again(dl, unsure)
		return
	case !current:
		log.Debug("an approval request is not open any more; nobody is told")
		w.resolve(ctx, dl)
		return
	}
	err = w.send(ctx, d, n)
	var failed *failure
	switch {
	case err == nil:
		w.resolve(ctx, dl)
	case ctx.Err() != nil: // the gateway stops: somebody else goes on
		w.again(dl, 0)
	case errors.As(err, &failed) && !failed.final && dl.Attempt < d.Attempts:
		log.Info("a webhook was not taken", "err", err)
		w.again(dl, w.pause(dl.Attempt, failed.after))
	default:
		log.Warn("a webhook is given up", "err", err)
		w.addDeadLetter(ctx, d, dl, err)
	}
}

func (w *Webhooks) addDeadLetter(ctx context.Context, d *Destination, dl toolcall.Delivery, cause error) {
	err := w.cfg.Outbox.AddDeadLetter(ctx, toolcall.DeadLetter{Destination: d.Name, Seq: dl.Record.Seq, Attempts: dl.Attempt, Error: cause.Error(), At: time.Now().UTC()})
	if err != nil {
		w.cfg.Log.Error("a dead letter cannot be kept; the message is tried again", "destination", d.Name, "seq", dl.Record.Seq, "err", err)
		w.again(dl, w.pause(dl.Attempt, 0))
		return
	}
	w.resolve(ctx, dl)
}

// resolve is done with a record. If that does not reach the outbox, it comes again:
// at least once is what is promised.
func (w *Webhooks) resolve(ctx context.Context, dl toolcall.Delivery) {
	if err := dl.Done(ctx); err != nil {
		w.cfg.Log.Debug("a delivery is not resolved; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

func (w *Webhooks) again(dl toolcall.Delivery, pause time.Duration) {
	if err := dl.Again(pause); err != nil {
		w.cfg.Log.Debug("a delivery is not put back; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

// maxAfter bounds what a receiver may ask for with Retry-After.
const maxAfter = time.Hour

// pause is the time until the attempt after this one: up to a tenth longer than
// it must be, so that not all come at once.
func (w *Webhooks) pause(attempt int, after time.Duration) time.Duration {
	p := w.cfg.Pauses[min(max(attempt, 1), len(w.cfg.Pauses))-1]
	p = max(p, min(after, maxAfter))
	return p + rand.N(p/10+1) //nolint:gosec // G404: spreading load is no secret
}

// maxAnswer bounds what is read of an answer, to use the connection again.
const maxAnswer = 64 << 10

func newClient(t http.RoundTripper) *http.Client {
	if t == nil {
		t = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4, MaxConnsPerHost: 64, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// failure is why a message was not taken. It shows neither the address nor what
// the receiver said.
type failure struct {
	what  string
	final bool          // trying again is of no use
	after time.Duration // what the receiver asks for
}

func (f *failure) Error() string { return f.what }

// send makes one attempt. Its errors are failures.
func (w *Webhooks) send(ctx context.Context, d *Destination, n *Notice) error {
	body, err := d.write(n)
	if err != nil {
		return &failure{what: "the message cannot be written: " + err.Error(), final: true}
	}
	return post(ctx, w.client, d, n.ID, body)
}

// post carries a message to a destination. Its errors are failures.
func post(ctx context.Context, client *http.Client, d *Destination, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body))
	if err != nil {
		return &failure{what: "the address is not valid", final: true}
	}
	at := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "askance-webhook/1")
	req.Header.Set(HeaderID, id)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(d.Secrets) > 0 {
		req.Header.Set(HeaderSignature, Sign(d.Secrets, id, at, body))
	}
	res, err := client.Do(req)
	if err != nil {
		return &failure{what: plainError(ctx, err)}
	}
	defer func() { _ = res.Body.Close() }()                         // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // the status has said it all
	return judge(res, at)
}

// plainError is what went wrong without the address, which may be a secret.
func plainError(ctx context.Context, err error) string {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "the receiver did not answer in time"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return "the receiver could not be reached: " + err.Error()
}

func judge(res *http.Response, now time.Time) error {
	code := res.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := &failure{what: "the receiver answered " + strconv.Itoa(code)}
	switch {
	case code == http.StatusGone:
		f.final, f.what = true, f.what+": it wants no more of them"
	case code >= 300 && code < 400:
		f.what += ": redirections are not followed"
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		f.after = retryAfter(res.Header.Get("Retry-After"), now)
	}
	return f
}

// retryAfter reads the header in both of its forms; 0 is none.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), int(maxAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// write gives the body of a message in the destination's format.
func (d *Destination) write(n *Notice) ([]byte, error) {
	if d.Format == FormatSlack {
		return slack(n)
	}
	return n.encode()
}

// Routes implements gateway.Surface: there are none. The API serves dead letters
// to operators.
func (*Webhooks) Routes() []gateway.Route { return nil }

// Space is whose event records are told.
func (w *Webhooks) Space() toolcall.SpaceID { return w.cfg.Space.ID }

// DeadLetters are the dead letters of the space.
func (w *Webhooks) DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error) {
	return w.cfg.Outbox.DeadLetters(ctx)
}

// Fate is what became of a dead letter.
type Fate string

// The fates.
const (
	FateDelivered Fate = "delivered"
	FateStale     Fate = "stale" // its approval request is not open any more; nobody was told
	FateDropped   Fate = "dropped"
)

// Drop forgets a dead letter. ErrNotFound if there is none.
func (w *Webhooks) Drop(ctx context.Context, destination string, seq uint64) (Fate, error) {
	return FateDropped, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}

// Retry makes one more attempt for a dead letter, now. An approval request that is not
// open any more is told to nobody. ErrUnavailable if it was not taken: the
// letter stays, with the new error. ErrNotFound if there is none.
func (w *Webhooks) Retry(ctx context.Context, destination string, seq uint64) (Fate, error) {
	const op = "retry a dead letter"
	letters, err := w.cfg.Outbox.DeadLetters(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(letters, func(l toolcall.DeadLetter) bool { return l.Destination == destination && l.Seq == seq })
	if i < 0 {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no such dead letter", Hint: "list them"}
	}
	d := w.byName[destination]
	if d == nil {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no destination " + strconv.Quote(destination) + " any more", Hint: "add it to the webhooks file again, or drop the dead letter"}
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
		return "", errors.Join(&message.Error{Code: message.CodeUnavailable, Op: op, What: err.Error(), Hint: "mend the receiver, then try again"}, w.cfg.Outbox.AddDeadLetter(ctx, l))
	}
	return fate, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}

// TypePing is the type of the message that Try sends.
const TypePing = "ping"

// ping is the body of a trial message.
type ping struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
}

// Try sends one trial message to a destination, signed as all are, and gives
// its id. The error says why it was not taken; it shows neither the address nor
// what the receiver said. t carries the request; nil: a transport of its own.
func Try(ctx context.Context, d Destination, t http.RoundTripper) (id string, err error) {
	if err := Check([]Destination{d}); err != nil {
		return "", err
	}
	d.defaults()
	p := ping{Type: TypePing, ID: "msg_ping_" + uuid.NewString(), Timestamp: time.Now().UTC()}
	body, err := strictjson.Marshal(p)
	if d.Format == FormatSlack {
		body, err = strictjson.Marshal(slackMessage{Text: "A trial message of askance", Blocks: []slackBlock{
			{Type: "section", Text: plainText("A trial message of askance: approval requests will come here.", slackSection)},
		}})
	}
	if err != nil {
		return "", err
	}
	return p.ID, post(ctx, newClient(t), &d, p.ID, body)
}
