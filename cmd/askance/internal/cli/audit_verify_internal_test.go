package cli

import (
	"testing"

	"github.com/askance-dev/askance/message/proof"
)

// A verification without findings claims only what checkpoints sign.
func TestNoFindings(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    proof.Report
		want string
	}{
		{"all signed", proof.Report{First: 1, Last: 110, Records: 110, CoverTo: 110}, "Nothing was changed, removed, inserted or reordered from 1 to 110."},
		{"the last are not signed", proof.Report{First: 1, Last: 110, Records: 110, CoverTo: 100}, "Nothing was changed, removed, inserted or reordered from 1 to 100. Records 101 to 110 are not signed."},
		{"the last is not signed", proof.Report{First: 1, Last: 110, Records: 110, CoverTo: 109, Losses: []proof.Loss{{}}}, "Nothing else was changed, removed, inserted or reordered from 1 to 109. Record 110 is not signed."},
		{"the last signed are gone", proof.Report{First: 1, Last: 90, Records: 90, CoverTo: 100}, "Nothing was changed, removed, inserted or reordered from 1 to 100."},
		{"a selection", proof.Report{First: 3, Last: 110, Records: 9, CoverTo: 100, Partial: true}, "Nothing in the selection was changed, inserted or reordered from 3 to 100. Records 101 to 110 are not signed."},
		{"no checkpoint", proof.Report{First: 1, Last: 9, Records: 9}, "No fault was found, but no checkpoint signs these records: this does not prove that nothing was changed or removed."},
		{"a selection without a checkpoint", proof.Report{First: 1, Last: 9, Records: 9, Partial: true}, "No fault was found, but no checkpoint signs these records: this does not prove that nothing was changed or removed."},
		{"no records", proof.Report{}, "There is nothing to verify."},
		{"no records any more", proof.Report{First: 101, Last: 100, CoverTo: 100}, "There is nothing to verify."},
		{"nothing new", proof.Report{First: 101, Last: 100, CoverTo: 100, Earlier: &proof.Earlier{}}, "There is nothing new to verify."},
		{"the new ones are not signed", proof.Report{First: 101, Last: 110, Records: 10, CoverTo: 100, Earlier: &proof.Earlier{}}, "No fault was found. Records 101 to 110 are not signed."},
	} {
		if got := noFindings(&tc.r); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
