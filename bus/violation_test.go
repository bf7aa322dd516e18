package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// as logs in with the permissions of p.
func as(t *testing.T, w *world, p toolcall.Principal) *nats.Conn {
	t.Helper()
	o := bus.ConnectOptions{Principal: p.Name, CredsFile: w.logins[p.Name]}
	if o.CredsFile == "" {
		o.User, o.Password = p.Name, "pw"
	}
	nc, err := bus.Connect(t.Context(), w.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// untilRefused is a context that ends when NATS has refused something to nc.
func untilRefused(t *testing.T, nc *nats.Conn) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	t.Cleanup(cancel)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			cancel()
		}
	})
	return ctx
}

// A NATS user that lacks rights gets an error instead of waiting for a service, hints or a reply.
func TestRefusedByNATSIsTold(t *testing.T) {
	auditor := toolcall.Principal{Role: toolcall.RoleAuditor, Name: "eve"}
	guest := toolcall.Principal{Role: "guest", Name: "guest"}
	w := newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		for _, p := range []toolcall.Principal{auditor, guest} {
			o.Users = append(o.Users, embed.User{Name: p.Name, Password: "pw", Permissions: bus.PermissionsFor("test", p)})
		}
	}))
	w.engine(bus.ServiceOptions{})
	wantTold := func(what string, err error) {
		t.Helper()
		if e := message.AsError("", err); !errors.Is(err, message.ErrForbidden) || !strings.Contains(err.Error(), "Permissions Violation") || e.Hint == "" {
			t.Errorf("%s: %v, want forbidden with NATS's own words and a hint", what, err)
		}
	}
	if s, err := bus.Serve(t.Context(), as(t, w, auditor), w.Journal("test"), nil, bus.ServiceOptions{}); err == nil {
		s.Close()
		t.Error("an auditor serves requests")
	} else {
		wantTold("serve", err)
	}
	_, err := w.clientOn(as(t, w, guest), toolcall.RoleAuditor, "guest").OnHint(t.Context(), func(bus.Hint) {})
	wantTold("hints", err)

	// An auditor who acts as an approver.
	nc := as(t, w, auditor)
	eve := w.clientOn(nc, toolcall.RoleApprover, "eve")
	_, err = eve.SubmitResponse(untilRefused(t, nc), toolcall.Response{Key: bustest.CallKey("c1"), Digest: "x", Kind: toolcall.ResponseApprove})
	wantTold("submit_response", err)
	if _, err := eve.List(t.Context(), toolcall.ListRequest{}); err != nil {
		t.Errorf("what she may do, after that: %v", err)
	}
	_, err = eve.SubmitResponse(untilRefused(t, nc), toolcall.Response{Key: bustest.CallKey("c1"), Digest: "x", Kind: toolcall.ResponseApprove})
	wantTold("answer again", err)
}
