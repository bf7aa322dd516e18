package auth_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/gateway/auth"
)

// FuzzTokens: no malformed token file or header admits a request.
func FuzzTokens(f *testing.F) {
	const good = `{"version":1,"tokens":[{"id":"0123456789abcdef","name":"ann","space":"s","roles":["approver"],"hash":"sha256:0000000000000000000000000000000000000000000000000000000000000000","created":"2026-01-01T00:00:00Z"}]}`
	f.Add([]byte(good), "Bearer askance_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add([]byte(`{"version":1,"tokens":null}`), "Bearer a.b.c")
	f.Add([]byte(`{`), "")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, header string) {
		path := filepath.Join(dir, "tokens.json")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := auth.OpenTokens(path, nil)
		if err != nil {
			return
		}
		a, err := auth.New(auth.Config{Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		all, err := auth.ListTokens(path)
		if err != nil {
			t.Fatalf("the file can be opened but not listed: %v", err)
		}
		for _, token := range all {
			if token.Name == "" || len(token.Roles) == 0 || token.Space == "" {
				t.Errorf("a token without a name, a space or roles: %+v", token)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header["Authorization"] = []string{header}
		if id, err := a.Authenticate(r); err == nil {
			t.Errorf("%q is %+v", header, id) // the hash of such a token would have to be known
		}
	})
}
