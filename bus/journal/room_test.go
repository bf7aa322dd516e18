package journal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
)

// An answer about the account that is lost, here because the login may not ask, holds up a journal
// only for a moment.
func TestAccountThatIsNotAnswered(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir), bustest.With(func(o *embed.Options) {
			o.Users = []embed.User{{Name: "bot", Password: "pw", Permissions: bus.Permissions{
				Publish: []string{"$JS.API.STREAM.>", "$JS.API.DIRECT.>", "askance.>"}, Subscribe: []string{">"},
			}}}
		}))
		nc, err := bus.ConnectInProcess(t.Context(), b, bus.ConnectOptions{Principal: "bot", User: "bot", Password: "pw"})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := journal.Open(ctx, nc, "test", b.Keys(), journal.Options{}); err != nil || time.Since(began) > time.Minute {
			t.Errorf("opened after %s, %v", time.Since(began), err)
		}
	})
}
