package msgv1

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/askance-dev/askance/message/v1"
)

// The media types of JSON whose messages are dicts.
const (
	Type   = "application/vnd.agentscope.v1+json"   // AgentScope 1.x
	Type01 = "application/vnd.agentscope.v0.1+json" // AgentScope 0.1.x
)

var dialects = map[string]v1.Dialect{Type: v1.V1, Type01: v1.V01}

// IsSent reports whether the body of a request has dicts for messages.
func IsSent(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	_, ok := dialects[kind]
	return err == nil && ok
}

// WantedBy returns the media type of dicts if the client prefers it to plain JSON, or else "". A
// tie goes to the type that Accept names first.
func WantedBy(r *http.Request) string {
	best, wanted := 0.0, ""
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if q <= best {
			continue
		}
		if _, ok := dialects[kind]; ok {
			best, wanted = q, kind
		} else if kind == "application/json" || kind == "application/*" || kind == "*/*" {
			best, wanted = q, ""
		}
	}
	return wanted
}
