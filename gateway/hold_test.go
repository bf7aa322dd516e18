package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

type workerCaller func(context.Context) (any, error)

func (w workerCaller) Call(ctx context.Context, _ *api.Operation, _ any) (any, error) { return w(ctx) }

// A worker's long poll is held as long as the guide says, and does not count as a failure of the
// journal.
func TestTasksAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := stillSpace()
		space.Worker = func(toolcall.Principal, []toolcall.Queue) api.Caller {
			return workerCaller(func(ctx context.Context) (any, error) {
				select {
				case <-time.After(30 * time.Second):
					return toolcall.NextTasksReply{}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
		}
		wendy := &gateway.Identity{Name: "wendy", Space: "s", Roles: []toolcall.Role{toolcall.RoleWorker}, Queues: []toolcall.Queue{{Tool: "job"}}}
		next := gateway.Route{Method: "POST", Path: "/next", Access: gateway.Only(toolcall.RoleWorker), Serve: func(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
			c, err := p.As(toolcall.RoleWorker)
			if err == nil {
				_, err = c.Call(r.Context(), api.Next.Operation, toolcall.NextTasksRequest{Tool: "job", WaitMS: 30_000})
			}
			return err
		}}
		s, err := gateway.New(gateway.Config{Spaces: []*gateway.Space{space}, Auth: fakeAuth{"wendy": wendy}, Surfaces: []gateway.Surface{gateway.Routes{next}}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://gate.example/next", nil)
		r.Header.Set("Authorization", "Bearer wendy")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("a wait of 30 s for a task got %d: %s", w.Code, w.Body)
		}
	})
}
