package toolcall_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// startReply returns a signed reply, the request that it answers, and the grant.
func startReply(t *testing.T, key ed25519.PrivateKey) (toolcall.StartReply, toolcall.StartRequest, *toolcall.Grant) {
	t.Helper()
	k := toolcall.Key{Space: "s", Session: "se", Reply: "r", Call: "c"}
	r := toolcall.StartReply{
		Key: k, Attempt: 2, Claim: "claim", Request: "request", Nonce: "nonce", Fresh: true, LeaseMS: 10_000, HeartbeatMS: 2_500,
		Deadline: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), IdempotencyKey: k.IdempotencyKey(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if err := r.Sign(key); err != nil {
		t.Fatal(err)
	}
	return r, toolcall.StartRequest{Key: k, Attempt: 2, Claim: "claim", Request: "request"}, &toolcall.Grant{Nonce: "nonce"}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestStartReplyVerifies(t *testing.T) {
	key, other := newKey(t), newKey(t)
	keys := toolcall.NewKeySet(key.Public().(ed25519.PublicKey))
	r, q, g := startReply(t, key)
	if err := r.Verify(keys, q, g); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again toolcall.StartReply
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if err := again.Verify(keys, q, g); err != nil {
		t.Errorf("Verify after encoding and decoding: %v", err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s: Verify = %v, want forbidden", what, err)
		}
	}
	refused("no keys", r.Verify(nil, q, g))
	refused("another key", r.Verify(toolcall.NewKeySet(other.Public().(ed25519.PublicKey)), q, g))
	refused("no grant", r.Verify(keys, q, nil))
	refused("another grant", r.Verify(keys, q, &toolcall.Grant{Nonce: "other"}))
	for what, turn := range map[string]func(*toolcall.StartRequest){
		"space":   func(q *toolcall.StartRequest) { q.Space = "x" },
		"call":    func(q *toolcall.StartRequest) { q.Call = "x" },
		"attempt": func(q *toolcall.StartRequest) { q.Attempt = 1 },
		"claim":   func(q *toolcall.StartRequest) { q.Claim = "x" },
		"request": func(q *toolcall.StartRequest) { q.Request = "x" },
	} {
		asked := q
		turn(&asked)
		refused("asked for another "+what, r.Verify(keys, asked, g))
	}
}

// The signature covers every member.
func TestStartReplySignsEveryMember(t *testing.T) {
	key := newKey(t)
	keys := toolcall.NewKeySet(key.Public().(ed25519.PublicKey))
	good, q, g := startReply(t, key)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[toolcall.StartReply]()) {
		if f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		r := good
		v := reflect.ValueOf(&r).Elem().FieldByIndex(f.Index)
		switch x := v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(x.Add(time.Nanosecond)))
		case bool:
			v.SetBool(!x)
		case int, int64:
			v.SetInt(v.Int() + 1)
		default:
			v.SetString(v.String() + "A")
		}
		if err := r.Verify(keys, q, g); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("with another %s: Verify = %v, want forbidden", f.Name, err)
		}
	}
}

// A key of the wrong size verifies no grant.
func TestGrantSignedByAShortKey(t *testing.T) {
	g := toolcall.Grant{KeyID: "k", Sig: "AA"}
	if err := g.Signed(toolcall.KeySet{"k": []byte("short")}); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("Signed with a short key = %v, want %v", err, message.ErrForbidden)
	}
}
