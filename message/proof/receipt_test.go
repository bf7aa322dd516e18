package proof_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/mutatetest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

var callKey = toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: "c1"}

// stored returns the stored form of an event record, linked to the record before.
func stored(t testing.TB, rec *toolcall.EventRecord, seq uint64, before *proof.Record) proof.Record {
	t.Helper()
	rec.Prev = &toolcall.Link{}
	if before != nil {
		rec.Prev = proof.LinkTo(before.Seq, before.Leaf())
	}
	b, err := strictjson.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	r := proof.Record{Seq: seq, Time: at, Entity: "c1", Subject: "askance.v1.test.record.s1.r1.c1.f", Header: map[string][]string{"Nats-Msg-Id": {rec.ID}, proof.HeaderShown: {proof.MarkOf(proof.Shown(b, true, nil))}}}
	r.SetBody(b)
	return r
}

// life returns a call that was asked about, approved, granted and finished, at 2, 4 and 5.
func life(t testing.TB) []proof.Record {
	t.Helper()
	return lifeOf(t, `{"cents":500}`)
}

// lifeOf is like life with another input, in which rules may hide the given paths.
func lifeOf(t testing.TB, input string, hidden ...string) []proof.Record {
	t.Helper()
	ann := toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "nats-user"}
	req := toolcall.ApprovalRequest{V: 1, Key: callKey, Tool: "pay", Input: input, Text: "Pay?", Bundle: "sha256:b", Requirement: toolcall.Requirement{Users: []string{}}, Hidden: hidden}
	if len(hidden) > 0 {
		req.Salt = "salt"
	}
	digest, err := req.Digest()
	if err != nil {
		t.Fatal(err)
	}
	call := func() *toolcall.Call {
		return &toolcall.Call{Key: callKey, Tool: "pay", Input: req.Input, State: message.ToolCallAsking, Cause: "ask", Request: &req, Digest: digest, ProposedAt: at, UpdatedAt: at}
	}
	record := func(id string, c *toolcall.Call) *toolcall.EventRecord {
		return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: id, By: ann, At: at, Engine: "e", Call: c}
	}
	asked := stored(t, record("f1", call()), 2, nil)
	c := call()
	c.State, c.Cause, c.Placement = message.ToolCallSubmitted, "submit", toolcall.PlaceRemote
	c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: ann, At: at, Digest: digest}}
	grant := &toolcall.Grant{V: 1, Key: callKey, Tool: "pay", Digest: digest, Attempt: 1, Bundle: req.Bundle, Approvals: []toolcall.Approval{{By: ann, At: at}}, NotBefore: at, Expires: at.Add(time.Hour), Nonce: "n"}
	if err := grant.Sign(signer); err != nil {
		t.Fatal(err)
	}
	c.Attempt = toolcall.Attempt{Number: 1, Grant: grant}
	granted := stored(t, record("f2", c), 4, &asked)
	done := c.Clone()
	done.State, done.Cause, done.ResultDigest = message.ToolCallFinished, "result", "sha256:r"
	done.Attempt.Worker, done.Attempt.Claim = "w1", "claim"
	done.Result = &message.ToolResultBlock{ID: "c1", Name: "pay", State: message.ToolResultSuccess, Output: message.Content{Text: "paid"}}
	return []proof.Record{asked, granted, stored(t, record("f3", done), 5, &granted)}
}

// sealing signs the records 1 to 3 and 4 to 6.
func sealing(t testing.TB, records []proof.Record) []proof.Sealed {
	t.Helper()
	var out []proof.Sealed
	var prev proof.Hash
	for n, from := range []uint64{1, 4} {
		c := proof.Checkpoint{Space: "test", Number: uint64(n + 1), From: from, To: from + 2, Prev: prev, At: at, Engine: "e"}
		entries := make([]proof.Entry, 3)
		for i := range entries {
			entries[i] = proof.Entry{Subject: fmt.Sprint("other.", i)}
			for _, r := range records {
				if r.Seq == from+uint64(i) {
					entries[i] = proof.Entry{Subject: r.Subject, Content: r.Content()}
				}
			}
		}
		s, err := proof.Seal(c, entries, signer)
		if err != nil {
			t.Fatal(err)
		}
		if prev, err = s.Checkpoint.Hash(); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func receipt(t testing.TB) []byte {
	t.Helper()
	records := life(t)
	r, err := proof.MakeReceipt(callKey, records, sealing(t, records), at)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func check(b []byte, keys toolcall.KeySet) (*proof.Checked, error) {
	r, err := proof.DecodeReceipt(b)
	if err != nil {
		return nil, err
	}
	return r.Check(keys, nil)
}

func TestReceipt(t *testing.T) {
	c, err := check(receipt(t), keys)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Story
	if !c.Whole || !c.Ended || c.Count != 3 || c.First != 2 || c.Last != 5 || c.Redacted != 0 || s.Tool != "pay" || s.State != message.ToolCallFinished ||
		len(s.Requests) != 1 || len(s.Votes) != 1 || s.Votes[0].By.Auth != "nats-user" || len(s.Grants) != 1 || len(s.Attempts) != 1 || s.Attempts[0].Worker != "w1" || s.ResultDigest != "sha256:r" {
		t.Errorf("Check = %+v", c)
	}
	if _, err := check(receipt(t), toolcall.KeySet{}); err == nil {
		t.Error("a receipt was accepted without a key")
	}
	// The receipt is the same after another tool has formatted it.
	var v any
	if err := strictjson.Unmarshal(receipt(t), &v); err != nil {
		t.Fatal(err)
	}
	pretty, err := json.MarshalIndent(v, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check(pretty, keys); err != nil {
		t.Errorf("formatted by another tool: %v", err)
	}
}

func TestReceiptRefuses(t *testing.T) {
	for name, change := range map[string]func(r *proof.Receipt){
		"another story": func(r *proof.Receipt) { r.Story.ResultDigest = "sha256:x" },
		"another vote":  func(r *proof.Receipt) { r.Story.Votes[0].By.Name = "bob" },
		"another body":  func(r *proof.Receipt) { r.Records[1].Text = strings.Replace(r.Records[1].Text, "500", "900", 2) },
		"a hidden body": func(r *proof.Receipt) {
			r.Records[1].BodyHash = proof.BodyHash(r.Records[1].Body())
			r.Records[1].Text = r.Records[0].Text
		},
		"an event record left out": func(r *proof.Receipt) { r.Records = append(r.Records[:1], r.Records[2:]...) },
		"the first left out":       func(r *proof.Receipt) { r.Records = r.Records[1:]; r.Checkpoints = r.Checkpoints[1:] },
		"the last left out":        func(r *proof.Receipt) { r.Records = r.Records[:2] },
		"another order":            func(r *proof.Receipt) { r.Records[0], r.Records[1] = r.Records[1], r.Records[0] },
		"another place":            func(r *proof.Receipt) { r.Records[2].Seq = 6 },
		"another call":             func(r *proof.Receipt) { r.Call = "c2" },
		"another checkpoint":       func(r *proof.Receipt) { r.Records[0].Checkpoint = 2 },
		"no checkpoint":            func(r *proof.Receipt) { r.Checkpoints = r.Checkpoints[:1] },
		"another root":             func(r *proof.Receipt) { r.Checkpoints[0].Root[0]++ },
		"a signature in two lines": func(r *proof.Receipt) { r.Checkpoints[0].Sig += "\n" },
		"a duplicate checkpoint":   func(r *proof.Receipt) { r.Checkpoints[1] = r.Checkpoints[0] },
		"a path that is too long":  func(r *proof.Receipt) { r.Records[0].Path = append(r.Records[0].Path, proof.Hash{}) },
		"another id":               func(r *proof.Receipt) { r.Records[0].Header["Nats-Msg-Id"][0] = "x" },
		"another subject":          func(r *proof.Receipt) { r.Records[0].Subject += "x" },
		"another type":             func(r *proof.Receipt) { r.Kind = "receipt" },
		"nothing":                  func(r *proof.Receipt) { r.Records = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := proof.DecodeReceipt(receipt(t))
			if err != nil {
				t.Fatal(err)
			}
			change(r)
			b, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if c, err := check(b, keys); err == nil {
				t.Errorf("Check = %+v, want an error", c)
			}
		})
	}
	for name, text := range map[string]string{"unknown member": `{"type":"askance-receipt","v":1,"extra":1}`, "a member twice": `{"v":1,"v":1}`, "empty": ``, "another case": `{"Type":"askance-receipt"}`} {
		if _, err := proof.DecodeReceipt([]byte(text)); err == nil {
			t.Errorf("%s: the receipt was decoded", name)
		}
	}
	// Records that are not signed yet.
	records := life(t)
	if _, err := proof.MakeReceipt(callKey, records, sealing(t, records)[:1], at); err == nil {
		t.Error("a receipt was made of records that are not signed")
	}
}

// A receipt is refused whose signed event record has no link, wherever it stands.
func TestReceiptWithoutALink(t *testing.T) {
	for i := range life(t) {
		records := life(t)
		r := &records[i]
		var rec toolcall.EventRecord
		if err := strictjson.Unmarshal(r.Body(), &rec); err != nil {
			t.Fatal(err)
		}
		rec.Prev = nil
		b, err := strictjson.Marshal(&rec)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBody(b)
		r.Header[proof.HeaderShown] = []string{proof.MarkOf(proof.Shown(b, true, nil))}
		made, err := proof.MakeReceipt(callKey, records, sealing(t, records), at)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = made.Encode(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("the event record at %d has no link", r.Seq)
		if c, err := proof.CheckReceipt(b, keys, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckReceipt = %+v, %v; want %q", c, err, want)
		}
	}
}

// hiding returns the receipt of a call with a value that a rule hides.
func hiding(t testing.TB) []byte {
	t.Helper()
	records := lifeOf(t, `{"cents":500,"pin":"4711-0815"}`, "args.pin")
	sealed := sealing(t, records)
	for i := range records {
		records[i].Redact()
	}
	r, err := proof.MakeReceipt(callKey, records, sealed, at)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The visible part of a redacted call is proved like the rest.
func TestRedactedReceipt(t *testing.T) {
	b := hiding(t)
	if c, err := check(b, keys); err != nil || c.Redacted != 3 || len(c.Story.Votes) != 1 || c.Story.Attempts[0].Worker != "w1" || strings.Contains(string(b), "4711") {
		t.Errorf("Check = %+v, %v", c, err)
	}
}

// The mark of a hidden value changes when the call is asked about. A later record can still build on
// the first one.
func TestRedactedReceiptOfManyRecords(t *testing.T) {
	req := toolcall.ApprovalRequest{V: 1, Key: callKey, Tool: "pay", Input: `{"pin":"4711-0815"}`, Bundle: "sha256:b", Requirement: toolcall.Requirement{Users: []string{}}, Hidden: []string{"args.pin"}, Salt: "salt"}
	digest, err := req.Digest()
	if err != nil {
		t.Fatal(err)
	}
	c := &toolcall.Call{Key: callKey, Tool: "pay", Input: req.Input, State: message.ToolCallPending, Cause: "propose", Redact: req.Hidden, Records: 1, ProposedAt: at, UpdatedAt: at}
	var records []proof.Record
	var wrote *toolcall.RecordBase
	step := toolcall.Step{Cause: "propose", To: message.ToolCallPending}
	for n := range uint64(5) {
		rec := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint("f", n), At: at, Engine: "e", By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, Path: []toolcall.Step{step}, Call: c, Prev: &toolcall.Link{}}
		if n > 0 {
			before := &records[n-1]
			rec.Prev = proof.LinkTo(before.Seq, before.Leaf())
		}
		base := toolcall.BaseFor(rec, wrote)
		body, err := toolcall.EncodeStored(rec, base)
		if err != nil {
			t.Fatal(err)
		}
		r := proof.Record{Seq: n + 1, Entity: "c1", Base: base, Subject: "askance.v1.test.record.s1.r1.c1.f", Header: map[string][]string{"Nats-Msg-Id": {rec.ID}, proof.HeaderShown: {proof.MarkOf(proof.Shown(body, true, base))}}}
		r.SetBody(body)
		wrote = toolcall.NewRecordBase(r.Seq, r.Leaf().String(), rec, base)
		records = append(records, r)
		c = c.Clone()
		c.Records, c.First, c.State, c.Redact, c.Request, c.Digest = c.Records+1, 1, message.ToolCallAsking, nil, &req, digest
		step = toolcall.Step{Cause: "vote", From: message.ToolCallAsking, To: message.ToolCallAsking}
		if n == 0 {
			step = toolcall.Step{Cause: "ask", From: message.ToolCallPending, To: message.ToolCallAsking}
		}
		c.Cause = step.Cause
	}
	sealed := sealing(t, records)
	for i := range records {
		records[i].Redact()
	}
	if !strings.Contains(records[4].Text, `"base":{"seq":1`) {
		t.Fatalf("the last record builds on another one: %s", records[4].Text)
	}
	if _, err := proof.MakeReceipt(callKey, records, sealed, at); err != nil {
		t.Error(err)
	}
}

// A record is redacted only in the way that its engine stated, or is not shown.
func TestRedact(t *testing.T) {
	record := func(hidden ...string) proof.Record { return lifeOf(t, `{"pin":"4711-0815"}`, hidden...)[0] }
	event := proof.Record{Subject: "event", Header: map[string][]string{}}
	event.SetBody([]byte(`{"type":"TOOL_CALL_DELTA","delta":"4711-0815"}`))
	later := proof.Record{Subject: "event_record", Entity: "c1", Header: map[string][]string{proof.HeaderShown: {proof.ShownWhole}}}
	later.SetBody([]byte(`{"v":3,"new":true}`))
	invalid := proof.Record{Entity: "c1"}
	invalid.SetBody([]byte(`{"v":3,"id":"i","by":["runtime","bot",""],"at":"2026-03-01T12:00:00Z","engine":"e","call":{"input":4711-0815}}`))
	with := func(r proof.Record, mark ...string) proof.Record {
		r.Header = map[string][]string{}
		if len(mark) > 0 {
			r.Header[proof.HeaderShown] = mark
		}
		return r
	}
	for name, tc := range map[string]struct {
		record proof.Record
		what   string // the removed part
		shown  string // part of what remains
	}{
		"hidden":                   {record("args.pin"), "args.pin", "Pay?"},
		"nothing hidden":           {record(), "", "4711"},
		"of an earlier engine":     {with(record("args.pin")), "*", "{}"},
		"open, of an earlier one":  {with(record()), "", "4711"},
		"another mark":             {with(record("args.pin"), "sha256:x"), "*", "{}"},
		"two marks":                {with(record("args.pin"), "whole", "whole"), "*", "{}"},
		"a mark that lies":         {with(record("args.pin"), "whole"), "*", "{}"},
		"a piece of arguments":     {event, "delta", "TOOL_CALL_DELTA"},
		"a later engine's, open":   {later, "", "new"},
		"a later engine's, hiding": {with(later, "sha256:x"), "*", "{}"},
		"unreadable":               {with(later), "*", "{}"},
		"invalid":                  {with(invalid), "*", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			r, leaf := tc.record, tc.record.Leaf()
			r.Redact()
			if r.Leaf() != leaf {
				t.Error("the redacted record has another leaf")
			}
			if strings.Join(r.Redacted, " ") != tc.what || !strings.Contains(r.Text, tc.shown) || tc.what != "" && strings.Contains(r.Text, "4711") || r.BodyHash.IsZero() != (tc.what == "") {
				t.Errorf("Redact = %+v", r)
			}
		})
	}
}

// The bytes that an engine shows of an event record are hashed in journals. Encoding them
// differently would make every export of those journals look forged.
func TestShownIsStable(t *testing.T) {
	r := lifeOf(t, `{"cents":500,"pin":"4711-0815"}`, "args.pin")[2]
	shown, what := proof.Shown(r.Body(), true, nil)
	const want = "sha256:4bd9758cec7a29d235dcfc46e53b87780fcc703730597f33e42d5d75adad914c"
	if got := proof.MarkOf(shown, what); got != want {
		t.Errorf("the mark is %s, want %s; the shown part is\n%s", got, want, shown)
	}
}

// The kind under which an event record was stored is proved even if its body is not shown.
func TestRedactedKind(t *testing.T) {
	records := life(t)
	records[2].Header["Askance-Kind"] = []string{"result"}
	if _, err := proof.MakeReceipt(callKey, records, sealing(t, records), at); err == nil {
		t.Error("a receipt contains an event record under another kind than it was stored")
	}
}

// A receipt in which any member is changed, left out, added or moved is refused, or means the
// same.
func TestReceiptMutations(t *testing.T) {
	for name, good := range map[string][]byte{"plain": receipt(t), "redacted": hiding(t)} {
		t.Run(name, func(t *testing.T) {
			said := func(b []byte) (string, error) {
				c, err := check(b, keys)
				if err != nil {
					return "", err
				}
				out, err := strictjson.Marshal(c)
				return string(out), err
			}
			want, err := said(good)
			if err != nil {
				t.Fatal(err)
			}
			refused, harmless := 0, 0
			for what, b := range mutatetest.Each(good) {
				got, err := said(b)
				switch {
				case err != nil:
					refused++
				case got != want:
					t.Errorf("%s: the receipt is accepted and means\n%s", what, got)
				case strings.HasPrefix(what, "/made_at") && strings.Contains(what, "left out"):
					t.Errorf("%s: the receipt is accepted", what)
				default:
					harmless++
				}
			}
			if refused < 1500 || harmless > refused/4 {
				t.Errorf("%d mutations were refused, %d change nothing", refused, harmless)
			}
		})
	}
}

// No change of a single byte leaves a receipt that proves something else.
func TestReceiptProperty(t *testing.T) {
	good := receipt(t)
	want, err := check(good, keys)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte(nil), good...)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "where")
		b[i] = rapid.Byte().Filter(func(c byte) bool { return c != good[i] }).Draw(t, "byte")
		c, err := check(b, keys)
		if err == nil && fmt.Sprintf("%+v", c.Story) != fmt.Sprintf("%+v", want.Story) {
			t.Fatalf("byte %d: a receipt with another story is accepted", i)
		}
	})
}

// A decoded receipt either proves what it says or is refused, and encodes to the same bytes.
func FuzzReceipt(f *testing.F) {
	f.Add(receipt(f))
	f.Add([]byte(`{"type":"askance-receipt","v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := proof.DecodeReceipt(data)
		if err != nil {
			return
		}
		c, err := r.Check(keys, nil)
		if err == nil && (c.Key != callKey || c.Story.ResultDigest != "sha256:r") {
			t.Fatalf("a receipt of something else is accepted: %+v", c)
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proof.DecodeReceipt(b); err != nil {
			t.Fatalf("decode, encode, decode: %v", err)
		}
	})
}

// A checkpoint of a retired key whose time is before its end does not follow one that is after it.
func TestReceiptOfARetiredKey(t *testing.T) {
	records := life(t)
	r, err := proof.MakeReceipt(callKey, records, sealing(t, records), at)
	if err != nil {
		t.Fatal(err)
	}
	current := ed25519.NewKeyFromSeed([]byte(strings.Repeat("n", 32)))
	both := toolcall.NewKeySet(signer.Public().(ed25519.PublicKey), current.Public().(ed25519.PublicKey))
	for after, ok := range map[time.Duration]bool{0: true, time.Hour: false} {
		r.Checkpoints[0].At = at.Add(after)
		if err := r.Checkpoints[0].Sign(current); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Check(both, proof.Retired{toolcall.KeyID(signer.Public().(ed25519.PublicKey)): at}); (err == nil) != ok {
			t.Errorf("the checkpoint before is %s after the retirement: %v", after, err)
		}
	}
}
