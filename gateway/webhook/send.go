package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

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
