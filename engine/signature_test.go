package engine_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Where the rule takes the approver's own signature, nothing less allows the
// call, and the grant hands the signature on.
func TestSignedApprovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(b byte) ed25519.PrivateKey {
			return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
		}
		public := func(b byte) message.KeySet {
			return message.NewKeySet(key(b).Public().(ed25519.PublicKey))
		}
		keys := message.ApproverKeys{"ann": public(1), "bob": public(2)}
		h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithApproverKeys(func() message.ApproverKeys { return keys })}}
		h.eng = h.engine(remoteTool, permission.Rule{Behavior: message.BehaviorAsk, Signed: true}, nil)
		c := h.propose()
		if !c.Question.Requirement.Signed {
			t.Fatal("the question does not take signatures")
		}
		first := *c.Question
		sign := func(q message.Question, name string, b byte, good time.Duration) *message.ApproverSignature {
			s, err := message.SignApproval(q, name, time.Now().Add(good), key(b))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		answer := func(name string, a message.Answer) (*message.Call, error) {
			a.Key = c.Key
			if a.Digest == "" {
				a.Digest = c.Digest
			}
			return h.as(message.RoleApprover, name).Answer(t.Context(), a)
		}
		approve := func(name string, s *message.ApproverSignature) error {
			_, err := answer(name, message.Answer{Kind: message.AnswerApprove, Signature: s})
			return err
		}
		text := `{"n":1}`
		for what, err := range map[string]error{
			"no signature":         approve("ann", nil),
			"another's key":        approve("ann", sign(first, "ann", 2, time.Hour)),
			"another's signature":  approve("ann", sign(first, "bob", 2, time.Hour)),
			"an unknown key":       approve("ann", sign(first, "ann", 9, time.Hour)),
			"out of time":          approve("ann", sign(first, "ann", 1, 0)),
			"somebody without key": approve("eve", sign(first, "eve", 1, time.Hour)),
		} {
			if !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%s: %v, want forbidden", what, err)
			}
		}
		for what, a := range map[string]message.Answer{
			"with a rejection": {Kind: message.AnswerReject, Signature: sign(first, "ann", 1, time.Hour)},
			"with an edit":     {Kind: message.AnswerApprove, Input: &text, Signature: sign(first, "ann", 1, time.Hour)},
			"with rules":       {Kind: message.AnswerApprove, Rules: []message.PermissionRule{{}}, Signature: sign(first, "ann", 1, time.Hour)},
		} {
			if _, err := answer("ann", a); !errors.Is(err, message.ErrInvalid) {
				t.Errorf("a signature %s: %v, want invalid", what, err)
			}
		}
		// An edit is no signature over what it made.
		c, err := answer("ann", message.Answer{Kind: message.AnswerApprove, Input: &text})
		if err != nil || c.State != message.ToolCallAsking {
			t.Fatalf("after an edit: %+v, %v", c, err)
		}
		if err := approve("ann", sign(first, "ann", 1, time.Hour)); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("the signature of the question before: %v", err)
		}
		if c = h.after(0); c.State != message.ToolCallAsking {
			t.Fatalf("the call is %s", c.State)
		}
		if err := approve("ann", sign(*c.Question, "ann", 1, time.Hour)); err != nil {
			t.Fatal(err)
		}
		c = h.after(0)
		list := message.ApproverList{Keys: keys}
		if c.State != message.ToolCallSubmitted || list.Verify(c.Attempt.Grant, *c.Question, time.Now()) != nil {
			t.Errorf("the call is %s; a worker says %v", c.State, list.Verify(c.Attempt.Grant, *c.Question, time.Now()))
		}
	})
}
