package proof_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/askance-dev/askance/message/proof"
	"pgregory.net/rapid"
)

// A record that no engine wrote and that a checkpoint covers is found even if its reader, such as an
// edited export, does not say so. Other differences near it are found as without it.
func TestForeignRecordsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j journal
		foreign := rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(t, "foreign")
		for i, is := range foreign {
			j.write(fmt.Sprint("c", rapid.IntRange(0, 3).Draw(t, "call")), fmt.Sprint("f", i))
			if is {
				j.records[i].Invalid = "it has no MAC"
			}
		}
		j.seal(rapid.IntRange(1, 10).Draw(t, "records"))
		marked := rapid.Bool().Draw(t, "the reader marks them")
		for i := range j.records {
			if !marked {
				j.records[i].Invalid = ""
			}
		}
		want := map[uint64]proof.Kind{}
		for i, is := range foreign {
			if is {
				want[uint64(i+1)] = proof.Inserted
			}
		}
		if rapid.Bool().Draw(t, "another one is removed") {
			i := rapid.IntRange(0, len(foreign)-1).Draw(t, "removed")
			j.records = slices.Delete(j.records, i, i+1)
			want[uint64(i+1)] = proof.Removed
		}
		o := proof.Options{Partial: rapid.Bool().Draw(t, "selection")}
		r := j.verify(o)
		found := map[uint64]proof.Kind{}
		for _, f := range r.Findings {
			if _, twice := found[f.Seq]; twice && f.Checkpoint > 0 {
				t.Fatalf("two findings about %d in %v", f.Seq, r.Findings)
			}
			found[f.Seq] = f.Kind
		}
		for seq, kind := range want {
			isShown := kind != proof.Removed || !o.Partial
			if isShown && found[seq] != kind && (kind != proof.Removed || found[seq] != proof.RolledBack && found[seq] != proof.Purged) {
				t.Errorf("record %d: %q, want %s; findings %v", seq, found[seq], kind, r.Findings)
			}
		}
		if len(want) == 0 && !r.OK {
			t.Errorf("nothing was changed: %v", r.Findings)
		}
	})
}
