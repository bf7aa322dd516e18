package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// unsure is the pause after the state of an approval request could not be read.
const unsure = 15 * time.Second

// deliver sends one event record to one destination.
func (w *Webhooks) deliver(ctx context.Context, d *Destination, dl toolcall.Delivery) {
	n := w.noticeOf(d, dl.Record)
	if n == nil {
		w.resolve(ctx, dl)
		return
	}
	dl.Attempt = w.attemptOf(n, dl)
	log := w.cfg.Log.With("destination", d.Name, "id", n.ID, "type", n.Type, "attempt", dl.Attempt)
	current, err := w.isCurrent(ctx, n, dl.Record.Time)
	switch {
	case err != nil:
		log.Debug("cannot read the state of an approval request", "err", err)
		w.again(dl, unsure)
		return
	case !current:
		log.Debug("an approval request is no longer open; nothing is sent")
		w.resolve(ctx, dl)
		return
	}
	err = w.send(ctx, d, n)
	var failed *failure
	switch {
	case err == nil:
		w.resolve(ctx, dl)
	case ctx.Err() != nil: // the gateway stops: another one continues
		w.again(dl, 0)
	case errors.As(err, &failed) && !failed.final && dl.Attempt < d.Attempts:
		log.Info("a webhook was not accepted", "err", err)
		w.again(dl, w.pause(dl.Attempt, failed.after))
	default:
		log.Warn("a webhook failed for the last time", "err", err)
		w.addDeadLetter(ctx, d, dl, err)
	}
}

func (w *Webhooks) addDeadLetter(ctx context.Context, d *Destination, dl toolcall.Delivery, cause error) {
	err := w.cfg.Outbox.AddDeadLetter(ctx, toolcall.DeadLetter{Destination: d.Name, Seq: dl.Record.Seq, Attempts: dl.Attempt, Error: cause.Error(), At: time.Now().UTC()})
	if err != nil {
		w.cfg.Log.Error("cannot store a dead letter; the message is sent again", "destination", d.Name, "seq", dl.Record.Seq, "err", err)
		w.again(dl, w.pause(dl.Attempt, 0))
		return
	}
	w.resolve(ctx, dl)
}

// resolve removes a delivery. If the outbox does not learn this, the delivery is repeated.
func (w *Webhooks) resolve(ctx context.Context, dl toolcall.Delivery) {
	if err := dl.Done(ctx); err != nil {
		w.cfg.Log.Debug("cannot resolve a delivery; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

func (w *Webhooks) again(dl toolcall.Delivery, pause time.Duration) {
	if err := dl.Again(pause); err != nil {
		w.cfg.Log.Debug("cannot reschedule a delivery; it comes again", "seq", dl.Record.Seq, "err", err)
	}
}

// attemptOf returns which attempt a delivery is. One that a restart cut off, or that could not read
// the state, counts only as far as the pauses had time to pass.
func (w *Webhooks) attemptOf(n *Notice, dl toolcall.Delivery) int {
	attempt, left := 1, time.Since(n.Timestamp)
	if left < -w.cfg.Pauses[0] { // the clock that wrote the record is far ahead: it says nothing about the pauses
		return dl.Attempt
	}
	for ; attempt < dl.Attempt; attempt++ {
		if left -= w.cfg.Pauses[min(attempt, len(w.cfg.Pauses))-1]; left < 0 {
			break
		}
	}
	return attempt
}

// maxAfter bounds Retry-After.
const maxAfter = time.Hour

// pause is the time until the next attempt, with up to a tenth of random delay.
func (w *Webhooks) pause(attempt int, after time.Duration) time.Duration {
	p := w.cfg.Pauses[min(max(attempt, 1), len(w.cfg.Pauses))-1]
	p = max(p, min(after, maxAfter))
	return p + rand.N(p/10+1) //nolint:gosec // G404: spreading load needs no secret
}

// maxAnswer bounds how much of a reply is read to reuse the connection.
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

// failure is why a message was not accepted. It contains neither the address nor the receiver's
// reply.
type failure struct {
	what  string
	final bool          // a retry is useless
	after time.Duration // the receiver's Retry-After
}

func (f *failure) Error() string { return f.what }

// send makes one attempt. Its errors are failures, like those of post.
func (w *Webhooks) send(ctx context.Context, d *Destination, n *Notice) error {
	body, err := d.encode(n)
	if err != nil {
		return &failure{what: "the message cannot be encoded: " + err.Error(), final: true}
	}
	return post(ctx, w.clients[d.Name], d, n.ID, body)
}

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
	req.Header.Set(headerID, id)
	req.Header.Set(headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(d.Secrets) > 0 {
		req.Header.Set(headerSignature, Sign(d.Secrets, id, at, body))
	}
	res, err := client.Do(req)
	if err != nil {
		return &failure{what: plainError(ctx, err)}
	}
	defer func() { _ = res.Body.Close() }()                         // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // only the status matters
	return checkReply(res, at)
}

// plainError describes an error without the address, which may be a secret, and without what the
// receiver sent. Errors of net and net/http can contain both.
func plainError(ctx context.Context, err error) string {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "the receiver did not answer in time"
	}
	why := "the connection failed, or it does not speak HTTP"
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		why = number.Error()
	} else if _, ok := errors.AsType[*net.DNSError](err); ok {
		why = "its name cannot be resolved"
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		why = "its certificate cannot be verified"
	}
	return "the receiver could not be reached: " + why
}

func checkReply(res *http.Response, now time.Time) error {
	code := res.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := &failure{what: "the receiver answered " + strconv.Itoa(code)}
	switch {
	case code == http.StatusGone:
		f.final, f.what = true, f.what+": it wants no more messages"
	case code >= 300 && code < 400:
		f.what += ": redirections are not followed"
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		f.after = retryAfter(res.Header.Get("Retry-After"), now)
	}
	return f
}

// retryAfter reads both forms of the header; 0: none.
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

// encode encodes a message in the destination's format.
func (d *Destination) encode(n *Notice) ([]byte, error) {
	if d.Format == FormatSlack {
		return encodeSlack(n)
	}
	return n.encode()
}

// Routes implements gateway.Surface: there are none, because the API serves dead
// letters.
func (*Webhooks) Routes() []gateway.Route { return nil }

// Space is the space whose event records are sent.
func (w *Webhooks) Space() toolcall.SpaceID { return w.cfg.Space.ID }

// DeadLetters returns the dead letters of the space.
func (w *Webhooks) DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error) {
	return w.cfg.Outbox.DeadLetters(ctx)
}

// Fate is the outcome of an operation on a dead letter.
type Fate string

// The fates.
const (
	FateDelivered Fate = "delivered"
	FateStale     Fate = "stale" // its approval request is no longer open; nothing was sent
	FateDropped   Fate = "dropped"
)

// Drop deletes a dead letter. It returns ErrNotFound if there is none.
func (w *Webhooks) Drop(ctx context.Context, destination string, seq uint64) (Fate, error) {
	return FateDropped, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}

// Retry makes one more attempt now. An approval request that is no longer open is not sent.
// ErrUnavailable means that the message was not accepted, and the dead letter stays with the new
// error. ErrNotFound means that there is no such dead letter.
func (w *Webhooks) Retry(ctx context.Context, destination string, seq uint64) (Fate, error) {
	const op = "retry a dead letter"
	letters, err := w.cfg.Outbox.DeadLetters(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(letters, func(l toolcall.DeadLetter) bool { return l.Destination == destination && l.Seq == seq })
	if i < 0 {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "there is no dead letter " + strconv.FormatUint(seq, 10) + " for " + strconv.Quote(destination), Hint: "list the dead letters (askance webhooks list)"}
	}
	d := w.byName[destination]
	if d == nil {
		return "", &message.Error{Code: message.CodeNotFound, Op: op, What: "the webhooks file has no destination " + strconv.Quote(destination), Hint: "add it again, or drop the dead letter"}
	}
	record, err := w.cfg.Outbox.Record(ctx, seq)
	if err != nil {
		return "", err
	}
	fate := FateDelivered
	if n := w.noticeOf(d, record); n == nil {
		fate = FateStale // the destination no longer wants it
	} else if current, err := w.isCurrent(ctx, n, record.Time); err != nil {
		return "", err
	} else if !current {
		fate = FateStale
	} else if err := w.send(ctx, d, n); err != nil {
		l := letters[i]
		l.Attempts, l.Error, l.At = l.Attempts+1, err.Error(), time.Now().UTC()
		return "", errors.Join(&message.Error{Code: message.CodeUnavailable, Op: op, What: err.Error(), Hint: "fix the receiver, then try again"}, w.cfg.Outbox.AddDeadLetter(ctx, l))
	}
	return fate, w.cfg.Outbox.RemoveDeadLetter(ctx, destination, seq)
}

// typePing is the type of a test message.
const typePing = "ping"

type ping struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
}

// Try sends one signed test message to a destination and returns its id. The error
// says why it was not accepted, without the address and the reply. t may be nil.
func Try(ctx context.Context, d Destination, t http.RoundTripper) (id string, err error) {
	if err := Check([]Destination{d}); err != nil {
		return "", err
	}
	d.setDefaults()
	p := ping{Type: typePing, ID: "msg_ping_" + uuid.NewString(), Timestamp: time.Now().UTC()}
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
