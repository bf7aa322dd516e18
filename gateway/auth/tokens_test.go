package auth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

func tokenFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "tokens.json")
}

func create(t *testing.T, path string, token auth.Token) (string, auth.Token) {
	t.Helper()
	secret, kept, err := auth.CreateToken(t.Context(), path, token)
	if err != nil {
		t.Fatal(err)
	}
	return secret, kept
}

var approver = []toolcall.Role{toolcall.RoleApprover}

func TestTokenLife(t *testing.T) {
	path := tokenFile(t)
	secret, kept := create(t, path, auth.Token{Name: "ann", Space: "alpha", Roles: approver})
	other, _ := create(t, path, auth.Token{Name: "bob", Space: "alpha", Roles: approver})
	old, _ := create(t, path, auth.Token{Name: "cy", Space: "alpha", Roles: approver, Expires: time.Now().Add(-time.Hour)})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	if strings.Contains(string(data), secret) || strings.Contains(string(data), secret[len(secret)-20:]) {
		t.Error("the file contains the token itself")
	}
	tokens, err := auth.OpenTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := tokens.Token(nil, secret)
	if err != nil || id.Name != "ann" || id.Space != "alpha" || id.Auth != "http-token" || id.Ambient || !id.Expires.IsZero() {
		t.Fatalf("ann: %+v, %v", id, err)
	}
	for _, bad := range []string{"", "x", old, secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), secret[:25] + other[25:], " " + secret} {
		if id, err := tokens.Token(nil, bad); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%q: %+v, %v", bad, id, err)
		}
	}
	if _, err := auth.RevokeTokens(t.Context(), path, kept.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-id.Revoked:
		t.Error("the token was revoked before the file was read")
	default:
	}
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	<-id.Revoked
	if _, err := tokens.Token(nil, secret); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("a revoked token: %v", err)
	}
	still, err := tokens.Token(nil, other)
	if err != nil {
		t.Errorf("another token: %v", err)
	}
	if _, err := auth.RevokeTokens(t.Context(), path, "unknown"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("revoke an unknown name: %v", err)
	}
	if _, err := auth.RevokeTokens(t.Context(), path, "bob", "unknown"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("revoke a known and an unknown name: %v", err)
	}
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Token(nil, other); err != nil {
		t.Errorf("revoked together with an unknown name: %v", err)
	}
	write(t, path, "{")
	if err := tokens.Reload(); err == nil {
		t.Error("a bad file is accepted")
	}
	select {
	case <-still.Revoked:
		t.Error("a bad file ended a token")
	default:
	}
}

// TestTokenFileInTrouble: if the file is deleted, all tokens are revoked at the second look; if
// it cannot be read, after a minute. A file that is fixed in time changes nothing.
func TestTokenFileInTrouble(t *testing.T) {
	const look = time.Second
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		holds time.Duration // at least this long, and hardly longer
		want  error
	}{
		{"deleted", func(t *testing.T, path string) { must(t, os.Remove(path)) }, look, message.ErrForbidden},
		{"malformed", func(t *testing.T, path string) { write(t, path, "{") }, time.Minute, message.ErrUnavailable},
		{"writable by others", func(t *testing.T, path string) { must(t, os.Chmod(path, 0o666)) }, time.Minute, message.ErrUnavailable},
		{"a folder", func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }, time.Minute, message.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := tokenFile(t)
				secret, _ := create(t, path, auth.Token{Name: "ann", Space: "alpha", Roles: approver})
				good, err := os.ReadFile(path)
				must(t, err)
				tokens, err := auth.OpenTokens(path, nil)
				must(t, err)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go tokens.Watch(ctx, look)
				id, err := tokens.Token(nil, secret)
				must(t, err)
				restore := func() { must(t, os.RemoveAll(path)); write(t, path, string(good)); must(t, os.Chmod(path, 0o600)) }

				time.Sleep(look / 2) // between two looks
				tc.spoil(t, path)
				time.Sleep(tc.holds) // all looks except the last
				if _, err := tokens.Token(nil, secret); err != nil || tokens.Trouble() == "" || over(id) {
					t.Fatalf("after %v: %v, trouble %q, over %v", tc.holds, err, tokens.Trouble(), over(id))
				}
				restore()
				time.Sleep(look)
				if _, err := tokens.Token(nil, secret); err != nil || tokens.Trouble() != "" || over(id) {
					t.Fatalf("fixed in time: %v, trouble %q, over %v", err, tokens.Trouble(), over(id))
				}

				tc.spoil(t, path)
				time.Sleep(tc.holds + look)
				if _, err := tokens.Token(nil, secret); !errors.Is(err, tc.want) || !over(id) || tokens.Trouble() == "" {
					t.Fatalf("after the last look: %v, want %v, over %v", err, tc.want, over(id))
				}
				restore()
				time.Sleep(look)
				if _, err := tokens.Token(nil, secret); err != nil || tokens.Trouble() != "" {
					t.Fatalf("fixed afterwards: %v, trouble %q", err, tokens.Trouble())
				}
			})
		})
	}
}

func over(id *gateway.Identity) bool {
	select {
	case <-id.Revoked:
		return true
	default:
		return false
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A lock file that cannot be opened is no other process, for which trying again would help.
func TestTokenLockThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.Mkdir(path+".lock", 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := auth.CreateToken(t.Context(), path, auth.Token{Name: "ann", Space: "default", Roles: []toolcall.Role{toolcall.RoleApprover}})
	if err == nil || errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a new token: %v", err)
	}
}

func TestTokenFileIsStrict(t *testing.T) {
	const hash = `"hash":"sha256:` + "0000000000000000000000000000000000000000000000000000000000000000" + `"`
	const rest = `"space":"s","roles":["approver"],"created":"2026-01-01T00:00:00Z",` + hash
	for _, text := range []string{
		`{}`, `{"version":2,"tokens":[]}`, `{"version":1,"tokens":[],"x":1}`,
		`{"version":1,"tokens":[{"id":"0","name":"a",` + rest + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"",` + rest + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"a\u0000",` + rest + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":" a",` + rest + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"askance-gateway",` + rest + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"a","space":"s","roles":["engine"],"created":"2026-01-01T00:00:00Z",` + hash + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"a","space":"s","roles":[],"created":"2026-01-01T00:00:00Z",` + hash + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"a","space":"S","roles":["approver"],"created":"2026-01-01T00:00:00Z",` + hash + `}]}`,
		`{"version":1,"tokens":[{"id":"0000000000000000","name":"a",` + rest + `},{"id":"0000000000000000","name":"b",` + rest + `}]}`,
	} {
		path := tokenFile(t)
		write(t, path, text)
		if _, err := auth.OpenTokens(path, nil); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
	path := tokenFile(t)
	write(t, path, `{"version":1,"tokens":[{"id":"0000000000000000","name":"a",`+rest+`}]}`)
	if _, err := auth.OpenTokens(path, nil); err != nil {
		t.Errorf("a good file: %v", err)
	}
	open := filepath.Join(filepath.Dir(path), "my tokens")
	must(t, errors.Join(os.Rename(path, open), os.Chmod(open, 0o660)))
	if _, err := auth.OpenTokens(open, nil); !errors.Is(err, message.ErrForbidden) || message.AsError("", err).Hint != "chmod 600 '"+open+"'" {
		t.Errorf("a file that others may write: %v", err)
	}
	if _, err := auth.OpenTokens(tokenFile(t), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestTokensAtOnce: several processes may create tokens at the same time.
func TestTokensAtOnce(t *testing.T) {
	path := tokenFile(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := auth.CreateToken(t.Context(), path, auth.Token{Name: "ann", Space: "s", Roles: approver}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := auth.ListTokens(path); err != nil || len(all) != 8 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
	if _, _, err := auth.CreateToken(t.Context(), path, auth.Token{Name: "ann", Space: "s", Roles: []toolcall.Role{toolcall.RoleEngine}}); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("a token with the engine's role: %v", err)
	}
}

// TestTokenMadeJustNow: a token is valid as soon as it is created. Because of unknown tokens the
// file is read at most ten times a second.
func TestTokenMadeJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tokenFile(t)
		tokens, err := auth.AwaitTokens(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		made := func() string {
			secret, _ := create(t, path, auth.Token{Name: "ann", Space: "s", Roles: approver})
			return secret
		}
		if id, err := tokens.Token(nil, made()); err != nil || id.Name != "ann" {
			t.Errorf("a new token: %+v, %v", id, err)
		}
		second := made()
		if _, err := tokens.Token(nil, second); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("the file was read again immediately: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := tokens.Token(nil, second); err != nil {
			t.Errorf("a tenth of a second later: %v", err)
		}
	})
}

func TestAuthorizationHeader(t *testing.T) {
	path := tokenFile(t)
	secret, _ := create(t, path, auth.Token{Name: "ann", Space: "alpha", Roles: approver})
	tokens, err := auth.OpenTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		headers []string
		want    error
	}{
		{nil, gateway.ErrNoCredentials},
		{[]string{"Bearer " + secret}, nil},
		{[]string{"bearer " + secret}, nil},
		{[]string{""}, message.ErrForbidden},
		{[]string{"Bearer"}, message.ErrForbidden},
		{[]string{"Basic " + secret}, message.ErrForbidden},
		{[]string{secret}, message.ErrForbidden},
		{[]string{"Bearer " + secret, "Bearer " + secret}, message.ErrForbidden},
		{[]string{"Bearer a.b.c"}, message.ErrForbidden},
		{[]string{"Bearer " + strings.Repeat("x", 20_000)}, message.ErrForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header["Authorization"] = tt.headers
		id, err := a.Authenticate(r)
		if !errors.Is(err, tt.want) || (err == nil) != (id != nil) || tt.want != nil && !errors.Is(tt.want, gateway.ErrNoCredentials) && errors.Is(err, gateway.ErrNoCredentials) {
			t.Errorf("%.60q: %+v, %v, want %v", tt.headers, id, err, tt.want)
		}
	}
}

func TestLoopback(t *testing.T) {
	l := auth.Loopback{Name: "me", Space: "s"}
	for host, ok := range map[string]bool{
		"127.0.0.1:8787": true, "localhost": true, "LOCALHOST:1": true, "[::1]:8787": true, "127.8.9.1": true,
		"evil.example": false, "localhost.evil.example:8787": false, "127.0.0.1.evil.example": false, "": false, "0.0.0.0": false, "192.0.2.1:8787": false, "[::1%25eth0]": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = host
		id, err := l.Authenticate(r)
		if (err == nil) != ok || ok && (id.Name != "me" || id.Auth != "http-loopback" || !id.Ambient) {
			t.Errorf("host %q: %+v, %v", host, id, err)
		}
	}
	if _, err := auth.New(auth.Config{Local: &l, Tokens: &auth.Tokens{}}); err == nil {
		t.Error("a local user is accepted together with tokens")
	}
}
