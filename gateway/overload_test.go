package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// operation returns a route that carries out an operation for a peer.
func operation(path string, role toolcall.Role, op *api.Operation, request any) gateway.Route {
	return gateway.Route{Method: http.MethodPost, Path: path, Access: gateway.Only(role), Serve: func(_ http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
		c, err := p.As(role)
		if err == nil {
			_, err = c.Call(r.Context(), op, request)
		}
		return err
	}}
}

// Proposals above the capacity of their space are refused as overloaded, with a time to retry.
// They delay neither another space nor the responses in their own.
func TestOverloadOfOneSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, carried := make(chan struct{}), new(atomic.Int64)
		space := func(id toolcall.SpaceID, gate <-chan struct{}) *gateway.Space {
			s := stillSpace()
			s.ID, s.As = id, func(toolcall.Principal) engine.Client {
				return api.Methods{Caller: opCaller(func(_ context.Context, op *api.Operation) (any, error) {
					if op == api.Propose.Operation {
						<-gate
						carried.Add(1)
					}
					return nil, nil //nolint:nilnil // the route drops the reply
				})}
			}
			return s
		}
		auth := fakeAuth{
			"ann":   {Name: "ann", Space: "busy", Roles: []toolcall.Role{toolcall.RoleApprover}},
			"other": {Name: "bot0", Space: "quiet", Roles: []toolcall.Role{toolcall.RoleRuntime}},
		}
		for i := range 4 {
			name := fmt.Sprint("bot", i)
			auth[name] = &gateway.Identity{Name: name, Space: "busy", Roles: []toolcall.Role{toolcall.RoleRuntime}}
		}
		open := make(chan struct{})
		close(open)
		s, err := gateway.New(gateway.Config{
			Spaces: []*gateway.Space{space("busy", gate), space("quiet", open)}, Auth: auth, Log: slog.New(slog.DiscardHandler),
			Surfaces: []gateway.Surface{gateway.Routes{
				operation("/propose", toolcall.RoleRuntime, api.Propose.Operation, toolcall.ProposeRequest{}),
				operation("/respond", toolcall.RoleApprover, api.SubmitResponse.Operation, toolcall.Response{}),
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ask := func(path, token string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://gate.example"+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		const waiting = 4096
		var wg sync.WaitGroup
		var served atomic.Int64
		for i := range waiting {
			wg.Go(func() {
				if w := ask("/propose", fmt.Sprint("bot", i%3)); w.Code == http.StatusOK {
					served.Add(1)
				}
			})
		}
		synctest.Wait()
		if w := ask("/propose", "bot3"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"code":"overloaded"`) {
			t.Errorf("a proposal to a full space: %d, %v, %s", w.Code, w.Header(), w.Body)
		}
		if w := ask("/propose", "other"); w.Code != http.StatusOK {
			t.Errorf("a proposal to another space: %d, %s", w.Code, w.Body)
		}
		if w := ask("/respond", "ann"); w.Code != http.StatusOK {
			t.Errorf("a response in the full space: %d, %s", w.Code, w.Body)
		}
		close(gate)
		wg.Wait()
		if served.Load() != waiting || carried.Load() != waiting+1 {
			t.Errorf("%d proposals got a reply and %d were carried out, want %d", served.Load(), carried.Load()-1, waiting)
		}
	})
}

type opCaller func(context.Context, *api.Operation) (any, error)

func (o opCaller) Call(ctx context.Context, op *api.Operation, _ any) (any, error) {
	return o(ctx, op)
}
