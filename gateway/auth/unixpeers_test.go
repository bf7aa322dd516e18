package auth_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestUnixPeers: a fixed table says who a user of the socket is.
func TestUnixPeers(t *testing.T) {
	all := []toolcall.Role{toolcall.RoleApprover, toolcall.RoleAuditor, toolcall.RoleOperator, toolcall.RoleRuntime}
	for name, tt := range map[string]struct {
		roles map[string][]toolcall.Role
		uid   uint32
		host  string
		want  []toolcall.Role // nil: refused
	}{
		"the owner":                 {nil, 64100, "localhost", all},
		"a user without a role":     {nil, 64101, "localhost", nil},
		"root is a user":            {nil, 0, "localhost", nil},
		"a user with a role":        {map[string][]toolcall.Role{"64101": {toolcall.RoleApprover}}, 64101, "localhost", []toolcall.Role{toolcall.RoleApprover}},
		"another user":              {map[string][]toolcall.Role{"64101": {toolcall.RoleApprover}}, 64102, "localhost", nil},
		"every user":                {map[string][]toolcall.Role{auth.EveryPeer: {toolcall.RoleAuditor}}, 64102, "localhost", []toolcall.Role{toolcall.RoleAuditor}},
		"a user and every user":     {map[string][]toolcall.Role{auth.EveryPeer: {toolcall.RoleAuditor}, "64101": {toolcall.RoleRuntime, toolcall.RoleAuditor}}, 64101, "localhost", []toolcall.Role{toolcall.RoleAuditor, toolcall.RoleRuntime}},
		"by name":                   {map[string][]toolcall.Role{"root": {toolcall.RoleOperator}}, 0, "localhost", []toolcall.Role{toolcall.RoleOperator}},
		"a page of another site":    {nil, 64100, "evil.example", nil},
		"the owner keeps all roles": {map[string][]toolcall.Role{"64100": {toolcall.RoleAuditor}}, 64100, "localhost", all},
	} {
		t.Run(name, func(t *testing.T) {
			peers, err := auth.NewUnixPeers("alpha", 64100, "me", tt.roles)
			if err != nil {
				t.Fatal(err)
			}
			a, err := auth.New(auth.Config{Unix: peers})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), tt.uid), http.MethodGet, "http://"+tt.host+"/", http.NoBody)
			id, err := a.Authenticate(r)
			if tt.want == nil {
				if !errors.Is(err, message.ErrForbidden) || !errors.Is(err, gateway.ErrNoCredentials) {
					t.Errorf("let in as %+v, %v", id, err)
				}
				return
			}
			if err != nil || !slices.Equal(id.Roles, tt.want) || id.Auth != "unix-peer:"+map[uint32]string{0: "0", 64100: "64100", 64101: "64101", 64102: "64102"}[tt.uid] || !id.Ambient {
				t.Errorf("let in as %+v, %v", id, err)
			}
			if tt.uid == 64100 && id.Name != "me" || tt.uid == 64101 && id.Name != "uid-64101" {
				t.Errorf("the name is %q", id.Name)
			}
		})
	}
	for _, bad := range []map[string][]toolcall.Role{{"no-such-user": {toolcall.RoleApprover}}, {"0": {"boss"}}, {"-1": {toolcall.RoleApprover}}} {
		if _, err := auth.NewUnixPeers("alpha", 64100, "me", bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
	peers, err := auth.NewUnixPeers("alpha", 64100, "me", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Unix: peers})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(r); !errors.Is(err, gateway.ErrNoCredentials) {
		t.Errorf("a request over TCP: %v", err)
	}
}

// TestProxyHidesSender: if only the connection identifies the sender, a request that a proxy
// passed on is refused.
func TestProxyHidesSender(t *testing.T) {
	peers, err := auth.NewUnixPeers("alpha", 64100, "me", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]auth.Config{"loopback": {Local: &auth.Loopback{Name: "me", Space: "alpha"}}, "Unix socket": {Unix: peers}} {
		a, err := auth.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if cfg.Unix != nil {
			ctx = auth.WithPeer(ctx, 64100)
		}
		for _, header := range []string{"", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "CF-Connecting-IP", "Via", "HTTP/1.0"} {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
			if header == "HTTP/1.0" {
				r.ProtoMajor, r.ProtoMinor = 1, 0
			} else if header != "" {
				r.Header.Set(header, "192.0.2.1")
			}
			id, err := a.Authenticate(r)
			if header == "" && err != nil || header != "" && !errors.Is(err, message.ErrForbidden) {
				t.Errorf("%s, header %q: let in as %+v, %v", name, header, id, err)
			}
		}
	}
}

// TestListenUnix: the path of an ended server is taken over. The path of a running server or of a
// file is not.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.ListenUnix(t.Context(), path, -1, nil); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("next to a running server: %v", err)
	}
	old.SetUnlinkOnClose(false) // as after a crash
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := auth.ListenUnix(t.Context(), path, os.Getegid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	r := httptest.NewRequestWithContext(auth.ConnContext(context.Background(), got), http.MethodGet, "http://localhost/", http.NoBody)
	peers, err := auth.NewUnixPeers("alpha", uint32(os.Geteuid()), "me", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Unix: peers})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := a.Authenticate(r); err != nil || id.Name != "me" {
		t.Errorf("the process itself: %+v, %v", id, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.ListenUnix(t.Context(), file, -1, nil); !errors.Is(err, message.ErrConflict) {
		t.Errorf("at the path of a file: %v", err)
	}
}

// TestHostNamesTheSpace: without credentials the host selects one of the spaces. A user has the
// roles of the socket only in the first one.
func TestHostNamesTheSpace(t *testing.T) {
	peers, err := auth.NewUnixPeers("alpha", 64100, "me", map[string][]toolcall.Role{auth.EveryPeer: {toolcall.RoleApprover}})
	if err != nil {
		t.Fatal(err)
	}
	peers.Further = []toolcall.SpaceID{"beta"}
	local := &auth.Loopback{Name: "me", Space: "alpha", Further: peers.Further}
	for host, want := range map[string]toolcall.SpaceID{
		"localhost": "alpha", "127.0.0.1:8787": "alpha", "[::1]:8787": "alpha", "alpha.localhost": "alpha", "beta.localhost": "beta", "Beta.LOCALHOST:8787": "beta",
		"gamma.localhost": "", ".localhost": "", "beta": "", "beta.localhost.example": "", "x.beta.localhost": "", "beta.example": "",
	} {
		for _, uid := range []uint32{0, 64100, 64101} { // 0 means loopback
			cfg, ctx, want := auth.Config{Local: local}, t.Context(), want
			if uid != 0 {
				cfg, ctx = auth.Config{Unix: peers}, auth.WithPeer(ctx, uid)
			}
			if uid == 64101 && want == "beta" {
				want = ""
			}
			a, err := auth.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			r.Host = host
			id, err := a.Authenticate(r)
			switch {
			case want == "" && (!errors.Is(err, message.ErrForbidden) || errors.Is(err, gateway.ErrNoCredentials) != (uid != 0)):
				t.Errorf("%s, uid %d: let in as %+v, %v", host, uid, id, err)
			case want != "" && (err != nil || id.Space != want):
				t.Errorf("%s, uid %d: %+v, %v; want the space %s", host, uid, id, err, want)
			}
		}
	}
}
