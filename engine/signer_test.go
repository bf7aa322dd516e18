package engine_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	phrases "github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// rotating is a Signer that a test rotates.
type rotating struct {
	mu      sync.Mutex // guards what follows
	key     ed25519.PrivateKey
	retired map[string]bool
}

func (r *rotating) SigningKey() ed25519.PrivateKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key
}

func (r *rotating) HasRetired(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retired[id]
}

// rotate signs with key n from now on, and returns the id of the previous key.
func (r *rotating) rotate(n byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.key
	r.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	return toolcall.KeyID(before.Public().(ed25519.PublicKey))
}

func (r *rotating) retire(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired[id] = true
}

func newRotating() *rotating {
	r := &rotating{retired: map[string]bool{}}
	r.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	return r
}

// A grant signed by a rotated key starts its call. A grant signed by a retired key starts
// nothing: the call is offered again at once, even by an engine that starts after the key was
// retired.
func TestGrantsAcrossRotation(t *testing.T) {
	for _, restart := range []bool{false, true} {
		keys := newRotating()
		synctest.Test(t, func(t *testing.T) {
			h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithSigner(keys)}}
			h.eng = h.engine(remoteTool, allow, nil)
			c := h.propose()
			first := keys.rotate(2)
			if c.Attempt.Grant.KeyID != first {
				t.Fatalf("signed by %s, want %s", c.Attempt.Grant.KeyID, first)
			}
			if c = h.after(time.Second); c.Attempt.Offers != 1 {
				t.Error("a rotation without a retirement offers the call again")
			}
			if restart {
				_ = h.eng.Close()
			}
			keys.retire(first)
			if restart {
				h.eng = h.engine(remoteTool, allow, nil)
			} else if _, err := h.as(toolcall.RoleWorker, "w").Start(t.Context(), toolcall.StartRequest{Key: key, Attempt: 1, Claim: "early"}); !errors.Is(err, message.ErrSuperseded) {
				t.Errorf("a start with a retired grant: %v", err)
			}
			h.eng.Renew()
			if c = h.after(2 * time.Second); c.Attempt.Grant.KeyID == first || c.Attempt.Number != 1 || c.Attempt.Offers != 2 {
				t.Fatalf("after the retirement: key %s, attempt %d, %d offers", c.Attempt.Grant.KeyID, c.Attempt.Number, c.Attempt.Offers)
			}
			h.start(1)
			keys.retire(keys.rotate(3))
			h.eng.Renew()
			if c = h.after(2 * time.Second); !c.Started() || c.Attempt.Offers != 2 {
				t.Error("a started call was touched")
			}
		})
	}
}

// An engine that retired a key and one whose key file is older do not offer a call to each other
// again and again.
func TestGrantsOfDifferentKeyFiles(t *testing.T) {
	old, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	next, err := old.Rotated(time.Now())
	if err == nil {
		next, err = next.Retired(old.SigningID(), time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := &hours{T: t, journal: engine.NewMemory()}
		for _, keys := range []*keyfile.Keys{next, old} {
			h.opts = []engine.Option{engine.WithSigner(keyfile.NewLive("", keys))}
			h.eng = h.engine(remoteTool, allow, nil)
		}
		if c := h.propose(); c.Attempt.Grant.KeyID != old.SigningID() {
			t.Fatalf("the grant has the key %s", c.Attempt.Grant.KeyID)
		}
		if c := h.after(time.Minute); c.Attempt.Grant.KeyID != next.SigningID() || c.Attempt.Offers != 2 {
			t.Errorf("the grant has the key %s after %d offers", c.Attempt.Grant.KeyID, c.Attempt.Offers)
		}
	})
}

// If a rule requires the approver's own signature, nothing else allows the call, and the grant
// contains the signature.
func TestSignedApprovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(b byte) ed25519.PrivateKey {
			return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
		}
		public := func(b byte) toolcall.KeySet {
			return toolcall.NewKeySet(key(b).Public().(ed25519.PublicKey))
		}
		keys := toolcall.ApproverKeys{"ann": public(1), "bob": public(2)}
		h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithApproverKeys(func() toolcall.ApproverKeys { return keys })}}
		h.eng = h.engine(remoteTool, permission.Rule{Behavior: message.BehaviorAsk, Signed: true}, nil)
		c := h.propose()
		if !c.Request.Requirement.Signed {
			t.Fatal("the approval request does not require signatures")
		}
		first := *c.Request
		sign := func(req toolcall.ApprovalRequest, name string, b byte, good time.Duration) *toolcall.ApproverSignature {
			s, err := toolcall.SignApproval(req, name, time.Now().Add(good), key(b))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		answer := func(name string, resp toolcall.Response) (*toolcall.Call, error) {
			resp.Key = c.Key
			if resp.Digest == "" {
				resp.Digest = c.Digest
			}
			return h.as(toolcall.RoleApprover, name).SubmitResponse(t.Context(), resp)
		}
		approve := func(name string, s *toolcall.ApproverSignature) error {
			_, err := answer(name, toolcall.Response{Kind: toolcall.ResponseApprove, Signature: s})
			return err
		}
		text := `{"n":1}`
		for what, err := range map[string]error{
			"no signature":         approve("ann", nil),
			"another's key":        approve("ann", sign(first, "ann", 2, time.Hour)),
			"another's signature":  approve("ann", sign(first, "bob", 2, time.Hour)),
			"an unknown key":       approve("ann", sign(first, "ann", 9, time.Hour)),
			"out of time":          approve("ann", sign(first, "ann", 1, 0)),
			"a person without key": approve("eve", sign(first, "eve", 1, time.Hour)),
		} {
			if !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%s: %v, want forbidden", what, err)
			}
		}
		for what, resp := range map[string]toolcall.Response{
			"with a rejection": {Kind: toolcall.ResponseReject, Signature: sign(first, "ann", 1, time.Hour)},
			"with an edit":     {Kind: toolcall.ResponseApprove, Input: &text, Signature: sign(first, "ann", 1, time.Hour)},
			"with rules":       {Kind: toolcall.ResponseApprove, Rules: []message.PermissionRule{{}}, Signature: sign(first, "ann", 1, time.Hour)},
		} {
			if _, err := answer("ann", resp); !errors.Is(err, message.ErrInvalid) {
				t.Errorf("a signature %s: %v, want invalid", what, err)
			}
		}
		// An edit does not sign the arguments that it makes.
		c, err := answer("ann", toolcall.Response{Kind: toolcall.ResponseApprove, Input: &text})
		if err != nil || c.State != message.ToolCallAsking {
			t.Fatalf("after an edit: %+v, %v", c, err)
		}
		if err := approve("ann", sign(first, "ann", 1, time.Hour)); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("the signature for the previous approval request: %v", err)
		}
		if c = h.after(0); c.State != message.ToolCallAsking {
			t.Fatalf("the call is %s", c.State)
		}
		if err := approve("ann", sign(*c.Request, "ann", 1, time.Hour)); err != nil {
			t.Fatal(err)
		}
		c = h.after(0)
		list := toolcall.ApproverList{Keys: keys}
		if c.State != message.ToolCallSubmitted || list.Verify(c.Attempt.Grant, *c.Request, time.Now()) != nil {
			t.Errorf("the call is %s; a worker says %v", c.State, list.Verify(c.Attempt.Grant, *c.Request, time.Now()))
		}
	})
}

// A signature ends when its approver said: later it completes no requirement, and no attempt
// begins. Its approver can sign again.
func TestSignatureEnds(t *testing.T) {
	people := map[string]ed25519.PrivateKey{}
	keys := toolcall.ApproverKeys{}
	for i, name := range []string{"ann", "bob"} {
		people[name] = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
		keys[name] = toolcall.NewKeySet(people[name].Public().(ed25519.PublicKey))
	}
	signed := func(t *testing.T, tool engine.Tool, f func(h *hours, approve func(name string, lasts time.Duration) error)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithApproverKeys(func() toolcall.ApproverKeys { return keys })}}
			h.eng = h.engine(tool, permission.Rule{Behavior: message.BehaviorAsk, Signed: true, Quorum: 2}, local{"t": func(context.Context, toolcall.Invocation) (string, error) { return "", nil }})
			c := h.propose()
			f(h, func(name string, lasts time.Duration) error {
				s, err := toolcall.SignApproval(*c.Request, name, time.Now().Add(lasts), people[name])
				if err != nil {
					t.Fatal(err)
				}
				_, err = h.as(toolcall.RoleApprover, name).SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest, Signature: s})
				return err
			})
		})
	}
	for name, tool := range map[string]engine.Tool{"local": {}, "remote": remoteTool, "external": {Placement: toolcall.PlaceExternal}} {
		t.Run("before the others have approved "+name, func(t *testing.T) {
			signed(t, tool, func(h *hours, approve func(string, time.Duration) error) {
				wantNoErr(h.T, approve("ann", time.Minute))
				if err := approve("ann", time.Minute); err != nil {
					h.Errorf("the same vote again: %v", err)
				}
				h.after(time.Minute)
				wantNoErr(h.T, approve("bob", time.Hour))
				if c := h.after(0); c.State != message.ToolCallAsking || c.Tally().Parts[0].Missing != 1 {
					h.Fatalf("after a vote that came too late for the other, the call is %s and lacks %d", c.State, c.Tally().Parts[0].Missing)
				}
				wantNoErr(h.T, approve("ann", time.Hour))
				if c := h.after(0); c.State == message.ToolCallAsking {
					h.Error("the second signature does not count")
				}
			})
		})
	}
	for name, start := range map[string]func(h *hours) error{
		"remote": func(h *hours) error {
			_, err := h.as(toolcall.RoleWorker, "w").Start(h.Context(), toolcall.StartRequest{Key: key, Attempt: 1, Claim: "x"})
			return err
		},
		"external": func(h *hours) error {
			_, err := h.as(toolcall.RoleRuntime, "bot").Begin(h.Context(), toolcall.BeginRequest{Key: key, Claim: "x"})
			return err
		},
	} {
		for late, want := range map[time.Duration]error{time.Minute - time.Nanosecond: nil, time.Minute: message.ErrFinished} {
			t.Run("before the call begins "+name+" "+late.String(), func(t *testing.T) {
				signed(t, engine.Tool{Placement: toolcall.Placement(name)}, func(h *hours, approve func(string, time.Duration) error) {
					wantNoErr(h.T, approve("ann", time.Hour))
					wantNoErr(h.T, approve("bob", time.Minute))
					h.after(late)
					if err := start(h); !errors.Is(err, want) {
						h.Errorf("the start: %v, want %v", err, want)
					}
				})
			})
		}
	}
}

// signedWorld has one call whose approval requires two signatures, and approvers whose keys change.
type signedWorld struct {
	*hours
	tool engine.Tool
	keys toolcall.ApproverKeys
	call *toolcall.Call
}

func approverKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func newSignedWorld(t *testing.T) *signedWorld {
	t.Helper()
	return newSignedWorldOf(t, remoteTool)
}

func newSignedWorldOf(t *testing.T, tool engine.Tool) *signedWorld {
	t.Helper()
	w := &signedWorld{tool: tool, keys: toolcall.ApproverKeys{}, hours: &hours{T: t, journal: engine.NewMemory()}}
	for i, name := range []string{"ann", "bob", "cy"} {
		w.give(name, byte(i+1))
	}
	w.eng = w.engineWith(func() toolcall.ApproverKeys { return w.keys })
	w.call = w.propose()
	return w
}

func (w *signedWorld) engineWith(keys func() toolcall.ApproverKeys) *engine.Engine {
	w.opts = []engine.Option{engine.WithApproverKeys(keys)}
	return w.engine(w.tool, permission.Rule{Behavior: message.BehaviorAsk, Signed: true, Quorum: 2}, nil)
}

func (w *signedWorld) give(name string, b byte) {
	w.keys[name] = toolcall.NewKeySet(approverKey(b).Public().(ed25519.PublicKey))
}

// approve approves with a signature that is valid for an hour, and checks the state of the call.
func (w *signedWorld) approve(name string, b byte, want message.ToolCallState) {
	w.Helper()
	wantNoErr(w.T, w.tryApprove(name, b))
	if c := w.after(0); c.State != want {
		w.Fatalf("after the approval of %s the call is %s, want %s", name, c.State, want)
	}
}

func (w *signedWorld) tryApprove(name string, b byte) error {
	w.Helper()
	c := w.call
	s, err := toolcall.SignApproval(*c.Request, name, time.Now().Add(time.Hour), approverKey(b))
	wantNoErr(w.T, err)
	_, err = w.as(toolcall.RoleApprover, name).SubmitResponse(w.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest, Signature: s})
	return err
}

// shown is the call as the list of an operator has it.
func (w *signedWorld) shown() *toolcall.Call {
	w.Helper()
	l, err := w.as(toolcall.RoleOperator, "olga").List(w.Context(), toolcall.ListRequest{All: true})
	wantNoErr(w.T, err)
	return l.Calls[0]
}

// wantMissing checks what every reply says of the open request: an approval of a removed key does not
// count, and the reply says why.
func (w *signedWorld) wantMissing(n int) {
	w.Helper()
	show, err := w.as(toolcall.RoleApprover, "cy").Show(w.Context(), toolcall.ShowRequest{Key: w.call.Key})
	wantNoErr(w.T, err)
	for from, c := range map[string]*toolcall.Call{"list": w.shown(), "show": show.Call, "hint": w.eng.Show(w.after(0))} {
		waiting, _ := c.Waiting(time.Now())
		if waiting.Parts[0].Missing != n || phrases.Needs(c)[0] != fmt.Sprintf("%d of 2 from any approver%s", 2-n, map[int]string{1: ": bob (in process)"}[n]) || !strings.Contains(phrases.Votes(c, time.Now())[0], "does not count: this engine does not know the key") {
			w.Errorf("%s: %d approvals are missing, want %d: %q, %q", from, waiting.Parts[0].Missing, n, phrases.Needs(c), phrases.Votes(c, time.Now()))
		}
	}
	if last, err := w.journal.Last(w.Context(), w.call.Key); err != nil || slices.ContainsFunc(last.Record.Call.Votes, func(v toolcall.Vote) bool { return v.Void != "" }) {
		w.Errorf("the journal has the mark of a reply: %v", err)
	}
}

func (w *signedWorld) wantStart(want error) {
	w.Helper()
	if _, err := w.as(toolcall.RoleWorker, "w").Start(w.Context(), toolcall.StartRequest{Key: w.call.Key, Attempt: 1, Claim: "x"}); !errors.Is(err, want) {
		w.Errorf("the start: %v, want %v", err, want)
	}
}

// waitsFor reports whether the approval request is listed for a person.
func (w *signedWorld) waitsFor(name string) bool {
	w.Helper()
	l, err := w.as(toolcall.RoleApprover, name).List(w.Context(), toolcall.ListRequest{Mine: true})
	wantNoErr(w.T, err)
	return len(l.Calls) > 0
}

// A signature of a removed key completes no requirement, and the approval request stays open for the
// others and for its approver. No attempt begins with it, unless the other approvals suffice.
func TestRemovedApproverKey(t *testing.T) {
	const asking, submitted = message.ToolCallAsking, message.ToolCallSubmitted
	for name, f := range map[string]func(w *signedWorld){
		"others approve": func(w *signedWorld) {
			w.approve("ann", 1, asking)
			delete(w.keys, "ann")
			w.wantMissing(2)
			w.after(time.Minute) // until then, another engine could know the key
			w.approve("bob", 2, asking)
			w.wantMissing(1)
			w.approve("cy", 3, submitted)
			if n := len(w.after(0).Attempt.Grant.Approvals); n != 2 {
				w.Errorf("the grant names %d approvals", n)
			}
			w.wantStart(nil)
		},
		"the approver signs again": func(w *signedWorld) {
			w.approve("ann", 1, asking)
			if w.waitsFor("ann") {
				w.Error("the request waits for an approver who approved")
			}
			w.give("ann", 4) // her first key was stolen
			if !w.waitsFor("ann") {
				w.Error("the request does not wait for the approver whose key was removed")
			}
			w.after(time.Minute)
			w.approve("bob", 2, asking)
			w.approve("ann", 4, submitted)
			w.wantStart(nil)
		},
		"the key comes back": func(w *signedWorld) {
			w.approve("ann", 1, asking)
			delete(w.keys, "ann")
			w.after(time.Minute) // until then, another engine could know the key
			w.approve("bob", 2, asking)
			w.approve("bob", 2, asking)
			w.give("ann", 1)
			w.approve("bob", 2, submitted)
		},
		"removed before the start": func(w *signedWorld) {
			w.approve("ann", 1, asking)
			w.approve("bob", 2, submitted)
			delete(w.keys, "bob")
			w.wantStart(message.ErrUnavailable)
			if c := w.shown(); c.Blocked != toolcall.NotBlocked {
				w.Errorf("a key that may only be new blocks the call: %s", c.BlockedReason)
			}
			w.after(time.Minute)
			w.wantStart(message.ErrForbidden) // so the worker runs other calls
			if c := w.shown(); c.Blocked != toolcall.BlockedKey || !strings.Contains(c.BlockedReason, "of bob, which was removed or is new") {
				w.Errorf("the call is blocked as %q: %q", c.Blocked, c.BlockedReason)
			}
			w.after(20 * time.Minute) // an offer has expired meanwhile
			if c := w.shown(); c.Blocked != toolcall.BlockedKey || c.Attempt.Offers != 1 {
				w.Errorf("after %d offers the call is blocked as %q", c.Attempt.Offers, c.Blocked)
			}
			w.after(time.Hour) // the signatures have ended
			if c := w.shown(); c.State != message.ToolCallFinished || !strings.Contains(c.Denial.Reason, "the signature of ann was valid until") {
				w.Errorf("after the end of the signature the call is %s: %+v", c.State, c.Denial)
			}
		},
		"enough others approved": func(w *signedWorld) {
			w.approve("ann", 1, asking)
			delete(w.keys, "ann")
			w.after(time.Minute) // until then, another engine could know the key
			w.approve("bob", 2, asking)
			w.approve("cy", 3, submitted)
			w.give("ann", 1)
			delete(w.keys, "cy")
			w.after(time.Minute)
			w.wantStart(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newSignedWorld(t)) })
		})
	}
}

// A runtime that begins its own call is told to try again for as long as a key is unknown: it has only
// this call to wait for, and a final error would leave it with an outcome that it cannot know.
func TestExternalCallWithARemovedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorldOf(t, engine.Tool{Placement: toolcall.PlaceExternal})
		w.approve("ann", 1, message.ToolCallAsking)
		w.approve("bob", 2, message.ToolCallSubmitted)
		delete(w.keys, "bob")
		for _, pause := range []time.Duration{time.Second, time.Minute, 5 * time.Minute} {
			w.after(pause)
			if err := w.begin(); !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("after %s: %v", pause, err)
			}
		}
		w.give("bob", 2)
		wantNoErr(t, w.begin())
	})
}

func (w *signedWorld) begin() error {
	_, err := w.as(toolcall.RoleRuntime, "bot").Begin(w.Context(), toolcall.BeginRequest{Key: key, Claim: "x"})
	return err
}

// An engine whose directory is older than the signature refuses a start and ends nothing.
func TestOlderDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		older := toolcall.ApproverKeys{"bob": w.keys["bob"]}
		w.approve("ann", 1, message.ToolCallAsking)
		w.approve("bob", 2, message.ToolCallSubmitted)
		newer := w.eng
		w.eng = w.engineWith(func() toolcall.ApproverKeys { return older })
		w.after(time.Second)
		w.wantStart(message.ErrUnavailable)
		for _, pause := range []time.Duration{time.Minute, 5 * time.Minute} {
			w.after(pause)
			w.wantStart(message.ErrForbidden)
		}
		w.eng = newer
		w.wantStart(nil)
	})
}

// An engine whose directory is older than a signature does not record the approval that completes
// the requirement for the other engines: it would be the last, and complete nothing.
func TestApprovalUnderAnOlderDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		older := toolcall.ApproverKeys{"bob": w.keys["bob"]}
		w.approve("ann", 1, message.ToolCallAsking)
		w.eng = w.engineWith(func() toolcall.ApproverKeys { return older })
		if err := w.tryApprove("bob", 2); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("bob's approval: %v, want %v", err, message.ErrUnavailable)
		}
		older = w.keys
		w.approve("bob", 2, message.ToolCallSubmitted)
	})
}

// What the counted approvals agree to remember does not depend on one whose key was removed.
func TestRememberWithoutARemovedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		_ = w.eng.Close()
		w.journal = engine.NewMemory()
		w.opts = []engine.Option{engine.WithApproverKeys(func() toolcall.ApproverKeys { return w.keys })}
		w.eng = w.engine(remoteTool, permission.Rule{Behavior: message.BehaviorAsk, Quorum: 2, Remember: &permission.Remember{TTL: time.Hour}}, nil)
		w.call = w.propose()
		w.approve("ann", 1, message.ToolCallAsking)
		delete(w.keys, "ann")
		w.after(time.Minute)
		for _, name := range []string{"bob", "cy"} {
			_, err := w.as(toolcall.RoleApprover, name).SubmitResponse(t.Context(), toolcall.Response{Key: w.call.Key, Kind: toolcall.ResponseApprove, Digest: w.call.Digest, Remember: &toolcall.StandingTerms{Scope: toolcall.ScopeSession}})
			wantNoErr(t, err)
		}
		if n := len(w.after(0).StandingApprovals); n != 1 {
			t.Errorf("%d standing approvals, want 1", n)
		}
	})
}

// A person can sign again for longer, such as until the others have time.
func TestSignForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		w.approve("ann", 1, message.ToolCallAsking)
		w.after(30 * time.Minute)
		w.approve("ann", 1, message.ToolCallAsking)
		w.after(45 * time.Minute) // the first signature has ended
		w.approve("bob", 2, message.ToolCallSubmitted)
	})
}

// A response after an interrupt does not name an approver whose vote had not ended the request.
func TestResponseAfterInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		w.approve("ann", 1, message.ToolCallAsking)
		_, err := w.as(toolcall.RoleRuntime, "bot").Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
		wantNoErr(t, err)
		if err := w.tryApprove("bob", 2); !errors.Is(err, message.ErrFinished) || strings.Contains(err.Error(), "responded") {
			t.Errorf("bob's approval: %v", err)
		}
	})
}

func wantNoErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
