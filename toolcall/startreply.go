package toolcall

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// MinLease is the shortest lease that engines give and workers accept. An owner sends four
// heartbeats per lease, and a pause of 200 ms must not end it.
const MinLease = 500 * time.Millisecond

// BeginWithin is how much of a lease may have passed when its owner begins; the rest is
// for the first heartbeat.
func BeginWithin(lease time.Duration) time.Duration { return lease - lease/4 }

// Elapsed is the time from since to now by the monotonic or the wall clock, the
// longer of the two: the monotonic clock can stop while a machine is suspended.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// StartReply is the engine's signed permission to run one attempt now. It is valid for one
// claim and one request, so it cannot be replayed.
type StartReply struct {
	V     int    `json:"v"`      // 1
	KeyID string `json:"key_id"` // which engine key signed; see KeyID
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	Request string `json:"request,omitzero"` // of the StartRequest that it answers
	Nonce   string `json:"grant_nonce"`      // of the attempt's grant
	// Fresh is set if this very request stored the start, so the lease began after the
	// request was sent. Otherwise an earlier request with the same claim may have stored it.
	Fresh          bool      `json:"fresh"`
	LeaseMS        int64     `json:"lease_ms"`
	HeartbeatMS    int64     `json:"heartbeat_ms"`
	Deadline       time.Time `json:"deadline,omitzero"`
	IdempotencyKey string    `json:"idempotency_key"`
	At             time.Time `json:"at"`           // the engine's time of the answer, UTC
	Sig            string    `json:"sig,omitzero"` // base64url Ed25519 over the rest
}

// startDomain separates signatures of start replies from all other signatures.
const startDomain = "askance-start-v1\n"

func (r StartReply) signedText() ([]byte, error) {
	r.Sig = ""
	return inDomain(startDomain, r)
}

// Sign sets V, KeyID and Sig.
func (r *StartReply) Sign(key ed25519.PrivateKey) (err error) {
	r.V, r.KeyID = 1, keyIDOf(key)
	r.Sig, err = Sign(key, r.signedText)
	return err
}

// Verify checks that an engine with one of the keys gave this permission for the request
// and the grant. Any doubt is an error with CodeForbidden.
func (r StartReply) Verify(keys KeySet, q StartRequest, g *Grant) error {
	refuse := func(what, hint string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "verify start reply for " + q.Key.String(), What: what, Hint: hint}
	}
	const forged = "no engine of this space sent it: find out who uses an engine's NATS login"
	if r.Sig == "" {
		return refuse("it is not signed", forged)
	}
	pub, ok := keys[r.KeyID]
	if !ok {
		return refuse(fmt.Sprintf("it is signed by the unknown engine key %.64q", r.KeyID), "give this worker that engine's public key, unless the key is retired")
	}
	b, err := r.signedText()
	if err != nil || !IsSignedBy(pub, b, r.Sig) {
		return refuse("the signature does not match", forged)
	}
	switch {
	case r.V != 1:
		return refuse("the version of the reply is unknown", "update the worker")
	case r.Key != q.Key:
		return refuse("it is about the call "+r.Key.String(), forged)
	case r.Attempt != q.Attempt:
		return refuse("it is about another attempt", forged)
	case r.Claim != q.Claim || r.Claim == "":
		return refuse("it is about another claim", forged)
	case r.Request != q.Request:
		return refuse("it answers another request", forged)
	case g == nil || r.Nonce != g.Nonce:
		return refuse("it is about another grant", forged)
	case r.IdempotencyKey != q.Key.IdempotencyKey():
		return refuse("its idempotency key differs from the call's", forged)
	}
	return nil
}
