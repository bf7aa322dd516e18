package message

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"time"
)

// ApproverSignature is an approver's own consent to one approval request, so that not
// even an engine can make up an approval. It covers the approval request's digest, and so
// the call, the arguments and who must agree; the approver's name; and until when
// a worker may start.
type ApproverSignature struct {
	KeyID string    `json:"key_id"` // see KeyID
	Until time.Time `json:"until"`  // no start from then on
	Sig   string    `json:"sig"`    // base64url Ed25519
}

// approvalDomain keeps an approval's signature from being any other signature.
const approvalDomain = "askance-approval-v1\n"

// approval is what an approver signs.
type approval struct {
	Kind     ResponseKind `json:"kind"` // approve
	Digest   string       `json:"digest"`
	Approver string       `json:"approver"`
	KeyID    string       `json:"key_id"`
	Until    time.Time    `json:"until"`
}

func (s ApproverSignature) signed(digest, approver string) ([]byte, error) {
	return domained(approvalDomain, approval{Kind: ResponseApprove, Digest: digest, Approver: approver, KeyID: s.KeyID, Until: s.Until})
}

// SignApproval signs the approval of an approval request, of which the approver has seen
// what its digest is made of, with a key of their own.
func SignApproval(q ApprovalRequest, approver string, until time.Time, key ed25519.PrivateKey) (*ApproverSignature, error) {
	digest, err := q.Digest()
	if err != nil {
		return nil, err
	}
	s := &ApproverSignature{KeyID: KeyID(key.Public().(ed25519.PublicKey)), Until: until.UTC().Truncate(time.Second)}
	b, err := s.signed(digest, approver)
	if err != nil {
		return nil, err
	}
	s.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, b))
	return s, nil
}

// Verify checks that approver has signed the approval of the approval request with this
// digest, by one of their keys and for the time now. Any doubt is an error with
// CodeForbidden.
func (s *ApproverSignature) Verify(keys ApproverKeys, digest, approver string, now time.Time) error {
	refuse := func(what, hint string) error {
		return &Error{Code: CodeForbidden, Op: "verify the signature of " + approver, What: what, Hint: hint}
	}
	if s == nil {
		return refuse("there is none", "approve with --sign-key")
	}
	key := keys[approver][s.KeyID]
	if key == nil {
		return refuse("the key "+s.KeyID+" is not one of theirs", "put the public key under approvers in the directory file")
	}
	if b, err := s.signed(digest, approver); err != nil || !signedBy(key, b, s.Sig) {
		return refuse("it does not fit this approval request", "sign the approval request as it is now")
	}
	if !now.Before(s.Until) {
		return refuse("it was good until "+s.Until.Format(time.RFC3339), "have the call proposed and approved anew")
	}
	return nil
}

// ApproverList is whom a worker believes without the engine.
type ApproverList struct {
	Keys ApproverKeys
	// Groups of people by name. Nil: everybody in Keys counts for every group.
	Groups map[string][]string
}

// Verify checks that the people whom the approval request requires, and at least one,
// have signed its approval. g must have been verified for q. Any doubt is an
// error with CodeForbidden.
func (l ApproverList) Verify(g *Grant, q ApprovalRequest, now time.Time) error {
	var votes []Vote
	var last error
	for _, a := range g.Approvals {
		err := a.Signature.Verify(l.Keys, g.Digest, a.By.Name, now)
		if err != nil {
			last = err
			continue
		}
		v := Vote{Kind: ResponseApprove, By: a.By, At: a.At, Digest: g.Digest, Signature: a.Signature, Groups: l.groups(q, a.By.Name)}
		for _, at := range q.Requirement.Plan() {
			if !a.At.Before(at) && !a.At.After(now) {
				v.Step++
			}
		}
		votes = append(votes, v)
	}
	if t := q.Requirement.Tally(votes, g.Digest, 0); len(t.Approvals) > 0 && t.Agreed {
		return nil
	}
	return &Error{Code: CodeForbidden, Op: "verify the approvals of " + g.Key.String(), What: "those who must agree have not signed that they do, as far as this worker knows them", Hint: "approve with --sign-key, and give the worker the keys of approvers", Err: last}
}

func (l ApproverList) groups(q ApprovalRequest, name string) []string {
	if l.Groups != nil {
		return l.Groups[name]
	}
	var all []string
	for _, s := range q.Requirement.Approvers {
		all = append(all, s.Groups...)
		for _, e := range s.Escalation {
			all = append(all, e.Groups...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
