package executor

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

func TestBegunGrants(t *testing.T) {
	var b begunGrants
	now := time.Now()
	grant := func(n int, lasts time.Duration) *toolcall.Grant {
		return &toolcall.Grant{Nonce: strconv.Itoa(n), Expires: now.Add(lasts)}
	}
	if !b.add(grant(0, time.Minute), now) || b.add(grant(0, time.Minute), now) || !b.add(grant(1, time.Hour), now) {
		t.Fatal("add did not accept each grant exactly once")
	}
	if !b.add(grant(2, time.Hour), now.Add(time.Minute+1)) || len(b.known) != 2 || b.add(grant(1, time.Hour), now) {
		t.Errorf("%d grants are known, want the two that have not expired", len(b.known))
	}
	for n := range 2 * maxBegun {
		b.add(grant(n, time.Hour), now)
	}
	if len(b.known) > maxBegun || len(b.order) != len(b.known) {
		t.Errorf("%d grants in %d places are remembered, want at most %d", len(b.known), len(b.order), maxBegun)
	}
	if b.add(grant(2*maxBegun-1, time.Hour), now) {
		t.Error("the latest grant was forgotten")
	}
}

// A suspended machine's monotonic clock does not count the time, but its wall clock does.
func TestElapsedIsTheLargerOfTwoClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Second)
		if d := elapsed(began); d != time.Second {
			t.Errorf("elapsed = %s, want 1s", d)
		}
		if d := elapsed(began.Round(0).Add(-time.Hour)); d != time.Hour+time.Second { // only the wall clock
			t.Errorf("elapsed by the wall clock = %s, want 1h0m1s", d)
		}
	})
}
