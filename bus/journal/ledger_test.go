package journal_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ledgered is a journal of three calls with three event records each, at the sequences 1 to 9, and
// its ledger.
type ledgered struct {
	*bustest.Bus
	t *testing.T
	j *journal.Journal
	l *journal.Ledger
}

func newLedgered(t *testing.T) *ledgered {
	t.Helper()
	b := bustest.New(t)
	w := &ledgered{Bus: b, t: t}
	w.open()
	steps := []struct {
		state message.ToolCallState
		cause string
	}{{message.ToolCallPending, "propose"}, {message.ToolCallAllowed, "allow"}, {message.ToolCallFinished, "result"}}
	last := map[int]uint64{}
	for i, s := range steps {
		for c := range 3 {
			last[c] = bustest.MustAppend(t, w.j, bustest.CallRecord(fmt.Sprintf("f%d-%d", c, i), bustest.CallKey(fmt.Sprintf("c%d", c)), s.state, s.cause), last[c])
		}
	}
	return w
}

// open opens journal and ledger as they are now.
func (w *ledgered) open() {
	w.t.Helper()
	w.j = w.Journal("test")
	w.l = bustest.LedgerOf(w.t, w.j)
}

func (w *ledgered) sign() *proof.Checkpoint {
	w.t.Helper()
	c, err := w.l.Checkpoint(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// verify returns the report of an auditor with only the engine's public key.
func (w *ledgered) verify() *proof.Report {
	w.t.Helper()
	return bustest.VerifyWith(w.t, w.l, toolcall.NewKeySet(w.Keys().Public()))
}

// found checks that the report has this finding and no other kind of finding.
func (w *ledgered) found(kind proof.Kind, seq uint64, call string) {
	w.t.Helper()
	r := w.verify()
	if !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == kind && f.Seq == seq && f.Call == call }) {
		w.t.Errorf("found %v, want %s %d of %s", r.Findings, kind, seq, call)
	}
	for _, f := range r.Findings {
		if f.Kind != kind {
			w.t.Errorf("also found %s", f)
		}
	}
}

func (w *ledgered) stream(name string) jetstream.Stream {
	w.t.Helper()
	st, err := bustest.JetStream(w.t, w.Bus).Stream(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// again creates the journal's stream again with the messages that change returns:
// an attack with every right in NATS, but without the engine key.
func (w *ledgered) again(change func([]*nats.Msg) []*nats.Msg) {
	w.t.Helper()
	js := bustest.JetStream(w.t, w.Bus)
	name := bus.StreamName("test")
	st := w.stream(name)
	info := st.CachedInfo()
	var msgs []*nats.Msg
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		raw, err := st.GetMsg(w.t.Context(), seq)
		if err != nil {
			w.t.Fatal(err)
		}
		msgs = append(msgs, &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data})
	}
	if err := js.DeleteStream(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	if _, err := js.CreateStream(w.t.Context(), info.Config); err != nil {
		w.t.Fatal(err)
	}
	nc := w.Conn("forger")
	for _, m := range change(msgs) {
		bustest.Store(w.t, nc, m)
	}
	w.j = w.JournalWith("test", journal.Options{Inspect: true}) // an engine refuses the changed journal
	w.l = bustest.LedgerOf(w.t, w.j)
}

func forged(m *nats.Msg, id string) *nats.Msg {
	out := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: []byte(strings.Replace(string(m.Data), `"at":"2`, `"at":"3`, 1))}
	for k, v := range m.Header {
		out.Header[k] = slices.Clone(v)
	}
	if id != "" {
		out.Header.Set("Nats-Msg-Id", id)
	}
	return out
}

func TestLedgerOfAGenuineJournal(t *testing.T) {
	w := newLedgered(t)
	if r := w.verify(); r.Found != 1 || r.Findings[0].Kind != proof.NoCheckpoint {
		t.Errorf("without a checkpoint: %v", r.Findings)
	}
	c := w.sign()
	if c.Number != 1 || c.From != 1 || c.To != 9 || c.Records != 9 || c.Engine != "e1" {
		t.Errorf("the checkpoint is %+v", c)
	}
	if again := w.sign(); *again != *c {
		t.Errorf("with nothing new %+v was signed", again)
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	if r := w.verify(); !r.OK || r.Chained != 10 || r.Trees != 4 || r.CoverTo != 9 || r.Uncovered != 1 {
		t.Errorf("verify = %+v", r)
	}
	if c = w.sign(); c.Number != 2 || c.From != 10 || c.To != 10 {
		t.Errorf("the second checkpoint is %+v", c)
	}
	if r := w.verify(); !r.OK || r.Checkpoints != 2 || r.Uncovered != 0 {
		t.Errorf("verify = %+v", r)
	}
}

// An engine signs its own records without reading them again, and reads only those of other engines.
// An auditor reads the same either way.
func TestLedgerReadsWhatOthersWrote(t *testing.T) {
	w := newLedgered(t)
	reads := 0
	sub, err := w.Conn("spy").SubscribeSync("$JS.API.*.MSG.GET.ASKANCE_test")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := w.Conn("spy").SubscribeSync("$JS.API.DIRECT.GET.ASKANCE_test")
	if err != nil {
		t.Fatal(err)
	}
	w.sign()
	for _, s := range []*nats.Subscription{sub, direct} {
		n, _, err := s.Pending()
		if reads += n; err != nil {
			t.Fatal(err)
		}
	}
	if reads > 1 { // the newest, to see that the journal still has it
		t.Errorf("%d reads of own records", reads)
	}
	other, last := w.Journal("test"), uint64(0)
	for i := range 20 {
		j := w.j
		if i%3 == 0 {
			j = other
		}
		last = bustest.MustAppend(t, j, bustest.CallRecord(fmt.Sprint("g", i), bustest.CallKey(fmt.Sprint("d", i)), message.ToolCallPending, "propose"), 0)
	}
	if c := w.sign(); c.To != last {
		t.Errorf("signed up to %d, want %d", c.To, last)
	}
	if r := w.verify(); !r.OK || r.Last != last {
		t.Errorf("report %+v", r)
	}
}

// Every way to tamper with a real stream, with and without a checkpoint over the records.
func TestTamperedStream(t *testing.T) {
	tests := []struct {
		name string
		do   func(w *ledgered)
		kind proof.Kind
		seq  uint64
		call string
		late bool // the chain without a checkpoint reveals it as well
	}{
		{"changed in a new stream", func(w *ledgered) {
			w.again(func(m []*nats.Msg) []*nats.Msg { m[4] = forged(m[4], ""); return m })
		}, proof.Changed, 5, "s1/r1/c1", true},
		{"removed in place", func(w *ledgered) {
			if err := w.stream(bus.StreamName("test")).DeleteMsg(w.t.Context(), 5); err != nil {
				t.Fatal(err)
			}
		}, proof.Removed, 5, "s1/r1/c1", true},
		{"the last one removed in place", func(w *ledgered) {
			if err := w.stream(bus.StreamName("test")).DeleteMsg(w.t.Context(), 9); err != nil {
				w.t.Fatal(err)
			}
		}, proof.Removed, 9, "s1/r1/c2", false},
		{"removed in a new stream", func(w *ledgered) {
			w.again(func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, 7, 8) })
		}, proof.Removed, 8, "s1/r1/c1", false},
		{"inserted behind a call", func(w *ledgered) {
			m := forged(bustest.Genuine(w.t, w.Conn("x"), bus.StreamName("test"), 9), "forged")
			m.Header.Set(bustest.HeaderPrev, "9")
			bustest.Store(w.t, w.Conn("forger"), m)
		}, proof.Changed, 10, "s1/r1/c2", true}, // it has an engine's mark that does not fit
		{"inserted without a mark", func(w *ledgered) {
			m := forged(bustest.Genuine(w.t, w.Conn("x"), bus.StreamName("test"), 9), "forged")
			m.Header.Set(bustest.HeaderPrev, "9")
			m.Header.Del(journal.HeaderMAC)
			bustest.Store(w.t, w.Conn("forger"), m)
		}, proof.Inserted, 10, "s1/r1/c2", true},
		{"inserted in a new stream", func(w *ledgered) {
			w.again(func(m []*nats.Msg) []*nats.Msg {
				f := forged(m[5], "forged")
				f.Subject = "askance.v1.test.record.s1.r1.c9.f"
				f.Header.Set(bustest.HeaderPrev, "0")
				f.Header.Set(bustest.HeaderFilter, "askance.v1.test.record.s1.r1.c9.>")
				return slices.Insert(m, 6, f)
			})
		}, proof.Inserted, 7, "s1/r1/c9", false},
		{"in another order", func(w *ledgered) {
			w.again(func(m []*nats.Msg) []*nats.Msg { m[7], m[8] = m[8], m[7]; return m })
		}, proof.Reordered, 8, "s1/r1/c2", false},
		{"purged by subject", func(w *ledgered) {
			if err := w.stream(bus.StreamName("test")).Purge(w.t.Context(), jetstream.WithPurgeSubject("askance.v1.test.record.s1.r1.c1.>")); err != nil {
				w.t.Fatal(err)
			}
		}, proof.Removed, 5, "s1/r1/c1", false},
		{"a call's last two removed in place", func(w *ledgered) {
			for _, seq := range []uint64{6, 9} {
				if err := w.stream(bus.StreamName("test")).DeleteMsg(w.t.Context(), seq); err != nil {
					w.t.Fatal(err)
				}
			}
		}, proof.Removed, 6, "s1/r1/c2", false},
		{"a bustest.Genuine event record again, in a call of its own", func(w *ledgered) {
			m := forged(bustest.Genuine(w.t, w.Conn("x"), bus.StreamName("test"), 1), "forged")
			m.Subject = "askance.v1.test.record.s1.r1.c9.f"
			m.Header.Set(bustest.HeaderFilter, "askance.v1.test.record.s1.r1.c9.>")
			bustest.Store(w.t, w.Conn("forger"), m)
		}, proof.Changed, 10, "s1/r1/c9", true},
		{"rolled back", func(w *ledgered) { w.again(func(m []*nats.Msg) []*nats.Msg { return m[:8] }) }, proof.RolledBack, 9, "s1/r1/c2", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newLedgered(t)
			w.sign()
			tc.do(w)
			w.found(tc.kind, tc.seq, tc.call)
		})
		if tc.late {
			t.Run(tc.name+", behind the last checkpoint", func(t *testing.T) {
				w := newLedgered(t)
				tc.do(w)
				r := w.verify()
				if !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == tc.kind && f.Seq == tc.seq && f.Call == tc.call }) {
					t.Errorf("found %v, want %s %d of %s", r.Findings, tc.kind, tc.seq, tc.call)
				}
			})
		}
	}
}

// The mark of an engine does not cover a record's message id, so a reader compares the id with the
// body, even for records that need no other record to be audited.
func TestRecordUnderAnotherMessageID(t *testing.T) {
	w := newLedgered(t)
	w.again(func(m []*nats.Msg) []*nats.Msg { m[8].Header.Set("Nats-Msg-Id", "other"); return m })
	r := w.verify() // nothing is signed
	if !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Seq == 9 && strings.Contains(f.What, "message id") }) {
		t.Errorf("found %v, want the record at 9", r.Findings)
	}
}

// ledgerAgain creates the ledger's stream again with its checkpoints in that order,
// by their numbers.
func (w *ledgered) ledgerAgain(order ...uint64) {
	w.t.Helper()
	st := w.stream(journal.LedgerName("test"))
	config := st.CachedInfo().Config
	var msgs []*nats.Msg
	for _, seq := range order {
		raw, err := st.GetMsg(w.t.Context(), seq)
		if err != nil {
			w.t.Fatal(err)
		}
		msgs = append(msgs, &nats.Msg{Subject: raw.Subject, Data: raw.Data})
	}
	js := bustest.JetStream(w.t, w.Bus)
	if err := js.DeleteStream(w.t.Context(), config.Name); err != nil {
		w.t.Fatal(err)
	}
	if _, err := js.CreateStream(w.t.Context(), config); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range msgs {
		bustest.Store(w.t, w.Conn("forger"), m)
	}
	w.open()
}

// Verification finds every change of the ledger. If both journal and ledger were reset to an earlier
// state, a copy of a later checkpoint reveals it.
func TestTamperedLedger(t *testing.T) {
	signed := func(t *testing.T) *ledgered {
		t.Helper()
		w := newLedgered(t)
		for i := range 3 {
			w.sign()
			bustest.MustAppend(t, w.j, bustest.CallRecord(fmt.Sprint("x", i), bustest.CallKey(fmt.Sprint("x", i)), message.ToolCallPending, "propose"), 0)
		}
		w.sign()
		return w
	}
	for name, tc := range map[string]struct {
		order []uint64
		kind  proof.Kind
	}{
		"swapped":     {[]uint64{1, 3, 2, 4}, proof.LostCheckpoint},
		"one missing": {[]uint64{1, 2, 4}, proof.LostCheckpoint},
		"the first":   {[]uint64{2, 3, 4}, proof.LostCheckpoint},
		"none left":   {nil, proof.NoCheckpoint},
	} {
		t.Run(name, func(t *testing.T) {
			w := signed(t)
			w.ledgerAgain(tc.order...)
			w.found2(tc.kind)
		})
	}
	t.Run("an older day", func(t *testing.T) {
		w := signed(t)
		anchor := w.verify().Anchor
		w.again(func(m []*nats.Msg) []*nats.Msg { return m[:10] })
		w.found2(proof.RolledBack)
		w.ledgerAgain(1, 2)
		if r := w.verify(); !r.OK { // no one could tell
			t.Errorf("found %v", r.Findings)
		}
		r := bustest.VerifyAgainst(t, w.l, proof.Options{Keys: toolcall.NewKeySet(w.Keys().Public()), Anchor: anchor})
		if r.Found != 1 || r.Findings[0].Kind != proof.LostCheckpoint || r.Findings[0].Checkpoint != anchor.Number {
			t.Errorf("against the checkpoint that was kept: %v", r.Findings)
		}
	})
}

// retireKey returns the keys with their key in use, and those in which another has replaced it and it
// was retired.
func (w *ledgered) retireKey(at time.Time) (before, after *keyfile.Keys) {
	w.t.Helper()
	before = w.Keys()
	after, err := before.Rotated(at)
	if err == nil {
		after, err = after.Retired(before.SigningID(), at)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return before, after
}

// putCheckpoint signs and stores a checkpoint over the records as they are; one that does not exist
// has the subject x.
func (w *ledgered) putCheckpoint(l *journal.Ledger, c proof.Checkpoint, key ed25519.PrivateKey) proof.Checkpoint {
	w.t.Helper()
	entries := slices.Repeat([]proof.Entry{{Subject: "x"}}, int(c.To-c.From+1))
	rep, err := l.Records(w.t.Context(), bus.RecordsRequest{After: c.From - 1, Limit: len(entries)})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range rep.Records {
		entries[i] = proof.Entry{Subject: r.Subject, Content: r.Content()}
	}
	c.Space, c.Engine = "test", "e1"
	s, err := proof.Seal(c, entries, key)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := s.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	bustest.Store(w.t, w.Conn("forger"), &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: b})
	return s.Checkpoint
}

// A checkpoint signed by a retired key does not count, and engines continue as if it did not exist.
func TestCheckpointOfARetiredKey(t *testing.T) {
	w := newLedgered(t)
	past := time.Now().Add(-time.Hour)
	stolen, retired := w.retireKey(past)
	path := filepath.Join(t.TempDir(), "engine.pub")
	if err := retired.WritePublic(path); err != nil {
		t.Fatal(err)
	}
	keys, ends, err := keyfile.LoadPublicEver(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), w.Conn("engine"), "test", stolen, journal.Options{Keys: func() *keyfile.Keys { return retired }})
	if err != nil {
		t.Fatal(err)
	}
	l := bustest.LedgerOf(t, j)
	first, err := l.Checkpoint(t.Context())
	if err != nil || first.KeyID != retired.SigningID() {
		t.Fatalf("Checkpoint = %+v, %v", first, err)
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	hash, err := first.Hash()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Now(), past.Add(-time.Hour)} {
		s, err := proof.Seal(proof.Checkpoint{Space: "test", Number: 2, From: 10, To: 10, Prev: hash, At: at, Engine: "e1"}, []proof.Entry{{Subject: "x"}}, stolen.Signer())
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		bustest.Store(t, w.Conn("forger"), &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: b})
		r := bustest.VerifyAgainst(t, l, proof.Options{Keys: keys, Retired: ends})
		if n := len(r.Findings); n == 0 || r.Findings[n-1].Kind != proof.BadCheckpoint || r.Findings[n-1].Checkpoint != 2 {
			t.Errorf("signed at %s: found %v", at, r.Findings)
		}
	}
	next, err := bustest.LedgerOf(t, j).Checkpoint(t.Context())
	if err != nil || next.Number != 2 || next.Prev != hash || next.KeyID != retired.SigningID() {
		t.Errorf("Checkpoint = %+v, %v", next, err)
	}
	if r := bustest.VerifyAgainst(t, l, proof.Options{Keys: keys, Retired: ends}); r.Found != 2 || r.CoverTo != 10 || r.Checkpoints != 2 {
		t.Errorf("verify = %+v", r)
	}
}

// Checkpoints of a retired key with times before its end do not vouch for each other, with any
// numbers, and the loss that one of them states is not accepted.
func TestCheckpointsOfARetiredKey(t *testing.T) {
	w := newLedgered(t)
	past := time.Now().Add(-time.Hour)
	stolen, retired := w.retireKey(past)
	j, err := journal.Open(t.Context(), w.Conn("engine"), "test", stolen, journal.Options{Keys: func() *keyfile.Keys { return retired }})
	if err != nil {
		t.Fatal(err)
	}
	l := bustest.LedgerOf(t, j)
	first, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(c proof.Checkpoint, key ed25519.PrivateKey) proof.Checkpoint {
		t.Helper()
		c.To = c.From
		return w.putCheckpoint(l, c, key)
	}
	hashOf := func(c proof.Checkpoint) proof.Hash {
		hash, err := c.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	lost := put(proof.Checkpoint{Number: 2, From: 10, Prev: hashOf(*first), At: time.Now(), Losses: 1, Loss: &proof.Loss{By: "olga", At: time.Now()}}, retired.Signer())
	backdated := past.Add(-time.Hour)
	put(proof.Checkpoint{Number: 2, From: 10, Prev: hashOf(*first), At: backdated, Losses: 1}, stolen.Signer())
	forged := put(proof.Checkpoint{Number: 3, From: 11, Prev: hashOf(lost), At: backdated, Losses: 2, Loss: &proof.Loss{By: "olga", At: backdated, Missing: []proof.Range{{From: 5, Through: 5}}}}, stolen.Signer())
	put(proof.Checkpoint{Number: 4, From: 12, Prev: hashOf(forged), At: backdated, Losses: 2}, stolen.Signer())
	put(proof.Checkpoint{Number: 2, From: 10, Prev: hashOf(*first), At: backdated, Losses: 1}, stolen.Signer())

	bustest.MustAppend(t, w.j, bustest.CallRecord("x2", bustest.CallKey("y"), message.ToolCallPending, "propose"), 0)
	if next, err := bustest.LedgerOf(t, j).Checkpoint(t.Context()); err != nil || next.Number != 3 || next.Prev != hashOf(lost) {
		t.Errorf("the next checkpoint is %+v, %v; want the one after 2", next, err)
	}
	if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	x, err := journal.Compare(t.Context(), w.Conn("reader"), "test", retired, nil)
	if err != nil || x.OK || len(x.Losses) != 1 || len(x.Flaws) != 1 || x.Flaws[0].Kind != journal.FlawHole {
		t.Errorf("the journal lacks a record: %+v, %v", x, err)
	}
	o := proof.Options{Keys: retired.VerificationKeys(), Retired: retired.RetirementTimes()}
	signed := journal.Bodies(journal.Walk(t.Context(), l, bus.AuditCheckpoints, 0, 100))
	if o.Losses, err = proof.Losses(signed, o.Keys, o.Retired); err != nil || len(o.Losses) != 1 {
		t.Errorf("accepted losses: %+v, %v", o.Losses, err)
	}
	r := bustest.VerifyAgainst(t, l, o)
	if !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == proof.Removed && f.Seq == 5 }) {
		t.Errorf("found %v", r.Findings)
	}
}

// If the end of the journal after the last checkpoint is removed in place, the store still knows the
// last sequence.
func TestTruncatedStream(t *testing.T) {
	w := newLedgered(t)
	w.sign()
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	if err := w.stream(bus.StreamName("test")).DeleteMsg(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	w.found(proof.Truncated, 10, "")
}

// The proof of the records survives their deletion.
func TestPurgedStream(t *testing.T) {
	w := newLedgered(t)
	w.sign()
	if err := w.stream(bus.StreamName("test")).Purge(t.Context(), jetstream.WithPurgeSequence(6)); err != nil {
		t.Fatal(err)
	}
	r := w.verify()
	if r.Found != 1 || r.Findings[0].Kind != proof.Purged || r.Findings[0].Seq != 1 || r.Findings[0].Through != 5 || r.Records != 4 || r.CoverFrom != 1 {
		t.Errorf("verify = %+v", r)
	}
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	if c := w.sign(); c.From != 10 {
		t.Errorf("after a purge %+v was signed", c)
	}
}

// Verification finds checkpoints that were not signed with the engine's key, and engines continue
// after them.
func TestForgedCheckpoint(t *testing.T) {
	w := newLedgered(t)
	first := w.sign()
	other, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	at := *first
	hash, err := first.Hash()
	if err != nil {
		t.Fatal(err)
	}
	at.Number, at.From, at.To, at.Prev = 2, 10, 10, hash
	s, err := proof.Seal(at, []proof.Entry{{Subject: "x"}}, other.Signer())
	if err != nil {
		t.Fatal(err)
	}
	s.Checkpoint.KeyID = w.Keys().ID() // as if it were from this engine
	forgery, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	nc := w.Conn("forger")
	subject := "askance.v1.test.proof.checkpoint"
	for _, body := range []string{string(forgery), "rubbish", string(bustest.Genuine(t, nc, journal.LedgerName("test"), 1).Data)} {
		bustest.Store(t, nc, &nats.Msg{Subject: subject, Data: []byte(body)})
	}
	w.found2(proof.BadCheckpoint, proof.LostCheckpoint)
	w.open()
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	if c := w.sign(); c.Number != 2 || c.From != 10 || c.Prev != hash {
		t.Errorf("behind forgeries %+v was signed", c)
	}
	r := w.verify()
	if r.Found != 3 || r.Checkpoints != 2 || r.CoverTo != 10 {
		t.Errorf("verify = %+v", r)
	}
	if err := w.stream(journal.LedgerName("test")).DeleteMsg(t.Context(), 1); err == nil {
		t.Error("a checkpoint could be deleted")
	}
	if err := w.stream(journal.LedgerName("test")).Purge(t.Context()); err == nil {
		t.Error("the ledger could be purged")
	}
}

// found2 checks that each kind is found.
func (w *ledgered) found2(kinds ...proof.Kind) {
	w.t.Helper()
	r := w.verify()
	for _, k := range kinds {
		if !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == k }) {
			w.t.Errorf("found %v, want %s", r.Findings, k)
		}
	}
}

// An engine does not begin a new ledger after one that an unknown key signed.
func TestLedgerOfAnotherKey(t *testing.T) {
	w := newLedgered(t)
	first := w.sign()
	other, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	next := *first
	if next.Prev, err = first.Hash(); err != nil {
		t.Fatal(err)
	}
	next.Number, next.From, next.To = 2, 10, 10
	s, err := proof.Seal(next, []proof.Entry{{Subject: "x"}}, other.Signer())
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	bustest.Store(t, w.Conn("other"), &nats.Msg{Subject: "askance.v1.test.proof.checkpoint", Data: body})
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	if c, err := w.l.Checkpoint(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown here") {
		t.Errorf("Checkpoint = %+v, %v", c, err)
	}
}

// Engines that sign at the same time and are killed while signing leave one history.
func TestLedgerRaces(t *testing.T) {
	w := newLedgered(t)
	var wg sync.WaitGroup
	for e := range 4 {
		j := w.Journal("test")
		l := bustest.LedgerOf(t, j)
		wg.Go(func() {
			var prev uint64
			for i := range 25 {
				rec := bustest.CallRecord(fmt.Sprintf("race-%d-%d", e, i), bustest.CallKey(fmt.Sprintf("race%d", e)), message.ToolCallPending, "hide")
				seq, err := j.Append(context.Background(), rec, prev)
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				prev = seq
				ctx, kill := context.WithCancel(context.Background())
				if i%3 == 0 { // dies at some moment while it signs
					go kill()
				}
				_, err = l.Checkpoint(ctx)
				if err != nil && ctx.Err() == nil {
					t.Errorf("checkpoint: %v", err)
				}
				kill()
			}
		})
	}
	wg.Wait()
	c := w.sign()
	if r := w.verify(); !r.OK || r.Records != 109 || r.CoverTo != 109 || r.Checkpoints != c.Number || r.Chained != 109 {
		t.Errorf("verify = %+v; the last checkpoint is %+v", r, c)
	}
}

// More records than fit in one checkpoint are signed in several, and read in several pages.
func TestLargeJournal(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	const n = proof.MaxRecords + 900
	events := make([]message.RawJSON, 0, n)
	for i := range n {
		events = append(events, message.RawJSON(fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, i)))
	}
	for part := range slices.Chunk(events, 500) {
		if _, err := j.AppendEvent(t.Context(), "rt", bustest.CallKey("").ReplyKey(), part); err != nil {
			t.Fatal(err)
		}
	}
	l := bustest.LedgerOf(t, j)
	c, err := l.Checkpoint(t.Context())
	if err != nil || c.Number != 2 || c.From != proof.MaxRecords+1 || c.To != n {
		t.Fatalf("Checkpoint = %+v, %v", c, err)
	}
	if r := bustest.VerifyWith(t, l, toolcall.NewKeySet(b.Keys().Public())); !r.OK || r.Records != n || r.Checkpoints != 2 {
		t.Errorf("verify = %+v", r)
	}
}

// A leader that lacks records, because it is behind or cut off, gets no checkpoint that says that
// there are none.
func TestNoCheckpointOfRecordsThatTheLeaderLacks(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	writer, leader := b.Journal("test"), newOblivious(t, b)
	l := bustest.LedgerOf(t, leader.journal(t, journal.Options{}))
	for i := range 5 {
		bustest.MustAppend(t, writer, bustest.CallRecord(bustest.ID(i), bustest.CallKey(bustest.ID(i)), message.ToolCallPending, "propose"), 0)
		if i == 2 {
			_, _ = l.Checkpoint(t.Context())
		}
	}
	leader.forget(0, 4, 5)
	if c, err := l.Checkpoint(t.Context()); !errors.Is(err, message.ErrUnavailable) {
		t.Fatalf("signed up to %+v, %v", c, err)
	}
	leader.forget(0)
	if c, err := l.Checkpoint(t.Context()); err != nil || c.To != 5 {
		t.Fatalf("signed up to %+v, %v", c, err)
	}
	if r := bustest.VerifyWith(t, l, b.Keys().VerificationKeys()); len(r.Findings) > 0 {
		t.Errorf("the proof has the findings %+v", r.Findings)
	}
}

// A missing ledger is created with the first checkpoint.
func TestLedgerIsMadeLate(t *testing.T) {
	w := newLedgered(t)
	js := bustest.JetStream(t, w.Bus)
	if err := js.DeleteStream(t.Context(), journal.LedgerName("test")); err != nil {
		t.Fatal(err)
	}
	late, err := journal.OpenLedger(t.Context(), w.j, journal.LedgerOptions{Existing: true, Engine: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := late.Records(t.Context(), bus.RecordsRequest{Of: bus.AuditCheckpoints}); err != nil || len(rep.Records) != 0 {
		t.Errorf("Records of no ledger = %+v, %v", rep, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = late.Run(ctx, journal.Pace{Every: 1}) }() // ends with ctx
	for rep := (bus.RecordsReply{}); len(rep.Records) == 0; {
		if rep, err = late.Records(t.Context(), bus.RecordsRequest{Of: bus.AuditCheckpoints}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
	w.l = late
	if r := w.verify(); !r.OK || r.CoverTo != 9 {
		t.Errorf("verify = %+v", r)
	}
}

func TestRecordsRefuses(t *testing.T) {
	w := newLedgered(t)
	if _, err := w.l.Records(t.Context(), bus.RecordsRequest{Of: "secrets"}); err == nil {
		t.Error("records of something else were returned")
	}
	rep, err := w.l.Records(t.Context(), bus.RecordsRequest{After: 100})
	if err != nil || len(rep.Records) != 0 || rep.Next != 100 || rep.Last != 9 {
		t.Errorf("behind the end: %+v, %v", rep, err)
	}
	rep, err = w.l.Records(t.Context(), bus.RecordsRequest{After: 3, Limit: 2})
	if err != nil || len(rep.Records) != 2 || rep.Records[0].Seq != 4 || rep.Next != 5 {
		t.Errorf("a page: %+v, %v", rep, err)
	}
}

var _ iter.Seq2[proof.Record, error] = journal.Walk(context.Background(), nil, bus.AuditJournal, 0, 0)

// While nothing was signed since a key was retired, its last checkpoint is genuine, and one that the
// server stored later is not, at any time that it states.
func TestCheckpointBehindTheLastOfARetiredKey(t *testing.T) {
	w := newLedgered(t)
	past := time.Now().Add(-time.Hour)
	stolen, retired := w.retireKey(past)
	keys := stolen
	j, err := journal.Open(t.Context(), w.Conn("engine"), "test", stolen, journal.Options{Keys: func() *keyfile.Keys { return keys }})
	if err != nil {
		t.Fatal(err)
	}
	l := bustest.LedgerOf(t, j)
	w.putCheckpoint(l, proof.Checkpoint{Number: 1, From: 1, To: 9, At: past.Add(-time.Hour)}, stolen.Signer())
	first, err := l.Checkpoint(t.Context())
	if err != nil || first.Number != 1 {
		t.Fatalf("Checkpoint = %+v, %v", first, err)
	}
	keys = retired
	bustest.MustAppend(t, w.j, bustest.CallRecord("x1", bustest.CallKey("x"), message.ToolCallPending, "propose"), 0)
	hash, err := first.Hash()
	if err != nil {
		t.Fatal(err)
	}
	w.putCheckpoint(l, proof.Checkpoint{Number: 2, From: 10, To: 10, Prev: hash, At: past.Add(-time.Minute), Losses: 1, Loss: &proof.Loss{By: "olga", At: past, Missing: []proof.Range{{From: 5, Through: 5}}}}, stolen.Signer())
	if next, err := l.Checkpoint(t.Context()); err != nil || next.Number != 2 || next.Prev != hash || next.Losses != 0 {
		t.Errorf("the next checkpoint is %+v, %v; want the one after 1, without a loss", next, err)
	}
}
