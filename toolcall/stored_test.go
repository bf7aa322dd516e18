package toolcall_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// shelf stores the records of one call, and reads them as another process would.
type shelf struct {
	t      rapid.TB
	bodies [][]byte
	wrote  *toolcall.RecordBase // the last record as its writer knows it
	read   map[uint64]*toolcall.RecordBase
}

func newShelf(t rapid.TB) *shelf { return &shelf{t: t, read: map[uint64]*toolcall.RecordBase{}} }

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// add stores a record and compares what is read with what was written.
func (s *shelf) add(rec *toolcall.EventRecord) {
	s.t.Helper()
	seq := uint64(10 * (len(s.bodies) + 1))
	rec.Prev = &toolcall.Link{}
	if s.wrote != nil {
		rec.Prev = &toolcall.Link{Seq: s.wrote.Seq, Hash: s.wrote.Hash}
	}
	base := toolcall.BaseFor(rec, s.wrote)
	body, err := toolcall.EncodeStored(rec, base)
	if err != nil {
		s.t.Fatal(err)
	}
	s.bodies = append(s.bodies, body)
	stored, err := toolcall.DecodeStored(body)
	if err != nil {
		s.t.Fatalf("%v: %s", err, body)
	}
	below := s.read[stored.BaseSeq()]
	got, err := stored.Expand(below)
	if err != nil {
		s.t.Fatalf("%v: %s", err, body)
	}
	s.compareWithLibrary(rec)
	if want, have := encode(s.t, rec), encode(s.t, got); want != have {
		s.t.Fatalf("wrote %s\nread  %s\nfrom  %s", want, have, body)
	}
	s.wrote = toolcall.NewRecordBase(seq, hashOf(body), rec, base)
	s.read[seq] = toolcall.NewRecordBase(seq, hashOf(body), got, below)
}

// compareWithLibrary encodes a record as a member of a map, which only the JSON library can
// encode. The fast encoder must write the same.
func (s *shelf) compareWithLibrary(rec *toolcall.EventRecord) {
	s.t.Helper()
	quick := encode(s.t, rec)
	if library := encode(s.t, map[string]any{"x": rec}); library != `{"x":`+quick+`}` {
		s.t.Fatalf("the library writes %s\nthe fast encoder %s", library, quick)
	}
	attempt := &rec.Call.Attempt
	canonical, err := jcs.Canonicalize([]byte(encode(s.t, map[string]any{"x": attempt})))
	if err != nil {
		s.t.Fatal(err)
	}
	if got, err := jcs.Marshal(attempt); err != nil || `{"x":`+string(got)+`}` != string(canonical) {
		s.t.Fatalf("%v: the canonical form is %s, want the one in %s", err, got, canonical)
	}
}

func encode(t rapid.TB, v any) string {
	t.Helper()
	b, err := strictjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func recordOf(n int, c *toolcall.Call, path []toolcall.Step) *toolcall.EventRecord {
	return &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint("id", n), At: c.UpdatedAt, Engine: "e", By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}, Call: c, Path: path}
}

// A stored record is read as it was written, for any path through the machine.
func TestStoredRecordsOfTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(t)
		var cur *toolcall.Call
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			m := toolcall.Load(cur)
			took := false
			for range rapid.IntRange(1, 3).Draw(t, "steps in a record") {
				took = m.Step(anyEvent(t)) == nil || took
			}
			if !took {
				continue
			}
			cur = m.Call()
			cur.Seq = 0
			s.add(recordOf(n, cur, m.Path()))
			stored := cur.Clone() // the engine's own copy has the sequence
			stored.At(uint64(10 * len(s.bodies)))
			cur = stored
		}
	})
}

// The same is true of any values, whether or not the machine could have made them.
func TestStoredRecordsOfAnyCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(t)
		for n := range rapid.IntRange(1, 8).Draw(t, "records") {
			c := anyCall(t)
			path := rapid.SliceOfN(rapid.Custom(anyStep), 0, 3).Draw(t, "path")
			if len(path) == 0 {
				path = nil
			}
			rec := recordOf(n, c, path)
			rec.Engine = word(t)
			if rapid.Bool().Draw(t, "note") {
				rec.Note = &toolcall.Note{What: "late_result", Text: word(t)}
			}
			s.add(rec)
		}
	})
}

func word(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "b", "null"}).Draw(t, "word")
}

func instant(t *rapid.T) time.Time {
	return rapid.SampledFrom([]time.Time{{}, t0, t0.Add(time.Second), t0.Add(-5 * time.Second), t0.In(time.FixedZone("", 3600))}).Draw(t, "time")
}

func anyStep(t *rapid.T) toolcall.Step {
	state := func() message.ToolCallState {
		return rapid.SampledFrom([]message.ToolCallState{"", "pending", "asking", "allowed", "submitted", "finished"}).Draw(t, "state")
	}
	cause := rapid.SampledFrom([]toolcall.Cause{"propose", "ask", "allow", "approve", "edit", "submit", "offer", "start", "result", "?"}).Draw(t, "cause")
	return toolcall.Step{Cause: string(cause), From: state(), To: state()}
}

func maybe[T any](t *rapid.T, v T) *T {
	if rapid.Bool().Draw(t, "nil") {
		return nil
	}
	return &v
}

func anyVote(t *rapid.T) toolcall.Vote {
	v := toolcall.Vote{ID: word(t), Kind: toolcall.ResponseKind(word(t)), By: toolcall.Principal{Name: word(t)}, At: instant(t), Digest: word(t), Edited: rapid.Bool().Draw(t, "edited"), Made: word(t)}
	if rapid.Bool().Draw(t, "approval") {
		v.Kind = toolcall.ResponseApprove
	}
	return v
}

func anyResult(t *rapid.T, c *toolcall.Call) message.ToolResultBlock {
	r := message.ToolResultBlock{ID: rapid.SampledFrom([]message.CallID{c.Call, "other"}).Draw(t, "id"), Name: c.Tool, Output: message.Content{Text: word(t) + " 1234567"}, State: "success", CreatedAt: word(t)}
	r.Metadata = rapid.SampledFrom([]map[string]any{nil, {}, {"k": []any{"v", 1e300, uint64(1 << 63)}}}).Draw(t, "metadata")
	if rapid.Bool().Draw(t, "blocks") {
		r.Output = message.List(&message.TextBlock{ID: "b", Text: word(t)})
	}
	if end := word(t); rapid.Bool().Draw(t, "ended") {
		r.FinishedAt = &end
	}
	return r
}

func anyCall(t *rapid.T) *toolcall.Call {
	c := newCall()
	c.Input = rapid.SampledFrom([]string{`{"n":1}`, `{"n":1,"card":"1234567"}`}).Draw(t, "input")
	c.Agent, c.Cause, c.Proposal, c.Digest = word(t), word(t), word(t), word(t)
	c.State = message.ToolCallState(word(t))
	c.Placement = rapid.SampledFrom([]toolcall.Placement{"", toolcall.PlaceLocal, toolcall.PlaceRemote}).Draw(t, "place")
	c.Redact = rapid.SampledFrom([][]string{nil, {"args.card"}, {}}).Draw(t, "redact")
	c.UpdatedAt, c.ProposedAt, c.RetryAt = instant(t), instant(t), instant(t)
	c.Records, c.First, c.Begun = rapid.IntRange(0, 5).Draw(t, "n"), rapid.Uint64Range(0, 20).Draw(t, "first"), rapid.IntRange(0, 2).Draw(t, "begun")
	c.Decision = maybe(t, toolcall.Decision{Behavior: "ask", Rule: word(t), Reason: word(t), Bundle: word(t), Route: word(t)})
	c.Request = maybe(t, toolcall.ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Text: word(t), Rule: word(t), Salt: word(t), Hidden: rapid.SampledFrom([][]string{nil, {"args.card"}}).Draw(t, "hidden"), Requirement: toolcall.Requirement{Users: []string{}}})
	c.Votes = rapid.SliceOfN(rapid.Custom(anyVote), 0, 3).Draw(t, "votes")
	c.Suggested = rapid.SampledFrom([][]message.PermissionRule{nil, {}, {{ToolName: c.Tool, Behavior: message.BehaviorAllow, Source: "suggested"}}}).Draw(t, "suggested")
	c.Result, c.ResultDigest = maybe(t, anyResult(t, c)), word(t)
	if c.Result != nil && rapid.Bool().Draw(t, "own digest") {
		digest, _, err := toolcall.DigestResult(c.Result)
		if err != nil {
			t.Fatal(err)
		}
		c.ResultDigest = c.SealResult(digest)
	}
	if rapid.Bool().Draw(t, "own proposal") {
		c.Proposal = toolcall.ProposalDigest(c.Tool, c.Input)
	}
	c.Denial = maybe(t, toolcall.Denial{})
	grant := maybe(t, toolcall.Grant{V: 1, Key: c.Key, Nonce: word(t), NotBefore: instant(t), Expires: instant(t), Approvals: []toolcall.Approval{}})
	c.Attempt = toolcall.Attempt{Number: rapid.IntRange(0, 2).Draw(t, "attempt"), Grant: grant, Worker: word(t), OfferedAt: instant(t), OfferUntil: instant(t), StartedAt: instant(t), Offers: rapid.IntRange(0, 2).Draw(t, "offers")}
	return c
}

// Records can be redacted one by one: a reader that has only redacted records reads the redacted
// call.
func TestRedactedRecordsAreReadAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, shown := newShelf(t), newShelf(t)
		for n := range rapid.IntRange(1, 6).Draw(t, "records") {
			rec := recordOf(n, anyCall(t), nil)
			whole.add(rec)
			g := *rec.Redacted()
			shown.add(&g)
		}
	})
}

// two makes a complete record and one that builds on it.
func two(t *testing.T) (whole, later string, base *toolcall.RecordBase) {
	t.Helper()
	s := newShelf(t)
	c := newCall()
	c.Records, c.State, c.Cause = 1, "pending", "propose"
	s.add(recordOf(1, c, []toolcall.Step{{Cause: "propose", To: "pending"}}))
	base = s.read[10]
	d := c.Clone()
	d.Records, d.State, d.Cause, d.First = 2, "asking", "ask", 10
	s.add(recordOf(2, d, []toolcall.Step{{Cause: "ask", From: "pending", To: "asking"}}))
	return string(s.bodies[0]), string(s.bodies[1]), base
}

// A reader refuses a record that no engine of this version could have written, and a base that is
// not the writer's.
func TestStoredRecordsAreStrict(t *testing.T) {
	whole, later, base := two(t)
	swap := func(text, old, with string) string {
		out := strings.Replace(text, old, with, 1)
		if out == text {
			t.Fatalf("%q is not in %s", old, text)
		}
		return out
	}
	other := *base
	other.Hash = hashOf([]byte("other"))
	moved := *base
	moved.Seq = 11
	deep := *base
	deep.Depth = toolcall.MaxBases
	for _, tc := range []struct {
		name, body string
		base       *toolcall.RecordBase
	}{
		{"no base", later, nil},
		{"a base with another hash", later, &other},
		{"a base at another place", later, &moved},
		{"too many bases", later, &deep},
		{"a named base with another id", swap(later, `"by"`, `"base":{"seq":10,"id":"id9"},"by"`), base},
		{"a base after the previous record", swap(later, `"by"`, `"base":{"seq":11,"id":"id1"},"by"`), &moved},
		{"an unknown member", swap(later, `"by"`, `"more":1,"by"`), base},
		{"an unknown member of the call", swap(later, `"change":{}`, `"change":{"more":1}`), base},
		{"another key", swap(later, `"change":{}`, `"change":{"tool_call_id":"c2"}`), base},
		{"a sequence", swap(later, `"change":{}`, `"change":{"seq":4}`), base},
		{"call and change", swap(later, `"change":{}`, `"call":{},"change":{}`), base},
		{"neither", swap(whole, `"call":{`, `"note":{"what":"x"},"prev":{"seq":0},"explanation":{`), nil},
		{"hidden paths without a call", swap(later, `"change"`, `"hides":["args.x"],"change"`), base},
		{"a later version", swap(later, `"v":3`, `"v":4`), base},
		{"the complete form with a base", swap(later, `"v":3`, `"v":2`), base},
		{"no version", swap(later, `"v":3,`, ``), base},
		{"votes of another kind", swap(later, `"change":{}`, `"change":{"votes":7}`), base},
		{"votes that only begin like null", swap(later, `"change":{}`, `"change":{"votes":nope}`), base},
		{"a path that only begins like null", swap(later, `"path":[["ask","asking"]]`, `"path":nope`), base},
		{"a path that is no list", swap(later, `"path":[["ask","asking"]]`, `"path":{}`), base},
		{"a member of the call twice", swap(later, `"change":{}`, `"change":{"agent":"a","agent":"b"}`), base},
		{"an invalid member of the call", swap(later, `"change":{}`, `"change":{"result":x}`), base},
		{"the call ends differently", swap(later, `"change":{}`, `"change":{]`), base},
		{"an empty step", swap(later, `["ask","asking"]`, `[]`), base},
	} {
		s, err := toolcall.DecodeStored([]byte(tc.body))
		if err == nil {
			_, err = s.Expand(tc.base)
		}
		if err == nil {
			t.Errorf("%s: the record was read: %s", tc.name, tc.body)
		}
	}
	other = *base
	for _, body := range []string{whole, later} {
		s, err := toolcall.DecodeStored([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Expand(&other); err != nil {
			t.Errorf("%v: %s", err, body)
		}
	}
}

// A reader that knows only complete records, like that of the previous release, takes a compact
// record for one of a newer version, not for a call.
func TestStoredRecordsAreNoWholeRecords(t *testing.T) {
	whole, later, _ := two(t)
	for _, body := range []string{whole, later} {
		var head struct {
			V int `json:"v"`
		}
		if err := strictjson.UnmarshalOpen([]byte(body), &head); err != nil || head.V != toolcall.StoredVersion {
			t.Errorf("the version is %d, %v: %s", head.V, err, body)
		}
		if err := strictjson.Unmarshal([]byte(body), &toolcall.EventRecord{}); err == nil {
			t.Errorf("the record is read as a complete one: %s", body)
		}
	}
}

// FuzzDecodeStored checks that no bytes break the decoder, and that a decoded record can be
// encoded and read again.
func FuzzDecodeStored(f *testing.F) {
	s := newShelf(f)
	c := newCall()
	c.Records = 1
	s.add(recordOf(1, c, []toolcall.Step{{Cause: "propose", To: "pending"}}))
	base := s.read[10]
	d := c.Clone()
	d.Records, d.Votes = 2, []toolcall.Vote{{Kind: "approve", By: toolcall.Principal{Name: "ann"}}}
	d.Placement, d.Request = toolcall.PlaceRemote, &toolcall.ApprovalRequest{V: 1}
	d.Attempt = toolcall.Attempt{Number: 1, Grant: &toolcall.Grant{V: 1, Approvals: []toolcall.Approval{}}}
	s.add(recordOf(2, d, []toolcall.Step{{Cause: "submit", From: "allowed", To: "submitted"}}))
	for _, b := range s.bodies {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		stored, err := toolcall.DecodeStored(body)
		if err != nil {
			return
		}
		got, err := stored.Expand(base)
		if err != nil || got.Call == nil {
			return
		}
		again, err := toolcall.EncodeStored(got, nil)
		if err != nil {
			return // such as an input that is larger than an encoder permits
		}
		if stored, err = toolcall.DecodeStored(again); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		if _, err := stored.Expand(nil); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
	})
}

// Records that were written before calls had an order are read, and their calls wait.
func TestRecordsOfBatchesAreRead(t *testing.T) {
	read := func(body string) *toolcall.EventRecord {
		stored, err := toolcall.DecodeStored([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := stored.Expand(nil)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	old := read(`{"v":2,"id":"i","call":{"tool_name":"t","batch":{"number":1,"group":2,"index":3}}}`).Call
	old.First = 2
	for _, order := range []toolcall.Order{toolcall.OrderShared, toolcall.OrderExclusive} {
		if later := (&toolcall.Call{Order: order, First: 3}); !later.WaitsFor(old) || old.WaitsFor(later) {
			t.Errorf("a later call with the order %s must wait for a call of a batch, and not the other way round", order)
		}
	}
	if later := (&toolcall.Call{First: 3}); later.WaitsFor(old) {
		t.Error("a call without an order waits")
	}
	read(`{"v":2,"id":"i","reply":{"phase":"open","batches":[{"number":1,"calls":["a"],"groups":[0]}]}}`)
}

// What a record stores of a grant decides what may be shown of the record. A signed approval that
// was decoded again counts as another one and is stored, as in journals that exist.
func TestSignedApprovalIsStoredAgain(t *testing.T) {
	s := newShelf(t)
	c := newCall()
	c.Records = 1
	approvals := func() []toolcall.Approval {
		return []toolcall.Approval{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, At: c.ProposedAt, Signature: &toolcall.ApproverSignature{KeyID: "k", Until: c.ProposedAt, Sig: "s"}}}
	}
	c.Attempt.Number, c.Attempt.Grant = 1, &toolcall.Grant{V: 1, Key: c.Key, Tool: c.Tool, Approvals: approvals()}
	s.add(recordOf(1, c, []toolcall.Step{{Cause: "propose", To: "pending"}}))
	next := func(records int, own []toolcall.Approval) string {
		d := c.Clone()
		grant := *c.Attempt.Grant
		grant.Approvals = own
		d.Records, d.First, d.Cause, d.Attempt.Grant = records, 10, "start", &grant
		s.add(recordOf(records, d, []toolcall.Step{{Cause: "start", From: "pending", To: "pending"}}))
		return string(s.bodies[len(s.bodies)-1])
	}
	if body := next(2, c.Attempt.Grant.Approvals); strings.Contains(body, `"approvals"`) {
		t.Errorf("the same approvals are stored again: %s", body)
	}
	if body := next(3, approvals()); !strings.Contains(body, `"approvals"`) {
		t.Errorf("approvals that were decoded again are not stored: %s", body)
	}
}
