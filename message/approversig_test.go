package message_test

import (
	"errors"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
)

var signedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func signedRequest() message.ApprovalRequest {
	return message.ApprovalRequest{
		V: 1, Key: message.Key{Space: "test", Session: "s1", Reply: "r1", Call: "c1"}, Tool: "pay", Input: `{"cents":5}`, Bundle: "sha256:x",
		Requirement: message.Requirement{Users: []string{}, Signed: true},
	}
}

func approverKeys() message.ApproverKeys {
	return message.ApproverKeys{"ann": message.NewKeySet(publicOf(seedKey(1)), publicOf(seedKey(2))), "bob": message.NewKeySet(publicOf(seedKey(3)))}
}

func signAs(t *testing.T, q message.ApprovalRequest, name string, seed byte) *message.ApproverSignature {
	t.Helper()
	s, err := message.SignApproval(q, name, signedAt.Add(time.Hour), seedKey(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestApproverSignature(t *testing.T) {
	q := signedRequest()
	digest, err := q.Digest()
	if err != nil {
		t.Fatal(err)
	}
	other := q
	other.Call = "c2"
	for _, tc := range []struct {
		name string
		sig  func() *message.ApproverSignature
		who  string
		now  time.Time
		good bool
	}{
		{"honest", func() *message.ApproverSignature { return signAs(t, q, "ann", 1) }, "ann", signedAt, true},
		{"a second key", func() *message.ApproverSignature { return signAs(t, q, "ann", 2) }, "ann", signedAt, true},
		{"the last moment", func() *message.ApproverSignature { return signAs(t, q, "ann", 1) }, "ann", signedAt.Add(time.Hour - 1), true},
		{"none", func() *message.ApproverSignature { return nil }, "ann", signedAt, false},
		{"too late", func() *message.ApproverSignature { return signAs(t, q, "ann", 1) }, "ann", signedAt.Add(time.Hour), false},
		{"another call", func() *message.ApproverSignature { return signAs(t, other, "ann", 1) }, "ann", signedAt, false},
		{"another's key", func() *message.ApproverSignature { return signAs(t, q, "ann", 3) }, "ann", signedAt, false},
		{"another's name", func() *message.ApproverSignature { return signAs(t, q, "bob", 1) }, "bob", signedAt, false},
		{"used by another", func() *message.ApproverSignature { return signAs(t, q, "ann", 1) }, "bob", signedAt, false},
		{"a key that is unknown", func() *message.ApproverSignature { return signAs(t, q, "ann", 9) }, "ann", signedAt, false},
		{"an unknown name", func() *message.ApproverSignature { return signAs(t, q, "carol", 1) }, "carol", signedAt, false},
		{"made to last", func() *message.ApproverSignature {
			s := signAs(t, q, "ann", 1)
			s.Until = s.Until.Add(time.Hour)
			return s
		}, "ann", signedAt, false},
		{"with another key id", func() *message.ApproverSignature {
			s := signAs(t, q, "ann", 1)
			s.KeyID = idOf(2)
			return s
		}, "ann", signedAt, false},
		{"no base64", func() *message.ApproverSignature {
			s := signAs(t, q, "ann", 1)
			s.Sig = "!"
			return s
		}, "ann", signedAt, false},
		{"empty", func() *message.ApproverSignature { return &message.ApproverSignature{} }, "ann", signedAt, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.sig().Verify(approverKeys(), digest, tc.who, tc.now); (err == nil) != tc.good || err != nil && !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%v, want good %v", err, tc.good)
			}
		})
	}
}

// A worker's own list decides who counts: every part of the requirement has its
// people, or nothing runs.
func TestApproverList(t *testing.T) {
	ann, bob := byName("ann"), byName("bob")
	for _, tc := range []struct {
		name   string
		change func(r *message.Requirement)
		groups map[string][]string
		by     []message.Principal
		good   bool
	}{
		{"one of any", nil, nil, []message.Principal{ann}, true},
		{"no one", nil, nil, nil, false},
		{"without a rule that asks for it", func(r *message.Requirement) { r.Signed = false }, nil, []message.Principal{ann}, true},
		{"no one, without a rule that asks for it", func(r *message.Requirement) { r.Signed = false }, nil, nil, false},
		{"one of two", func(r *message.Requirement) { r.Quorum = 2 }, nil, []message.Principal{ann}, false},
		{"one twice", func(r *message.Requirement) { r.Quorum = 2 }, nil, []message.Principal{ann, ann}, false},
		{"two", func(r *message.Requirement) { r.Quorum = 2 }, nil, []message.Principal{ann, bob}, true},
		{"another user", func(r *message.Requirement) { r.Users = []string{"bob"} }, nil, []message.Principal{ann}, false},
		{"the user", func(r *message.Requirement) { r.Users = []string{"bob"} }, nil, []message.Principal{bob}, true},
		{"the requester", func(r *message.Requirement) { r.ExcludeRequester, r.Requester = true, "ann" }, nil, []message.Principal{ann}, false},
		{"a group, with no groups here", finance, nil, []message.Principal{ann}, true},
		{"in the group", finance, map[string][]string{"ann": {"finance"}}, []message.Principal{ann}, true},
		{"not in the group", finance, map[string][]string{"bob": {"finance"}}, []message.Principal{ann}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := signedRequest()
			if tc.change != nil {
				tc.change(&q.Requirement)
			}
			digest, err := q.Digest()
			if err != nil {
				t.Fatal(err)
			}
			g := &message.Grant{Key: q.Key, Digest: digest, Approvals: []message.Approval{{By: message.Principal{Role: message.RoleEngine, Name: "e1"}, At: signedAt}}}
			for _, by := range tc.by {
				seed := map[string]byte{"ann": 1, "bob": 3}[by.Name]
				g.Approvals = append(g.Approvals, message.Approval{By: by, At: signedAt, Signature: signAs(t, q, by.Name, seed)})
			}
			list := message.ApproverList{Keys: approverKeys(), Groups: tc.groups}
			if err := list.Verify(g, q, signedAt.Add(time.Minute)); (err == nil) != tc.good || err != nil && !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%v, want good %v", err, tc.good)
			}
			// An approval request with another byte is not signed.
			q.Input = `{"cents":6}`
			if g.Digest, err = q.Digest(); err != nil {
				t.Fatal(err)
			}
			if list.Verify(g, q, signedAt.Add(time.Minute)) == nil {
				t.Error("signatures of another approval request count")
			}
		})
	}
}

func finance(r *message.Requirement) {
	r.Approvers = []message.ApproverSet{{Rule: "r", Groups: []string{"finance"}}}
}

func byName(name string) message.Principal {
	return message.Principal{Role: message.RoleApprover, Name: name}
}
