package journal

import "testing"

// A count names the records that are missing, or those that are back although their loss was accepted.
func TestCountedFlaws(t *testing.T) {
	for _, tc := range []struct {
		records uint64
		missing ranges
		want    string
	}{
		{10, nil, ""},
		{8, ranges{{From: 3, Through: 4}}, ""},
		{7, ranges{{From: 3, Through: 4}}, "1 record is missing inside the journal, which has 7 of 10"},
		{6, ranges{{From: 3, Through: 4}}, "2 records are missing inside the journal, which has 6 of 10"},
		{9, ranges{{From: 3, Through: 4}}, "1 record is in the journal whose loss was accepted"},
	} {
		x := &Exam{Last: 10, Records: tc.records, missing: tc.missing}
		x.compareCounts(10)
		got := ""
		for _, f := range x.Flaws {
			got += f.What
		}
		if got != tc.want {
			t.Errorf("%d records without %v: %q, want %q", tc.records, tc.missing, got, tc.want)
		}
	}
}
