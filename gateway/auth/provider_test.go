package auth_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// provider is an OpenID Connect provider with discovery, keys, the authorization code flow with
// PKCE, and tokens with real signatures.
type provider struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey

	mu    sync.Mutex // guards the fields below
	who   map[string]any
	last  string                // the last ID token
	info  map[string]any        // what UserInfo replies; nil: the subject
	codes map[string]url.Values // the authorization requests
	down  bool
	odd   map[string]http.HandlerFunc // in place of the usual replies, by path
}

const clientID = "askance"

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, codes: map[string]url.Values{}, who: map[string]any{"sub": "1", "email": "ann@example.org", "email_verified": true, "groups": []string{"approvers", "ops"}}}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, map[string]any{
			"userinfo_endpoint": p.URL + "/userinfo",
			"issuer":            p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down, odd := p.down, p.odd[r.URL.Path]
		p.mu.Unlock()
		if odd != nil {
			odd(w, r)
			return
		}
		if down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

// authorize is the login page of the provider; the person agrees at once.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != clientID || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("scope") != "openid profile email groups" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || r.PostFormValue("redirect_uri") != q.Get("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		p.json(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := maps.Clone(p.who)
	if claims["nonce"] == nil {
		claims["nonce"] = q.Get("nonce")
	}
	p.last = p.sign(p.key, claims)
	p.json(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": p.last})
}

func (p *provider) userInfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer opaque":
		http.Error(w, "no access token", http.StatusUnauthorized)
	case p.info == nil:
		p.json(w, map[string]any{"sub": cmp.Or(p.who["sub"], any("1"))})
	default:
		p.json(w, p.info)
	}
}

// sign returns a signed token. It adds the claims that every valid token has. typ is the type in
// the header, at most one.
func (p *provider) sign(key *ecdsa.PrivateKey, claims map[string]any, typ ...jose.ContentType) string {
	p.t.Helper()
	opts := new(jose.SignerOptions)
	if len(typ) > 0 {
		opts = opts.WithType(typ[0])
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, opts)
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]any{"iss": p.URL, "sub": "1", "aud": clientID, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// is sets who logs in.
func (p *provider) is(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.who = claims
}
