package proof_test

import (
	"fmt"
	"testing"

	"github.com/askance-dev/askance/message/proof"
)

// sealBehind signs the records after the checkpoint at prev, up to one, by an engine.
func (j *journal) sealBehind(t *testing.T, prev []byte, to uint64, engine string, change func(*proof.Entry)) []byte {
	t.Helper()
	before, err := proof.DecodeSealed(prev)
	if err != nil {
		t.Fatal(err)
	}
	c := proof.Checkpoint{Space: "test", Number: before.Checkpoint.Number + 1, From: before.Checkpoint.To + 1, To: to, At: at, Engine: engine}
	if c.Prev, err = before.Checkpoint.Hash(); err != nil {
		t.Fatal(err)
	}
	var entries []proof.Entry
	for _, r := range j.records[c.From-1 : to] {
		entries = append(entries, proof.Entry{Subject: r.Subject, Content: r.Content()})
	}
	change(&entries[0])
	s, err := proof.Seal(c, entries, signer)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Two checkpoints behind the same one that sign the same records are no finding, whichever of them
// the next one continues. Anything else is.
func TestCheckpointIsStoredTwice(t *testing.T) {
	asIs := func(*proof.Entry) {}
	for _, tc := range []struct {
		name    string
		to      uint64 // the end of the second one; the first one ends at 4
		change  func(*proof.Entry)
		next    int // which one the next continues; 2: none does
		between bool
		ok      bool
	}{
		{"the first is continued", 4, asIs, 0, false, true},
		{"the second is continued", 4, asIs, 1, false, true},
		{"the second has more and is continued", 5, asIs, 1, false, true},
		{"the second has more and is void", 5, asIs, 0, false, true},
		{"the second has less", 3, asIs, 1, false, false},
		{"neither is continued", 4, asIs, 2, false, true},
		{"the second signs another record", 4, func(e *proof.Entry) { e.Content[0]++ }, 1, false, false},
		{"the second signs another record and has more", 5, func(e *proof.Entry) { e.Content[0]++ }, 1, false, false},
		{"the second comes later", 4, asIs, 1, true, false},
	} {
		j := &journal{}
		for i := range 6 {
			j.write("a", fmt.Sprint(i))
		}
		all := j.last
		j.last = 2
		j.seal(2)
		two := [][]byte{j.sealBehind(t, j.sealed[0], 4, "e", asIs), j.sealBehind(t, j.sealed[0], tc.to, "f", tc.change)}
		j.last = all
		j.sealed = append(j.sealed, two[0])
		if tc.between {
			j.sealed = append(j.sealed, j.sealBehind(t, two[0], 5, "e", asIs))
		}
		j.sealed = append(j.sealed, two[1])
		if tc.next < 2 {
			j.sealed = append(j.sealed, j.sealBehind(t, two[tc.next], 6, "g", asIs))
		}
		r := j.verify(proof.Options{})
		if r.OK != tc.ok || tc.ok && (len(r.Voids) != 1 || r.Voids[0].Checkpoint != 2 || r.Void != 0) {
			t.Errorf("%s: OK %v, void %v, found %v", tc.name, r.OK, r.Voids, r.Findings)
		}
		if want := len(j.sealed) - 1; tc.ok && (int(r.Checkpoints) != want || tc.next < 2 && (r.CoverTo != 6 || r.Uncovered != 0)) {
			t.Errorf("%s: %d checkpoints up to %d, want %d", tc.name, r.Checkpoints, r.CoverTo, want)
		}
		j.records[3].Header["Nats-Msg-Id"] = []string{"other"}
		if r := j.verify(proof.Options{}); r.OK {
			t.Errorf("%s: a changed record is not found", tc.name)
		}
	}
}

// Either of the two can be the one that an auditor saw.
func TestAnchorOfACheckpointThatIsStoredTwice(t *testing.T) {
	j := &journal{}
	for i := range 4 {
		j.write("a", fmt.Sprint(i))
	}
	j.last = 2
	j.seal(2)
	j.last = 4
	asIs := func(*proof.Entry) {}
	j.sealed = append(j.sealed, j.sealBehind(t, j.sealed[0], 3, "e", asIs), j.sealBehind(t, j.sealed[0], 3, "f", asIs))
	j.sealed = append(j.sealed, j.sealBehind(t, j.sealed[2], 4, "e", asIs))
	for _, raw := range j.sealed {
		s, err := proof.DecodeSealed(raw)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := s.Checkpoint.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if r := j.verify(proof.Options{Anchor: proof.Anchor{Number: s.Checkpoint.Number, Hash: hash}}); !r.OK {
			t.Errorf("checkpoint %d of %s: %v", s.Checkpoint.Number, s.Checkpoint.Engine, r.Findings)
		}
	}
}
