package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// TestReadyNamesTheSpace: if one space accepts no calls, the server is not ready, and the reply
// names the space.
func TestReadyNamesTheSpace(t *testing.T) {
	var broken error
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(world *gatewaytest.World) []gateway.Surface {
		further := *world.B.Gateway()
		further.Ready = func(context.Context) error { return broken }
		web := &Web{cfg: Config{Space: world.A.Gateway(), Further: []*gateway.Space{&further}}}
		return []gateway.Surface{web.health()}
	}))
	for _, err := range []error{nil, &message.Error{Code: message.CodeUnavailable, Op: "ready", What: "no leader"}, message.ErrFull, &message.Error{Code: message.CodeFull, Op: "ready", What: "nothing is decided"}} {
		broken = err
		r, err := http.Get(w.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || (broken == nil) != (r.StatusCode == http.StatusOK) || broken != nil && !strings.Contains(string(text), "space "+string(w.B.ID)+": ") {
			t.Errorf("%v: %d %s, %v", broken, r.StatusCode, text, err)
		}
		if why, said := errors.AsType[*message.Error](broken); said && !strings.Contains(string(text), why.What) {
			t.Errorf("%v: %s does not contain the reason", broken, text)
		}
	}
}

// TestPublicOf: links for the local user lead to the space, and links for a login to any host.
func TestPublicOf(t *testing.T) {
	for at, want := range map[string]string{
		"http://127.0.0.1:8787": "http://team.localhost:8787", "https://localhost": "https://team.localhost", "http://[::1]:80": "http://team.localhost:80",
		"https://inbox.example": "https://inbox.example",
	} {
		if got := OfSpace(at, "team"); got != want {
			t.Errorf("OfSpace(%s) = %s, want %s", at, got, want)
		}
	}
}
