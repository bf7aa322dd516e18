package lineartest

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// The model refuses impossible histories.
func TestTheModelRefusesDoubleDecisions(t *testing.T) {
	type op struct {
		began, ended int64
		did          Request
		saw          Seen
	}
	for name, tc := range map[string]struct {
		ok  bool
		ops []op
	}{
		"one decision":              {true, []op{{1, 2, Propose, Asking}, {3, 6, Approve, Approved}, {4, 5, Reject, Refused}}},
		"both decided":              {false, []op{{1, 2, Propose, Asking}, {3, 6, Approve, Approved}, {4, 5, Reject, Rejected}}},
		"an acknowledgement undone": {false, []op{{1, 2, Propose, Asking}, {3, 4, Approve, Approved}, {5, 6, Read, Asking}}},
		"refused and still open":    {false, []op{{1, 2, Propose, Asking}, {3, 4, Approve, Refused}, {5, 6, Read, Asking}}},
		"unavailable and written":   {false, []op{{1, 2, Propose, Asking}, {3, 4, Reject, Unsent}, {5, 6, Read, Rejected}}},
		"of no exclusive tool":      {false, []op{{1, 2, Propose, Pending}, {3, 4, Read, Asking}}},
		"exclusive, decided later":  {true, []op{{1, 2, Propose, Pending}, {3, 4, Approve, Refused}, {5, 6, Approve, Approved}}},
		"exclusive, then lost":      {false, []op{{1, 2, Propose, Pending}, {3, 4, Read, Absent}}},
		"exclusive, never asked":    {false, []op{{1, 2, Propose, Pending}, {3, 4, Approve, Approved}, {5, 6, Read, Pending}}},
		"exclusive, undecided":      {false, []op{{1, 2, Propose, Asking}, {3, 4, Propose, Pending}}},
		"unknown and written late":  {true, []op{{1, 2, Propose, Asking}, {3, 3, Reject, Unsure}, {5, 6, Read, Asking}, {7, 8, Read, Rejected}}},
	} {
		h := &History{Exclusive: func(toolcall.Key) bool { return strings.HasPrefix(name, "exclusive") }}
		for i, o := range tc.ops {
			h.clock = o.ended - 1
			h.End(i, o.did, toolcall.Key{Call: "c"}, o.saw, o.began)
		}
		if err := h.Check(); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want a valid history: %v", name, err, tc.ok)
		}
	}
}
