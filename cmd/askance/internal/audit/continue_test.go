package audit_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// verified is a real journal and the file that remembers how far it was verified.
type verified struct {
	t      *testing.T
	bus    *bustest.Bus
	j      *journal.Journal
	l      *journal.Ledger
	path   string
	change uint64         // this record reads back changed
	flaws  []journal.Flaw // that the anchor shows
	keys   toolcall.KeySet
	last   map[int]uint64 // the last record of each call
	n      int
}

func newVerified(t *testing.T, opts ...bustest.Option) *verified {
	t.Helper()
	b := bustest.New(t, opts...)
	v := &verified{t: t, path: filepath.Join(t.TempDir(), "verified", "test"), keys: toolcall.NewKeySet(b.Keys().Public()), last: map[int]uint64{}}
	v.open(b)
	return v
}

// open continues with the journal of a server.
func (v *verified) open(b *bustest.Bus) {
	v.t.Helper()
	v.bus, v.j = b, b.Journal("test")
	var err error
	if v.l, err = journal.OpenLedger(v.t.Context(), v.j, journal.LedgerOptions{Engine: "e"}); err != nil {
		v.t.Fatal(err)
	}
}

// write adds records of two calls alternately, and signs them.
func (v *verified) write(records int, signed bool) {
	v.t.Helper()
	for range records {
		call := v.n % 2
		v.n++
		rec := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: fmt.Sprint("f", v.n), At: at, Engine: "e", Call: &toolcall.Call{
			Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: message.CallID(fmt.Sprint("c", call))}, Tool: "pay", Input: `{}`, State: message.ToolCallAsking, Records: v.n,
		}}
		seq, err := v.j.Append(v.t.Context(), rec, v.last[call])
		if err != nil {
			v.t.Fatal(err)
		}
		v.last[call] = seq
	}
	if signed {
		if _, err := v.l.Checkpoint(v.t.Context()); err != nil {
			v.t.Fatal(err)
		}
	}
}

// verify verifies as askance audit verify does. why says why all records are read.
func (v *verified) verify(full bool, o proof.Options) (r *proof.Report, why string) {
	v.t.Helper()
	s, err := audit.Open(v.t.Context(), v.l, "test")
	if err != nil {
		v.t.Fatal(err)
	}
	s.Verified, s.Flaws = journal.NewVerified(v.l, v.path), v.flaws
	records := s.Records
	s.Records = func(after uint64) iter.Seq2[proof.Record, error] {
		return func(yield func(proof.Record, error) bool) {
			for r, err := range records(after) {
				if r.Seq == v.change {
					r.SetBody(bytes.Replace(r.Body(), []byte(`"id":"f`), []byte(`"id":"g`), 1))
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
	o.Keys = v.keys
	if err := s.Continue(v.t.Context(), &o, full); err != nil {
		why = err.Error()
	}
	if r, err = s.Verify(o); err == nil {
		err = s.Remember(v.t.Context(), r, o)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return r, why
}

func (v *verified) want(full bool, ok bool, first, records uint64) *proof.Report {
	v.t.Helper()
	r, why := v.verify(full, proof.Options{})
	if r.OK != ok || r.First != first || r.Records != records || why != "" {
		v.t.Errorf("full %t: ok %t, %d records from %d, %q, found %v; want ok %t, %d from %d", full, r.OK, r.Records, r.First, why, r.Findings, ok, records, first)
	}
	return r
}

// A verification begins after the last verified checkpoint; a full verification reads everything.
// Unsigned records are read each time.
func TestVerificationContinues(t *testing.T) {
	v := newVerified(t)
	v.write(10, true)
	if r := v.want(false, true, 1, 10); r.Earlier != nil {
		t.Errorf("the first verification continues %+v", r.Earlier)
	}
	v.want(false, true, 11, 0)
	v.write(4, true)
	v.write(2, false)
	r := v.want(false, true, 11, 6)
	if r.Earlier == nil || r.Earlier.First != 1 || r.Earlier.Checkpoint.To != 10 || r.CoverFrom != 11 || r.CoverTo != 14 || r.Uncovered != 2 || r.Chained != 6 {
		t.Errorf("the second verification continues %+v: %+v", r.Earlier, r)
	}
	again := v.want(false, true, 15, 2)
	if e := again.Earlier; e == nil || e.Checkpoint.To != 14 || e.ReadAt.After(r.Earlier.At) || again.Anchor != r.Anchor {
		t.Errorf("the third verification continues %+v: %+v", e, again)
	}
	if r := v.want(true, true, 1, 16); r.Earlier != nil {
		t.Errorf("a full verification continues %+v", r.Earlier)
	}
	if r := v.want(false, true, 15, 2); !r.Earlier.ReadAt.After(again.Earlier.ReadAt) {
		t.Errorf("the last full reading is at %s, the one before at %s", r.Earlier.ReadAt, again.Earlier.ReadAt)
	}
}

// A change before the remembered checkpoint is found by a full verification, and then by all
// later ones. A change after it is found at once.
func TestChangesAroundARememberedVerification(t *testing.T) {
	v := newVerified(t)
	v.write(10, true)
	v.want(false, true, 1, 10)
	v.write(4, true)
	v.change = 3
	v.want(false, true, 11, 4)
	if r := v.want(true, false, 1, 14); r.Findings[0].Kind != proof.Changed || r.Findings[0].Seq != 3 {
		t.Errorf("found %v", r.Findings)
	}
	v.want(false, false, 1, 14)
	v.change = 0
	v.want(false, true, 1, 14)
	v.write(4, true)
	v.change = 16
	if r := v.want(false, false, 15, 4); r.Findings[0].Kind != proof.Changed || r.Findings[0].Seq != 16 {
		t.Errorf("found %v", r.Findings)
	}
	v.want(false, false, 1, 18)
}

// If there is any doubt about what is remembered, everything is read.
func TestRememberedVerificationIsDoubted(t *testing.T) {
	other := newVerified(t)
	other.write(10, true)
	other.want(false, true, 1, 10)
	for name, tc := range map[string]struct {
		o    proof.Options
		do   func(v *verified, file []byte) []byte
		why  string
		find proof.Kind // "": nothing
	}{
		"unchanged":           {},
		"none":                {do: func(*verified, []byte) []byte { return nil }},
		"empty":               {do: func(*verified, []byte) []byte { return []byte{} }, why: "is truncated"},
		"cut off":             {do: func(_ *verified, b []byte) []byte { return b[:len(b)-1] }, why: "MAC"},
		"another place":       {do: func(_ *verified, b []byte) []byte { return bytes.Replace(b, []byte(`"seq":10`), []byte(`"seq":12`), 1) }, why: "MAC"},
		"another time":        {do: func(_ *verified, b []byte) []byte { return bytes.Replace(b, []byte(`"at":"20`), []byte(`"at":"30`), 1) }, why: "MAC"},
		"another journal":     {do: func(_ *verified, _ []byte) []byte { b, _ := os.ReadFile(other.path); return b }, why: "MAC"},
		"other keys":          {do: func(v *verified, b []byte) []byte { v.keys = withAnother(t, v.keys); return b }, why: "other public keys"},
		"another anchor":      {o: proof.Options{Anchor: proof.Anchor{Number: 3}}, find: proof.LostCheckpoint},
		"an older anchor":     {o: proof.Options{Anchor: proof.Anchor{Number: 1, Hash: proof.BodyHash(nil)}}, why: "earlier checkpoint", find: proof.LostCheckpoint},
		"its record gone":     {do: func(v *verified, b []byte) []byte { v.remove(10); return b }, why: "record 10 is not readable", find: proof.Removed},
		"another record gone": {do: func(v *verified, b []byte) []byte { v.remove(4); return b }}, // askance audit verify reads everything, because the journal has a flaw
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerified(t)
			v.write(6, true)
			v.write(4, true)
			v.want(false, true, 1, 10)
			good, err := os.ReadFile(v.path)
			if err != nil {
				t.Fatal(err)
			}
			if tc.do != nil {
				if b := tc.do(v, bytes.Clone(good)); b == nil {
					err = os.Remove(v.path)
				} else {
					err = os.WriteFile(v.path, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			r, why := v.verify(false, tc.o)
			if tc.why == "" && why != "" || !strings.Contains(why, tc.why) {
				t.Errorf("the remembered verification is not used because %q, want %q", why, tc.why)
			}
			if continued := r.Earlier != nil; continued != (tc.why == "" && name != "none") {
				t.Errorf("the verification continued: %t", continued)
			}
			if tc.find == "" != r.OK || !r.OK && r.Findings[0].Kind != tc.find {
				t.Errorf("found %v, want %q", r.Findings, tc.find)
			}
		})
	}
}

// An older copy of the journal lacks the checkpoint that was verified, which every verification
// reports until an operator accepts the loss.
func TestVerifiedCheckpointIsMissing(t *testing.T) {
	now, old := t.TempDir(), filepath.Join(t.TempDir(), "nats")
	v := newVerified(t, bustest.In(now))
	v.write(6, true)
	v.bus.Close()
	if err := os.CopyFS(old, os.DirFS(now)); err != nil {
		t.Fatal(err)
	}
	keys := v.bus.Keys()
	reopen := func(folder string) {
		t.Helper()
		b := bustest.New(t, bustest.In(folder))
		b.UseKeys(keys)
		v.open(b)
	}
	reopen(now)
	v.write(4, true)
	v.want(false, true, 1, 10)
	reopen(old)
	for i, full := range []bool{false, true, false, false} {
		if v.flaws = nil; i == 2 { // what the anchor shows is no reason to forget it
			v.flaws = []journal.Flaw{{Kind: journal.FlawTail, What: "the anchor knows of later records"}}
		}
		r, _ := v.verify(full, proof.Options{})
		r.Findings = slices.DeleteFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == proof.RolledBack })
		if r.Found != 1+len(v.flaws) || r.Findings[0].Kind != proof.LostCheckpoint || r.Findings[0].Checkpoint != 2 {
			t.Errorf("full %t: found %v, want the lost checkpoint 2", full, r.Findings)
		}
	}
	recovery, err := journal.BeginRecovery(t.Context(), v.bus.Conn("operator"), "test", keys, journal.Options{Anchor: journal.NewAnchor(filepath.Join(t.TempDir(), "anchor"), "test", keys)})
	if err == nil {
		err = recovery.Prepare(t.Context())
	}
	if err == nil {
		_, err = recovery.Finish(t.Context(), "olga", "an older copy", "e", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.open(v.bus)
	v.last = map[int]uint64{0: 5, 1: 6}
	v.write(2, true)
	if r, _ := v.verify(false, proof.Options{}); !r.OK || len(r.Losses) != 1 {
		t.Errorf("after the loss was accepted: %+v", r)
	}
}

func (v *verified) remove(seq uint64) {
	v.t.Helper()
	js, err := v.bus.Conn("admin").JetStream()
	if err == nil {
		err = js.SecureDeleteMsg(bus.StreamName("test"), seq)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

// withAnother returns the keys and another one.
func withAnother(t *testing.T, keys toolcall.KeySet) toolcall.KeySet {
	t.Helper()
	more, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	all := toolcall.NewKeySet(more.Public())
	maps.Copy(all, keys)
	return all
}

// Without the stream of the checkpoints, the one that was verified is missing, too.
func TestVerifiedCheckpointWithoutItsStream(t *testing.T) {
	v := newVerified(t)
	v.write(6, true)
	v.want(false, true, 1, 6)
	if err := bustest.JetStream(t, v.bus).DeleteStream(t.Context(), journal.LedgerName("test")); err != nil {
		t.Fatal(err)
	}
	var err error
	if v.l, err = journal.OpenLedger(t.Context(), v.bus.JournalWith("test", journal.Options{Inspect: true}), journal.LedgerOptions{Existing: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, _ := v.verify(false, proof.Options{}); !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == proof.LostCheckpoint }) {
			t.Errorf("found %v, want a lost checkpoint", r.Findings)
		}
	}
}
