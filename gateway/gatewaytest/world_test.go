package gatewaytest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// who replies with the name of the peer.
func who(*gatewaytest.World) []gateway.Surface {
	return []gateway.Surface{gateway.Routes{{Method: http.MethodGet, Path: "/who", Access: gateway.Readers, Serve: func(w http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
		_, err := io.WriteString(w, string(p.Space.ID)+" "+p.Name)
		return err
	}}}}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestWorld tries everything that a world offers.
func TestWorld(t *testing.T) {
	w := gatewaytest.New(t, gatewaytest.Surfaces(who))
	if code, text := get(t, w.B.HTTP(gatewaytest.Ann), w.URL+"/who"); code != http.StatusOK || text != "beta ann" {
		t.Errorf("/who: %d %q", code, text)
	}
	if code, _ := get(t, w.B.HTTP(gatewaytest.Wendy), w.URL+"/who"); code != http.StatusForbidden {
		t.Errorf("/who of a worker: %d", code)
	}
	w.A.Work(gatewaytest.Ship)
	ship := w.A.Propose("s1", "r1", "ship", gatewaytest.Ship, `{}`)
	pay, login := w.A.Ask("s1", "r1", "pay"), w.A.Propose("s1", "r1", "login", gatewaytest.Login, `{"user":"u","password":"hunter2"}`)
	w.A.Restart()
	for _, k := range []toolcall.Key{pay, login.Key, ship.Key} {
		w.A.Approve(gatewaytest.Ann, k)
		if c := w.A.Finished(k); c.Result == nil || c.Result.State != message.ToolResultSuccess {
			t.Errorf("%s: %+v", k, c.Result)
		}
	}
	if c := w.A.Propose("s1", "r1", "drop", gatewaytest.Drop, `{}`); c.State != message.ToolCallFinished {
		t.Errorf("a denied call is %s", c.State)
	}
	if c := w.A.Propose("s1", "r1", "deploy", gatewaytest.Deploy, `{}`); w.A.Approve(gatewaytest.Ann, c.Key).State != message.ToolCallAsking || w.A.Approve(gatewaytest.Bob, c.Key).State == message.ToolCallAsking {
		t.Error("a deploy does not need two approvals")
	}
	w.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "agent"})
}

// TestWorldInABubble waits ten minutes of fake time.
func TestWorldInABubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := gatewaytest.New(t, gatewaytest.In(dir), gatewaytest.Piped(), gatewaytest.Surfaces(who))
		k := w.A.Ask("s1", "r1", "c1")
		time.Sleep(10 * time.Minute)
		if code, text := get(t, w.A.HTTP(gatewaytest.Ann), w.URL+"/who"); code != http.StatusOK {
			t.Errorf("/who: %d %q", code, text)
		}
		w.A.Approve(gatewaytest.Ann, k)
		w.A.Finished(k)
	})
}

// TestChanges: a subscriber receives every change from the moment at which the subscription is
// confirmed.
func TestChanges(t *testing.T) {
	var feeds *gateway.Feeds
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{gateway.Routes{{Method: http.MethodGet, Path: "/", Access: gateway.Readers, Serve: func(_ http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
			feeds = p.Feeds
			return nil
		}}}}
	}))
	get(t, w.A.HTTP(gatewaytest.Ann), w.URL)
	enough := errors.New("enough")
	var kinds []string
	var steps []string
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	err := feeds.Changes(ctx, func() error {
		w.A.Propose("s1", "r1", "slow", gatewaytest.Slow, `{}`)
		w.B.Ask("s1", "r1", "elsewhere")
		return nil
	}, func(c gateway.Change) error {
		if c.Progress != nil {
			steps = append(steps, c.Progress.Text)
			w.A.Release()
			return nil
		}
		if c.Call.Key.Call != "slow" {
			t.Errorf("a change of %s", c.Call.Key)
		}
		kinds = append(kinds, c.Kind)
		if c.Call.State == message.ToolCallFinished {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(kinds) != 2 || len(steps) == 0 || steps[0] != "step 1" {
		t.Errorf("changes %v, progress %v, %v", kinds, steps, err)
	}
}
