package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// queueSign joins the tokens of a tool and a route; no token of a name contains it.
const queueSign = "="

// maxConsumerName is the server's limit.
const maxConsumerName = 255

// EncodeQueue returns the token of a queue, or "" if it has no tool.
func EncodeQueue(q toolcall.Queue) Token {
	t := Encode(q.Tool)
	if q.Route == "" || t == "" {
		return t
	}
	return t + queueSign + encodeRoute(q.Route)
}

// encodeRoute is Encode without the size limit: a route can always be decoded from a
// subject.
func encodeRoute(route string) Token {
	if IsPlain(route) {
		return Token(route)
	}
	return Token(textPrefix + strictBase64.EncodeToString([]byte(route)))
}

// Queue decodes a queue. It returns false for a hashed tool, and for a token that is not
// a queue.
func (t Token) Queue() (q toolcall.Queue, ok bool) {
	tool, route, routed := strings.Cut(string(t), queueSign)
	if q.Tool, ok = Token(tool).ID(); !ok || !routed {
		return q, ok
	}
	if q.Route, ok = decodeRoute(route); !ok {
		return toolcall.Queue{}, false
	}
	return q, true
}

func decodeRoute(s string) (string, bool) {
	text, encoded := strings.CutPrefix(s, textPrefix)
	if !encoded {
		return s, IsPlain(s)
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || toolcall.CheckRoute(string(b)) != nil || string(encodeRoute(string(b))) != s {
		return "", false
	}
	return string(b), true
}

// parseQueue accepts exactly what EncodeQueue returns.
func parseQueue(s string) (Token, error) {
	tool, route, routed := strings.Cut(s, queueSign)
	t, err := ParseToken(tool)
	if err != nil || !routed {
		return t, err
	}
	if _, ok := decodeRoute(route); !ok {
		return "", badToken(s)
	}
	return Token(s), nil
}

// CheckQueue returns why workers cannot serve a queue.
func CheckQueue(q toolcall.Queue) error {
	if err := CheckName("tool", q.Tool); err != nil {
		return err
	}
	if q.Route != "" {
		return toolcall.CheckRoute(q.Route)
	}
	return nil
}

// ConsumerName returns the name of the durable consumer that a queue's workers share:
// "w_" and the queue's token, or the hash of the token if that is too long.
func ConsumerName(q toolcall.Queue) string {
	token := string(EncodeQueue(q))
	if name := "w_" + token; len(name) <= maxConsumerName {
		return name
	}
	sum := sha256.Sum256([]byte(token))
	return "w_" + textPrefix + queueSign + hex.EncodeToString(sum[:])
}
