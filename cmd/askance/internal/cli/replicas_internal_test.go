package cli

import (
	"testing"

	"github.com/askance-dev/askance/bus/journal"
)

// A stream never has more replicas complete than it is to have.
func TestReplicatedText(t *testing.T) {
	const name = "ASKANCE_default              "
	for _, tc := range []struct {
		replicas int
		current  []string
		want     string
	}{
		{3, []string{"n1"}, name + "1 of 3 replicas complete: n1"},
		{1, []string{"n1"}, name + "1 of 1 replicas complete: n1"},
		{1, []string{"n1", "n2", "n3"}, name + "1 replica set, still on 3 servers: n1, n2, n3"},
	} {
		if got := replicatedText(journal.Replicated{Stream: "ASKANCE_default", Replicas: tc.replicas, Current: tc.current}); got != tc.want {
			t.Errorf("%d replicas on %v: %q, want %q", tc.replicas, tc.current, got, tc.want)
		}
	}
}
