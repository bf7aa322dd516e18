package auth

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// typed are the types that the header of an access token may have. RFC 9068 has
// the first two; many providers write no more than that it is a JWT. Any other
// type is another thing that the provider signs, such as a log-out.
var typed = map[string]bool{"at+jwt": true, "application/at+jwt": true, "jwt": false, "application/jwt": false, "": false}

// ofLogin are claims that only the answer to a log-in has: what a browser got to
// know who is there, and what no program may send as its right to do something.
// A log-out has "events".
var ofLogin = []string{"nonce", "at_hash", "c_hash", "s_hash", "events"}

// ofAccess are claims that access tokens have and the answers to log-ins do not.
var ofAccess = []string{"scope", "scp", "client_id"}

// isAccessToken reports whether a verified JWT is for sending to a server like
// this one. An ID token is not: it says who logged in at a client, and is seen by
// browsers, other programs of the client, and logs. Where its type does not say so
// (RFC 9068), its claims must: an ID token always has the client id as audience,
// so a token for that audience must show that it is none.
func isAccessToken(token string, c claims, audience []string, clientID string) bool {
	access, known := typed[headerType(token)]
	if access || !known {
		return access
	}
	if c.has(ofLogin) {
		return false
	}
	// Keycloak and Cognito name the kind in a claim.
	kind := strings.ToLower(c.text("typ") + c.text("token_use"))
	if kind != "" {
		return kind == "bearer" || kind == "access"
	}
	if c.has(ofAccess) {
		return true
	}
	return !slices.Contains(audience, clientID)
}

// has reports whether any of the claims is there.
func (c claims) has(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, there := c[name]; return there })
}

// headerType is the type in a JWT's header, in lower case as types compare; what
// cannot be read is a type that nobody knows.
func headerType(token string) string {
	const unknown = "?"
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return unknown
	}
	m, err := strictjson.Object(raw)
	if err != nil {
		return unknown
	}
	v, there := m["typ"]
	s, text := v.(string)
	if there && !text {
		return unknown
	}
	return strings.ToLower(s)
}
