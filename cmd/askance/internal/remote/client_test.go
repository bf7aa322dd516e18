package remote_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// A client over HTTP gets the same as a client in the process.
func TestClient(t *testing.T) {
	surface, err := api.New(api.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface { return []gateway.Surface{surface} }))
	c := remote.New(w.URL+"/", func() (string, error) { return w.A.Token(gatewaytest.Bot), nil })
	ctx := t.Context()
	out, err := c.Propose(ctx, toolcall.ProposeRequest{
		Session: "s/1", Reply: "r 1", Calls: []message.ToolCallBlock{{ID: "c%1", Name: "own", Input: `{"n":9007199254740993}`}}, External: []string{"own"},
	})
	if err != nil || len(out.Calls) != 1 || out.Calls[0].Input != `{"n":9007199254740993}` {
		t.Fatalf("propose: %+v, %v", out, err)
	}
	key := out.Calls[0].Key
	for _, session := range []message.SessionID{"", "s/1", "other"} {
		list, err := c.List(ctx, toolcall.ListRequest{Session: session, Call: "c%1", All: true, Limit: 1})
		if want := session != "other"; err != nil || slices.ContainsFunc(list.Calls, func(k *toolcall.Call) bool { return k.Key == key }) != want {
			t.Errorf("list of session %q: %+v, %v", session, list, err)
		}
	}
	waited, err := c.Wait(ctx, toolcall.WaitRequest{Session: "s/1", Reply: "r 1", Calls: []message.CallID{"c%1"}, Until: toolcall.UntilParked})
	if err != nil || !waited.Done {
		t.Errorf("wait: %+v, %v", waited, err)
	}
	if _, err := c.Interrupt(ctx, toolcall.InterruptRequest{Session: "s/1", Reply: "r 1"}); err != nil {
		t.Error(err)
	}
	if _, err = c.Resolve(ctx, toolcall.ResolveRequest{Key: key}); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("an operator's request by a runtime: %v", err)
	}
	wrong := remote.New(w.URL+"/nowhere", func() (string, error) { return "x", nil })
	if _, err := wrong.Info(ctx); err == nil {
		t.Error("a wrong URL returns no error")
	}
	gone := remote.New("http://127.0.0.1:1", func() (string, error) { return "", nil })
	if _, err := gone.Info(ctx); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	if _, err := gone.Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r"}); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a change without a server: %v", err)
	}
	for name, reply := range map[string]http.HandlerFunc{
		"no reply": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broke off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = w.Write([]byte("{"))
		},
		"a proxy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) },
	} {
		s := httptest.NewServer(reply)
		c := remote.New(s.URL, func() (string, error) { return "", nil })
		if _, err := c.Interrupt(ctx, toolcall.InterruptRequest{Session: "s", Reply: "r"}); !errors.Is(err, message.ErrUnknownOutcome) {
			t.Errorf("%s: a change ends with %v", name, err)
		}
		if _, err := c.Info(ctx); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("%s: a read ends with %v", name, err)
		}
		s.Close()
	}
}

// Before a connection whose certificate fails, nothing is sent: no change may have been executed.
func TestCertificateOfAnotherAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the handshake
	s.StartTLS()
	defer s.Close()
	c := remote.New(s.URL, func() (string, error) { return "", nil })
	_, err := c.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	e, ok := errors.AsType[*message.Error](err)
	if !ok || e.Code != message.CodeUnavailable || !strings.Contains(e.What, "cannot verify the certificate") || !strings.Contains(e.Hint, "SSL_CERT_FILE") {
		t.Errorf("a change ends with %v", err)
	}
}
