package toolcall_test

import (
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// After a lost reply a sender must distinguish its own vote from another vote of the same person,
// which can have the same contents.
func TestHasResponse(t *testing.T) {
	ann := toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}
	c := &toolcall.Call{Votes: []toolcall.Vote{{By: ann}, {ID: "one", By: ann}}}
	for _, tc := range []struct {
		name, id string
		want     bool
	}{{"ann", "one", true}, {"ann", "two", false}, {"bob", "one", false}, {"ann", "", false}} {
		if got := c.HasResponse(tc.name, tc.id); got != tc.want {
			t.Errorf("HasResponse(%q, %q) = %v, want %v", tc.name, tc.id, got, tc.want)
		}
	}
}
