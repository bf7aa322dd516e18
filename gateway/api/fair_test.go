package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// heldLists is an engine whose lists do not return until release is closed.
type heldLists struct {
	operation.Caller
	began   *atomic.Int64
	release chan struct{}
}

func (h heldLists) Call(ctx context.Context, op *operation.Operation, request any) (any, error) {
	if op == operation.List.Operation {
		h.began.Add(1)
		<-h.release
	}
	return h.Caller.Call(ctx, op, request)
}

// Readers of lists that never return are limited, refused above their share, and do not delay
// answers or interrupts.
func TestReadersDelayNoResponse(t *testing.T) {
	var began atomic.Int64
	release := make(chan struct{})
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		surface, err := api.New(api.Config{Version: "1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		return []gateway.Surface{surface}
	}), gatewaytest.With(func(c *gateway.Config) {
		for _, s := range c.Spaces {
			as := s.As
			s.As = func(p toolcall.Principal) engine.Client {
				return operation.Methods{Caller: heldLists{as(p), &began, release}}
			}
		}
	}))
	first, second := w.A.Ask("s", "r", "c1"), w.A.Ask("s", "r2", "c2")
	digest := w.A.Show(first).Digest

	const readers, part = 600, 512 // the share of one principal
	var wg sync.WaitGroup
	defer wg.Wait()
	defer sync.OnceFunc(func() { close(release) })()
	refused := make(chan int, readers)
	audie := w.A.HTTP(gatewaytest.Audie)
	for range readers {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/v1/calls", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			res, err := audie.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				refused <- res.StatusCode
			}
		})
	}
	for range readers - part {
		select {
		case status := <-refused:
			if status != http.StatusServiceUnavailable {
				t.Errorf("a reader above the share: %d", status)
			}
		case <-time.After(gatewaytest.Patience / 4):
			t.Fatalf("readers above the share of one principal are not refused; %d lists are running", began.Load())
		}
	}
	if n := began.Load(); n == 0 || n > 64 {
		t.Errorf("%d lists run at the same time", n)
	}

	send := func(name, path, body string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience/4)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := w.A.HTTP(name).Do(req)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	send(gatewaytest.Ann, fmt.Sprintf("/v1/calls/%s/%s/%s/response", first.Session, first.Reply, first.Call), `{"kind":"reject","digest":"`+digest+`"}`)
	send(gatewaytest.Olga, fmt.Sprintf("/v1/sessions/%s/replies/%s/interrupt", second.Session, second.Reply), `{}`)
}
