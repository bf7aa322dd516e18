package journal

import (
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/message/proof"
)

// BenchmarkAnchorRaise measures the cost of the anchor for each acknowledged record.
func BenchmarkAnchorRaise(b *testing.B) {
	keys, err := keyfile.New()
	if err != nil {
		b.Fatal(err)
	}
	a := NewAnchor(filepath.Join(b.TempDir(), "anchor"), "test", keys)
	if err := a.create(nil, highMark{}); err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	b.ReportAllocs()
	seq := uint64(0)
	for b.Loop() {
		seq++
		a.raiseMark(seq, proof.Hash{1})
	}
}
