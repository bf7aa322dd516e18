package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// as logs in with the permissions of p.
func as(t *testing.T, w *world, p message.Principal) *nats.Conn {
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

// A NATS user that lacks rights is told so: nobody is left to believe that a
// service answers, that hints will come or that a request may have arrived.
func TestRefusedByNATSIsTold(t *testing.T) {
	auditor := message.Principal{Role: message.RoleAuditor, Name: "eve"}
	guest := message.Principal{Role: "guest", Name: "guest"}
	w := newWorld(t, bustest.Listening(), bustest.With(func(o *bus.ServerOptions) {
		for _, p := range []message.Principal{auditor, guest} {
			o.Users = append(o.Users, bus.User{Name: p.Name, Password: "pw", Permissions: bus.PermissionsFor("test", p)})
		}
	}))
	w.engine(bus.ServiceOptions{})
	wantTold := func(what string, err error) {
		t.Helper()
		if e := message.AsError("", err); !errors.Is(err, message.ErrForbidden) || !strings.Contains(err.Error(), "Permissions Violation") || e.Hint == "" {
			t.Errorf("%s: %v, want forbidden with NATS's own words and a hint", what, err)
		}
	}
	if s, err := bus.Serve(t.Context(), as(t, w, auditor), "test", nil, bus.ServiceOptions{}); err == nil {
		s.Close()
		t.Error("an auditor serves requests")
	} else {
		wantTold("serve", err)
	}
	_, err := w.clientOn(as(t, w, guest), message.RoleAuditor, "guest").OnHint(t.Context(), func(bus.Hint) {})
	wantTold("hints", err)

	// An auditor who takes herself for an approver.
	eve := w.clientOn(as(t, w, auditor), message.RoleApprover, "eve")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = eve.Answer(ctx, message.Answer{Key: callKey("c1"), Digest: "x", Kind: message.AnswerApprove})
	wantTold("answer", err)
	if _, err := eve.List(t.Context(), message.ListRequest{}); err != nil {
		t.Errorf("what she may do, after that: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = eve.Answer(ctx, message.Answer{Key: callKey("c1"), Digest: "x", Kind: message.AnswerApprove})
	wantTold("answer again", err)
}
