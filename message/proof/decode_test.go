package proof_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message/proof"
	"pgregory.net/rapid"
)

// A decoded checkpoint encodes to the same bytes, and its entries have the root that it names.
func FuzzDecodeSealed(f *testing.F) {
	j := story(30)
	for _, s := range j.sealed {
		f.Add(s)
	}
	f.Add([]byte(`{"checkpoint":{"v":1,"key_id":"","space":"","number":1,"from_seq":1,"to_seq":1,"records":0,"root":"sha256:0","at":"2026-03-01T12:00:00Z","engine":""},"subjects":"","contents":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := proof.DecodeSealed(data)
		if err != nil {
			return
		}
		if s.Checkpoint.Size() > proof.MaxRecords {
			t.Fatalf("a checkpoint over %d records was accepted", s.Checkpoint.Size())
		}
		entries, err := s.Entries()
		if err == nil && proof.Root(proof.Leaves(entries)) != s.Checkpoint.Root {
			t.Fatal("entries with another root were accepted")
		}
		b, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := proof.DecodeSealed(b)
		if err != nil || again.Checkpoint != s.Checkpoint || !bytes.Equal(again.Contents, s.Contents) || !bytes.Equal(again.Subjects, s.Subjects) {
			t.Fatalf("decode, encode, decode differs: %+v and %+v, %v", s, again, err)
		}
	})
}

// A path proves only its own leaf, and only at its own place.
func TestPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "leaves")
		leaves := make([]proof.Hash, n)
		for i := range leaves {
			leaves[i] = proof.BodyHash([]byte{byte(i)})
		}
		root := proof.Root(leaves)
		i := rapid.IntRange(0, n-1).Draw(t, "index")
		path, err := proof.Path(leaves, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if !proof.Included(leaves[i], uint64(i), uint64(n), path, root) {
			t.Fatal("a leaf is not proved at its place")
		}
		k := rapid.IntRange(0, n-1).Draw(t, "other")
		if k != i && (proof.Included(leaves[k], uint64(i), uint64(n), path, root) || proof.Included(leaves[i], uint64(k), uint64(n), path, root)) {
			t.Fatal("a leaf is proved at another place")
		}
		if proof.Included(leaves[i], uint64(i), uint64(n), append(path, root), root) {
			t.Fatal("a path that is too long is accepted")
		}
	})
}

func TestHashText(t *testing.T) {
	h := proof.BodyHash([]byte("x"))
	if got, err := proof.ParseHash(h.String()); err != nil || got != h {
		t.Errorf("ParseHash(%s) = %v, %v", h, got, err)
	}
	for _, text := range []string{"", "sha256:", h.String() + "0", h.String()[:70], strings.ToUpper(h.String()), "sha512:" + h.String()[7:], " " + h.String()} {
		if got, err := proof.ParseHash(text); err == nil {
			t.Errorf("ParseHash(%q) = %v, want an error", text, got)
		}
	}
}

// Two different records never share a leaf, no matter how their parts are divided.
func TestLeavesDiffer(t *testing.T) {
	seen := map[proof.Hash]int{}
	for i, r := range []proof.Record{
		{Subject: "ab", Text: "c"}, {Subject: "a", Text: "bc"}, {Subject: "abc"}, {Subject: "ab", Text: "c", Header: map[string][]string{"A": {"b"}}},
		{Subject: "ab", Text: "c", Header: map[string][]string{"Ab": {""}}}, {Subject: "ab", Text: "c", Header: map[string][]string{"A": {"b", ""}}},
		{Subject: "ab", Text: "c", Header: map[string][]string{"A": {}, "b": {}}}, {Subject: "ab", Binary: []byte{0xff}},
	} {
		if k, twice := seen[r.Leaf()]; twice {
			t.Errorf("records %d and %d share a leaf", k, i)
		}
		seen[r.Leaf()] = i
	}
	if _, twice := seen[proof.Absent()]; twice {
		t.Error("a record has the leaf of an absent one")
	}
}
