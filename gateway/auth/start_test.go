package auth_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/toolcall"
)

// A provider that does not answer delays no stop of the server.
func TestStopWhileTheProviderHangs(t *testing.T) {
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: "http://" + silent.Addr().String(), ClientID: clientID, Redirect: "http://gate.invalid/", Space: "alpha", Roles: map[string][]toolcall.Role{"*": approver}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{OIDC: o})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx, nil)
	}()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stopped := time.Now()
	cancel()
	<-done
	if took := time.Since(stopped); took > 3*time.Second {
		t.Errorf("the stop took %s", took)
	}
}
