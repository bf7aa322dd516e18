package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := sleep.For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("For returned %v after %s, want no error after 1h", err, time.Since(began))
		}
		errOver := errors.New("over")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { end(errOver) })
		began = time.Now()
		if err := sleep.For(ctx, time.Hour); !errors.Is(err, errOver) || time.Since(began) != time.Minute {
			t.Errorf("For returned %v after %s, want the cause after 1m", err, time.Since(began))
		}
	})
}
