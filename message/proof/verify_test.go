package proof_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

var (
	signer = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))
	keys   = toolcall.NewKeySet(signer.Public().(ed25519.PublicKey))
	at     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// journal is a journal with event records of some calls and its checkpoints.
type journal struct {
	records []proof.Record
	sealed  [][]byte
	last    uint64 // the last sequence that the store reports
	first   uint64
	// mark, if set, returns what may be shown of the next record.
	mark func(link *toolcall.Link) string
	// earlier is set if an earlier release writes, which names the kind of each record.
	earlier bool
}

// name returns the call that a subject of these tests contains.
func name(subject string) string { return strings.TrimSuffix(subject, ".f") }

// write appends a linked event record of a call.
func (j *journal) write(call string, text string) {
	link := &toolcall.Link{}
	for _, r := range slices.Backward(j.records) {
		if r.Entity == call && r.Invalid == "" {
			link = proof.LinkTo(r.Seq, r.Leaf())
			break
		}
	}
	body, err := strictjson.Marshal(struct {
		ID   string         `json:"id"`
		Prev *toolcall.Link `json:"prev"`
	}{text, link})
	if err != nil {
		panic(err)
	}
	j.last++
	r := proof.Record{Seq: j.last, Subject: call + ".f", Entity: call, Header: map[string][]string{"Nats-Msg-Id": {text}}}
	r.SetBody(body)
	if j.earlier {
		r.Header["Askance-Kind"] = []string{"allow"}
	}
	if j.mark != nil {
		r.Header[proof.HeaderShown] = []string{j.mark(link)}
		j.mark = nil
	}
	j.records = append(j.records, r)
}

// seal signs all unsigned records, size records at a time.
func (j *journal) seal(size int) {
	var prev *proof.Checkpoint
	if n := len(j.sealed); n > 0 {
		s, err := proof.DecodeSealed(j.sealed[n-1])
		if err != nil {
			panic(err)
		}
		prev = &s.Checkpoint
	}
	for {
		c := proof.Checkpoint{Space: "test", Number: 1, From: 1, At: at, Engine: "e"}
		if prev != nil {
			hash, err := prev.Hash()
			if err != nil {
				panic(err)
			}
			c.Number, c.From, c.Prev = prev.Number+1, prev.To+1, hash
		}
		var entries []proof.Entry
		for seq := c.From; seq <= j.last && len(entries) < size; seq++ {
			r := j.records[seq-1]
			entry := proof.Entry{Subject: r.Subject, Content: r.Content()}
			if r.Invalid != "" {
				entry = entry.Foreign()
			}
			entries = append(entries, entry)
		}
		if len(entries) == 0 {
			return
		}
		c.To = c.From + uint64(len(entries)) - 1
		s, err := proof.Seal(c, entries, signer)
		if err != nil {
			panic(err)
		}
		b, err := s.Encode()
		if err != nil {
			panic(err)
		}
		j.sealed = append(j.sealed, b)
		prev = &s.Checkpoint
	}
}

// again numbers the records as a recreated stream does.
func (j *journal) again() {
	for i := range j.records {
		j.records[i].Seq = uint64(i + 1)
	}
	j.last = uint64(len(j.records))
}

func each[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (j *journal) verify(o proof.Options) *proof.Report {
	o.Space, o.First, o.Last, o.Name = "test", j.first, j.last, name
	if o.Keys == nil {
		o.Keys = keys
	}
	r, err := proof.Verify(each(j.sealed), each(j.records), o)
	if err != nil {
		panic(err)
	}
	return r
}

// story returns a journal of 30 event records of three calls, one record of each in turn.
func story(sealed int) *journal {
	j := &journal{}
	j.writeStory(sealed)
	return j
}

func (j *journal) writeStory(sealed int) {
	for i := range 30 {
		j.write(fmt.Sprintf("call-%d", i%3), fmt.Sprintf("record-%d", i+1))
		if j.last == uint64(sealed) {
			j.seal(8)
		}
	}
}

func TestGenuine(t *testing.T) {
	for _, sealed := range []int{1, 8, 20, 30} {
		r := story(sealed).verify(proof.Options{})
		if !r.OK || r.Records != 30 || r.Chained != 30 || r.Trees != 3 || r.CoverTo != uint64(sealed) || r.Uncovered != uint64(30-sealed) {
			t.Errorf("sealed up to %d: %+v", sealed, r)
		}
	}
}

// A long journal is read ahead in many parts, which are processed in order. The findings do not
// depend on the number of workers.
func TestLongJournal(t *testing.T) {
	j := &journal{}
	for i := range 1500 {
		j.write(fmt.Sprintf("call-%d", i%3), fmt.Sprintf("record-%d", i+1))
	}
	j.seal(100)
	for _, workers := range []int{0, 1, 7} {
		if r := j.verify(proof.Options{Workers: workers}); !r.OK || r.Records != 1500 || r.Chained != 1500 || r.Checkpoints != 15 || r.Uncovered != 0 {
			t.Errorf("%d workers: %+v", workers, r)
		}
	}
	tampering[0].do(j, 700)
	j.records[1200], j.records[1201] = j.records[1201], j.records[1200]
	want := j.verify(proof.Options{Workers: 1})
	if want.Found != 3 || want.Findings[0].Seq != 701 {
		t.Errorf("found %v", want.Findings)
	}
	for _, workers := range []int{2, 7} {
		if r := j.verify(proof.Options{Workers: workers}); !reflect.DeepEqual(r, want) {
			t.Errorf("%d workers found %v, one worker found %v", workers, r.Findings, want.Findings)
		}
	}
}

// Verification returns the error of a reader, after all readers have ended.
func TestReadersEnd(t *testing.T) {
	broken := errors.New("broken")
	j := story(30)
	for _, after := range []int{0, 1, 29} {
		for _, ofRecords := range []bool{true, false} {
			var reading atomic.Int32
			checkpoints, records := counted(&reading, j.sealed, nil, len(j.sealed)), counted(&reading, j.records, broken, after)
			if !ofRecords {
				checkpoints, records = counted(&reading, j.sealed, broken, min(after, 3)), counted(&reading, j.records, nil, 30)
			}
			if _, err := proof.Verify(checkpoints, records, proof.Options{Keys: keys, Space: "test", Last: 30}); !errors.Is(err, broken) {
				t.Errorf("after %d: %v", after, err)
			}
			if n := reading.Load(); n != 0 {
				t.Errorf("after %d: %d readers have not ended", after, n)
			}
		}
	}
}

// counted yields the first values and then an error, if there is one. reading counts the active
// iterators.
func counted[T any](reading *atomic.Int32, all []T, err error, first int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		reading.Add(1)
		defer reading.Add(-1)
		for _, v := range all[:first] {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// tampering changes the record with index i, or the journal around it.
var tampering = []struct {
	kind proof.Kind
	name string
	do   func(j *journal, i int)
}{
	{proof.Changed, "body in place", func(j *journal, i int) {
		j.records[i].SetBody([]byte(strings.Replace(j.records[i].Text, "record-", "fake-", 1)))
	}},
	{proof.Changed, "header in place", func(j *journal, i int) { j.records[i].Header = map[string][]string{"Nats-Msg-Id": {"x"}} }},
	{proof.Removed, "leaving a hole", func(j *journal, i int) { j.records = slices.Delete(j.records, i, i+1) }},
	{proof.Removed, "in a stream made again", func(j *journal, i int) { j.records = slices.Delete(j.records, i, i+1); j.again() }},
	{proof.Inserted, "a copy, in a stream made again", func(j *journal, i int) {
		j.records = slices.Insert(j.records, i, j.records[i-3])
		j.again()
	}},
	{proof.Reordered, "next to each other, in a stream made again", func(j *journal, i int) {
		j.records[i], j.records[i-1] = j.records[i-1], j.records[i]
		j.again()
	}},
	{proof.Reordered, "within a call, in a stream made again", func(j *journal, i int) {
		j.records[i], j.records[i-3] = j.records[i-3], j.records[i]
		j.again()
	}},
}

// Each kind of tampering is found and named, under a checkpoint and after it.
func TestTampering(t *testing.T) {
	for _, tc := range tampering {
		for _, sealed := range []int{30, 10} {
			t.Run(fmt.Sprintf("%s %s, signed up to %d", tc.kind, tc.name, sealed), func(t *testing.T) {
				j := story(sealed)
				const i = 17 // record-18, of call-2
				tc.do(j, i)
				r := j.verify(proof.Options{})
				if r.OK || r.Found == 0 {
					t.Fatalf("nothing was found: %+v", r)
				}
				n := slices.IndexFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == tc.kind })
				if n < 0 {
					t.Fatalf("found %v, want %s", r.Findings, tc.kind)
				}
				f := r.Findings[n]
				if sealed == 30 && (r.Found > 2 || f.Seq < 15 || f.Seq > 18 || f.Call == "" || f.Checkpoint == 0 && tc.kind != proof.Inserted) {
					t.Errorf("found %v; want one finding near 18 that names its call", r.Findings)
				}
				for _, f := range r.Findings {
					if f.Kind != tc.kind {
						t.Errorf("also found %s", f)
					}
				}
			})
		}
	}
}

func TestEnds(t *testing.T) {
	t.Run("truncated after the last checkpoint", func(t *testing.T) {
		j := story(20)
		j.records = j.records[:27]
		r := j.verify(proof.Options{})
		if r.Found != 1 || r.Findings[0].Kind != proof.Truncated || r.Findings[0].Seq != 28 || r.Findings[0].Through != 30 {
			t.Errorf("found %v", r.Findings)
		}
	})
	t.Run("rolled back", func(t *testing.T) {
		j := story(20)
		j.records, j.last = j.records[:12], 12
		r := j.verify(proof.Options{})
		if r.Found != 1 || r.Findings[0].Kind != proof.RolledBack || r.Findings[0].Seq != 13 || r.Findings[0].Through != 20 {
			t.Errorf("found %v", r.Findings)
		}
	})
	t.Run("purged", func(t *testing.T) {
		j := story(20)
		j.records, j.first = j.records[12:], 13
		r := j.verify(proof.Options{})
		if r.Found != 1 || r.Findings[0].Kind != proof.Purged || r.Findings[0].Seq != 1 || r.Findings[0].Through != 12 {
			t.Errorf("found %v", r.Findings)
		}
		if r := j.verify(proof.Options{PurgedThrough: 12}); !r.OK || r.Records != 18 {
			t.Errorf("purged on purpose: %+v", r)
		}
		j.records[2].SetBody([]byte(`{}`))
		if r := j.verify(proof.Options{PurgedThrough: 12}); r.Found != 1 || r.Findings[0].Kind != proof.Changed || r.Findings[0].Seq != 15 {
			t.Errorf("changed after a purge: %v", r.Findings)
		}
	})
	t.Run("never signed", func(t *testing.T) {
		j := story(0)
		if r := j.verify(proof.Options{}); r.Found != 1 || r.Findings[0].Kind != proof.NoCheckpoint {
			t.Errorf("found %v", r.Findings)
		}
	})
}

// Records that are missing are found as removed, and nothing else is, however many there are.
// An accepted loss or an archive that is stored elsewhere explains them.
func TestLongHoles(t *testing.T) {
	const from, through, all = 1001, 8000, 10_000
	for _, tc := range []struct {
		name string
		gone func(seq uint64) bool
		want int
	}{
		{"one hole", func(uint64) bool { return true }, through - from + 1},
		{"many holes", func(seq uint64) bool { return seq%10 != 0 }, (through - from + 1) / 10 * 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := &journal{}
			for i := range all {
				j.write(fmt.Sprint("call-", i%50), fmt.Sprint("record-", i+1))
			}
			j.seal(1000)
			var ranges []proof.Range
			j.records = slices.DeleteFunc(j.records, func(r proof.Record) bool {
				gone := r.Seq >= from && r.Seq <= through && tc.gone(r.Seq)
				if gone {
					ranges = append(ranges, proof.Range{From: r.Seq, Through: r.Seq})
				}
				return gone
			})
			r := j.verify(proof.Options{})
			if r.Found != tc.want || slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind != proof.Removed }) {
				t.Errorf("found %d, the first %v", r.Found, r.Findings[:3])
			}
			if r := j.verify(proof.Options{Losses: []proof.Loss{{Missing: ranges}}}); !r.OK || r.Explained != tc.want {
				t.Errorf("with an accepted loss, %d are explained, and found are %v", r.Explained, r.Findings)
			}
			if r := j.verify(proof.Options{Archives: []proof.Archive{{Gone: ranges, Records: uint64(tc.want)}}}); !r.OK || r.NotShown != uint64(tc.want) {
				t.Errorf("with an archive, %d are not shown, and found are %v", r.NotShown, r.Findings)
			}
			j.records[1500].SetBody([]byte(`{}`))
			if r := j.verify(proof.Options{Losses: []proof.Loss{{Missing: ranges}}}); r.Found != 1 || r.Findings[0].Kind != proof.Changed || r.Findings[0].Seq != j.records[1500].Seq {
				t.Errorf("with a changed record found %v", r.Findings)
			}
		})
	}
}

// An event record without a link is a finding.
func TestUnlinked(t *testing.T) {
	j := story(30)
	j.records[29].SetBody([]byte(`{"id":"new"}`))
	j.sealed = nil
	j.seal(8)
	if r := j.verify(proof.Options{}); r.Found != 1 || r.Findings[0].Kind != proof.Unlinked || r.Findings[0].Seq != 30 {
		t.Errorf("found %v", r.Findings)
	}
	first := &journal{}
	first.write("call-0", "record-1")
	first.records[0].SetBody([]byte(`{"id":"new"}`))
	first.seal(8)
	if r := first.verify(proof.Options{}); r.Found != 1 || r.Findings[0].Kind != proof.Unlinked || r.Findings[0].Seq != 1 {
		t.Errorf("in the first record found %v", r.Findings)
	}
}

func TestCheckpoints(t *testing.T) {
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32)))
	tests := []struct {
		name string
		kind proof.Kind
		do   func(t *testing.T, j *journal)
	}{
		{"forged by another key", proof.BadCheckpoint, func(t *testing.T, j *journal) {
			j.sealed[1] = resign(t, j.sealed[1], other, func(c *proof.Checkpoint) {})
		}},
		{"changed", proof.BadCheckpoint, func(t *testing.T, j *journal) {
			j.sealed[1] = []byte(strings.Replace(string(j.sealed[1]), `"engine":"e"`, `"engine":"f"`, 1))
		}},
		{"rubbish", proof.BadCheckpoint, func(_ *testing.T, j *journal) { j.sealed[1] = []byte(`{}`) }},
		{"one is missing", proof.LostCheckpoint, func(_ *testing.T, j *journal) { j.sealed = slices.Delete(j.sealed, 1, 2) }},
		{"the first is missing", proof.LostCheckpoint, func(_ *testing.T, j *journal) { j.sealed = j.sealed[1:] }},
		{"one is duplicated", proof.LostCheckpoint, func(_ *testing.T, j *journal) { j.sealed = append(j.sealed, j.sealed[1]) }},
		{"two are swapped", proof.LostCheckpoint, func(_ *testing.T, j *journal) { j.sealed[1], j.sealed[2] = j.sealed[2], j.sealed[1] }},
		{"another history", proof.LostCheckpoint, func(t *testing.T, j *journal) {
			j.sealed[1] = resign(t, j.sealed[1], signer, func(c *proof.Checkpoint) { c.Prev[0]++ })
		}},
		{"of another space", proof.BadCheckpoint, func(t *testing.T, j *journal) {
			j.sealed[1] = resign(t, j.sealed[1], signer, func(c *proof.Checkpoint) { c.Space = "other" })
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			j := story(30)
			tc.do(t, j)
			r := j.verify(proof.Options{})
			if r.OK || !slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == tc.kind }) {
				t.Errorf("found %v, want %s", r.Findings, tc.kind)
			}
			if slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind != proof.BadCheckpoint && f.Kind != proof.LostCheckpoint }) {
				t.Errorf("found %v, but all records are genuine", r.Findings)
			}
		})
	}
}

// A retired key proves what it signed before, and nothing after.
func TestRetiredKey(t *testing.T) {
	next := ed25519.NewKeyFromSeed([]byte(strings.Repeat("n", 32)))
	both := toolcall.NewKeySet(signer.Public().(ed25519.PublicKey), next.Public().(ed25519.PublicKey))
	old := toolcall.KeyID(signer.Public().(ed25519.PublicKey))
	const hour = time.Hour
	type by struct {
		key   ed25519.PrivateKey
		after time.Duration
	}
	for name, tc := range map[string]struct {
		signed []by // the checkpoints after the first
		bad    uint64
	}{
		"before":                   {[]by{{signer, 0}, {signer, hour}}, 0},
		"the next key continues":   {[]by{{signer, 0}, {next, 3 * hour}, {next, 4 * hour}}, 0},
		"before all engines know":  {[]by{{next, hour}, {signer, hour + 30*time.Second}}, 0},
		"after":                    {[]by{{signer, 3 * hour}}, 2},
		"after, with another time": {[]by{{next, 3 * hour}, {signer, 0}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			j := story(30)
			j.sealed = j.sealed[:1]
			prev, err := proof.DecodeSealed(j.sealed[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, by := range tc.signed {
				c := proof.Checkpoint{Space: "test", Number: prev.Checkpoint.Number + 1, From: prev.Checkpoint.To + 1, To: prev.Checkpoint.To + 1, At: at.Add(by.after), Engine: "e"}
				if c.Prev, err = prev.Checkpoint.Hash(); err != nil {
					t.Fatal(err)
				}
				r := j.records[c.From-1]
				if prev, err = proof.Seal(c, []proof.Entry{{Subject: r.Subject, Content: r.Content()}}, by.key); err != nil {
					t.Fatal(err)
				}
				b, err := prev.Encode()
				if err != nil {
					t.Fatal(err)
				}
				j.sealed = append(j.sealed, b)
			}
			r := j.verify(proof.Options{Keys: both, Retired: proof.Retired{old: at.Add(hour)}})
			if tc.bad == 0 != r.OK || !r.OK && (r.Found != 1 || r.Findings[0].Kind != proof.BadCheckpoint || r.Findings[0].Checkpoint != tc.bad || !strings.Contains(r.Findings[0].What, "was already retired at")) {
				t.Errorf("found %v, want checkpoint %d to be bad", r.Findings, tc.bad)
			}
		})
	}
	r, err := proof.DecodeReceipt(receipt(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Check(keys, proof.Retired{old: at}); err != nil {
		t.Errorf("a receipt from before: %v", err)
	}
	if _, err := r.Check(keys, proof.Retired{old: at.Add(-hour)}); err == nil {
		t.Error("a receipt by a key that was retired earlier is accepted")
	}
}

func resign(t *testing.T, raw []byte, key ed25519.PrivateKey, change func(*proof.Checkpoint)) []byte {
	t.Helper()
	s, err := proof.DecodeSealed(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(&s.Checkpoint)
	if err := s.Checkpoint.Sign(key); err != nil {
		t.Fatal(err)
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The journal and the checkpoints of an earlier day are consistent. Only a reader who kept a
// later checkpoint can notice.
func TestAnchor(t *testing.T) {
	old := story(30)
	anchor := old.verify(proof.Options{}).Anchor
	if r := old.verify(proof.Options{Anchor: anchor}); !r.OK {
		t.Errorf("found %v", r.Findings)
	}
	young := story(10)
	young.records, young.last = young.records[:10], 10
	if r := young.verify(proof.Options{}); !r.OK {
		t.Fatalf("found %v", r.Findings)
	}
	if r := young.verify(proof.Options{Anchor: anchor}); r.Found != 1 || r.Findings[0].Kind != proof.LostCheckpoint {
		t.Errorf("found %v, want a lost checkpoint", r.Findings)
	}
}

// After a rotation, an engine signs with the new key.
func TestRotatedKey(t *testing.T) {
	next := ed25519.NewKeyFromSeed([]byte(strings.Repeat("n", 32)))
	j := story(30)
	last := len(j.sealed) - 1
	j.sealed[last] = resign(t, j.sealed[last], next, func(*proof.Checkpoint) {})
	both := toolcall.NewKeySet(signer.Public().(ed25519.PublicKey), next.Public().(ed25519.PublicKey))
	if r := j.verify(proof.Options{Keys: both}); !r.OK {
		t.Errorf("with both keys: %v", r.Findings)
	}
	if r := j.verify(proof.Options{}); r.OK {
		t.Error("nothing was found without the new key")
	}
}

// A selection proves each of its records, and nothing about the others.
func TestSelection(t *testing.T) {
	j := story(20)
	j.records = []proof.Record{j.records[3], j.records[9], j.records[25]}
	r := j.verify(proof.Options{Partial: true})
	if !r.OK || !r.Partial || r.Records != 3 || r.Uncovered != 1 || r.CoverTo != 20 {
		t.Errorf("verify = %+v", r)
	}
	j.records[1].SetBody([]byte(`{}`))
	r = j.verify(proof.Options{Partial: true})
	if r.Found != 1 || r.Findings[0].Kind != proof.Changed || r.Findings[0].Seq != 10 || r.Findings[0].Call != "call-0" {
		t.Errorf("found %v", r.Findings)
	}
}

// A redacted record is proved by the hash of its original body. The visible part is proved by the
// engine's statement.
func TestRedacted(t *testing.T) {
	j := &journal{earlier: true}
	j.writeStory(30)
	r := &j.records[5]
	whole := *r
	redact := func(shown string, what ...string) {
		*r = whole
		r.BodyHash, r.Text, r.Redacted = proof.BodyHash(whole.Body()), shown, what
	}
	wrong := func(name string, kind proof.Kind) {
		t.Helper()
		if rep := j.verify(proof.Options{}); rep.Found != 1 || rep.Findings[0].Kind != kind || rep.Findings[0].Seq != r.Seq {
			t.Errorf("%s: verify = %+v", name, rep)
		}
	}
	redact(proof.RedactedWhole, "*") // made by an earlier engine
	if rep := j.verify(proof.Options{}); !rep.OK || rep.Redacted != 1 {
		t.Errorf("verify = %+v", rep)
	}
	r.BodyHash[0]++
	if rep := j.verify(proof.Options{}); rep.OK {
		t.Error("another hash was accepted")
	}
	redact(proof.RedactedWhole)
	wrong("without saying what", proof.Changed)
	redact(`{"v":1}`, "*")
	wrong("nothing proves what is shown", proof.Changed)
	*r = whole
	r.Redacted = []string{"args.pin"}
	wrong("nothing is taken out", proof.Changed)

	j = story(30)
	r = &j.records[5]
	whole = *r
	redact(proof.RedactedWhole, "*")
	wrong("an open record of this release", proof.Withheld)
	redact(`{"id":"record-6"}`, "*")
	wrong("a part of an open record", proof.Changed)

	var good string
	j = &journal{}
	for i := range 30 {
		if i == 5 {
			j.mark = func(link *toolcall.Link) string {
				good = fmt.Sprintf(`{"v":1,"call":{"redact":["args.pin"],"of_a_later_release":1},"prev":{"seq":%d,"hash":%q}}`, link.Seq, link.Hash)
				return proof.BodyHash([]byte(good)).String()
			}
		}
		j.write(fmt.Sprintf("call-%d", i%3), fmt.Sprintf("record-%d", i+1))
	}
	j.seal(8)
	r = &j.records[5]
	whole = *r
	redact(good, "args.pin")
	if rep := j.verify(proof.Options{}); !rep.OK || rep.Redacted != 1 || rep.Chained != 30 {
		t.Errorf("verify = %+v", rep)
	}
	redact(proof.RedactedWhole, "*")
	wrong("withheld", proof.Withheld)
	redact(good, "args.pan")
	wrong("another path", proof.Changed)
	redact(strings.Replace(good, "sha256:", "sha256:0", 1), "args.pin")
	wrong("another body", proof.Changed)
}

// Any change of a signed journal is found, and found as what it is.
func TestTamperingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(4, 60).Draw(t, "event_records")
		j := &journal{}
		for i := range n {
			j.write(fmt.Sprintf("call-%d", rapid.IntRange(0, 4).Draw(t, "call")), fmt.Sprintf("record-%d", i+1))
		}
		j.seal(rapid.IntRange(1, 70).Draw(t, "size"))
		before := slices.Clone(j.records)
		i := rapid.IntRange(0, n-1).Draw(t, "where")
		var want proof.Kind
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			want = proof.Changed
			j.records[i].SetBody([]byte(`{"id":"forged"}`))
		case 1:
			want = proof.Removed
			j.records = slices.Delete(j.records, i, i+1)
			if rapid.Bool().Draw(t, "made again") {
				j.again()
				if i == n-1 {
					want = proof.RolledBack
				}
			}
		case 2:
			want = proof.Inserted
			forged := j.records[i]
			forged.SetBody([]byte(`{"id":"forged","prev":{"seq":0}}`))
			j.records = slices.Insert(j.records, i, forged)
			j.again()
		case 3:
			want = proof.Reordered
			k := rapid.IntRange(0, n-1).Filter(func(k int) bool { return k != i }).Draw(t, "with")
			j.records[i], j.records[k] = j.records[k], j.records[i]
			j.again()
		}
		r := j.verify(proof.Options{})
		if r.OK {
			t.Fatalf("nothing was found; want %s at %d", want, i+1)
		}
		for _, f := range r.Findings {
			if f.Kind != want || f.Call == "" {
				t.Fatalf("found %v; want only %s at %d, with its call", r.Findings, want, i+1)
			}
		}
		j.records = before
		j.last = uint64(n)
		if r := j.verify(proof.Options{}); !r.OK {
			t.Fatalf("the unchanged journal: %v", r.Findings)
		}
	})
}

// follow stores an event record of the call a whose compare-and-swap names the sequence before
// it, as engines do, and links it to that record.
func (j *journal) follow(text string, prev uint64) { j.behind(text, prev, prev) }

// behind is like follow, with another sequence in the compare-and-swap.
func (j *journal) behind(text string, prev, last uint64) {
	link := &toolcall.Link{}
	for _, r := range j.records {
		if prev > 0 && r.Seq == prev {
			link = proof.LinkTo(prev, r.Leaf())
		}
	}
	body, err := strictjson.Marshal(struct {
		ID   string         `json:"id"`
		Prev *toolcall.Link `json:"prev"`
	}{text, link})
	if err != nil {
		panic(err)
	}
	j.last++
	r := proof.Record{Seq: j.last, Subject: "a.f", Entity: "a", Header: map[string][]string{"Nats-Msg-Id": {text}, "Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(last, 10)}}}
	r.SetBody(body)
	j.records = append(j.records, r)
}

// A record is void if its compare-and-swap names a record before the last one that counts, or a
// void one. This is not a finding; a copy of the record before is.
func TestVoidRecords(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(j *journal)
		voids []uint64
		kinds []proof.Kind
	}{
		{"second", func(j *journal) { j.follow("3", 1); j.behind("4", 2, 3) }, []uint64{3}, nil},
		{"second and third", func(j *journal) { j.follow("3", 1); j.follow("4", 1); j.follow("5", 2) }, []uint64{3, 4}, nil},
		{"a copy", func(j *journal) { j.follow("2", 1) }, nil, []proof.Kind{proof.Inserted}},
		{"after an earlier one", func(j *journal) { j.follow("3", 2); j.follow("4", 1); j.follow("5", 3) }, []uint64{4}, nil},
		{"built on a void one", func(j *journal) { j.follow("3", 1); j.follow("4", 3); j.follow("5", 4); j.behind("6", 2, 5) }, []uint64{3, 4, 5}, nil},
		{"redacted", func(j *journal) {
			j.follow("3", 1)
			r := &j.records[2]
			r.BodyHash = proof.BodyHash(r.Body())
			r.Text, r.Redacted = proof.RedactedWhole, []string{"*"}
			r.Header[proof.HeaderShown] = []string{proof.BodyHash([]byte(proof.RedactedWhole)).String()}
			j.follow("4", 2)
		}, []uint64{3}, nil},
	} {
		j := &journal{}
		j.follow("1", 0)
		j.seal(8)
		j.follow("2", 1)
		tc.write(j)
		r := j.verify(proof.Options{})
		var voids []uint64
		var kinds []proof.Kind
		for _, v := range r.Voids {
			voids = append(voids, v.Seq)
		}
		for _, f := range r.Findings {
			kinds = append(kinds, f.Kind)
		}
		if !slices.Equal(voids, tc.voids) || !slices.Equal(kinds, tc.kinds) || int(r.Void) != len(voids) {
			t.Errorf("%s: void %d, found %v; want %d, %v", tc.name, voids, r.Findings, tc.voids, tc.kinds)
		}
	}
}

// A verification that begins between two records after the same one learns this from the next
// record.
func TestVoidRecordAfterAnEarlierVerification(t *testing.T) {
	j := &journal{}
	j.follow("1", 0)
	j.follow("2", 1)
	j.seal(8)
	s, err := proof.DecodeSealed(j.sealed[0])
	if err != nil {
		t.Fatal(err)
	}
	j.follow("3", 1)
	j.behind("4", 2, 3)
	j.seal(8)
	j.records, j.sealed, j.first = j.records[2:], j.sealed[1:], 3
	r := j.verify(proof.Options{Earlier: &proof.Earlier{At: at, ReadAt: at, First: 1, Checkpoint: s.Checkpoint}})
	if !r.OK || r.Void != 1 || r.Voids[0].Seq != 3 {
		t.Errorf("%+v", r)
	}
}
