package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// In subjects and consumers the token of a queue stands where a tool's stands:
// that of the tool itself, or with a route both tokens joined by a sign that no
// token of a name has.
const queueSign = "="

// maxConsumerName is the server's limit.
const maxConsumerName = 255

// EncodeQueue gives the one token of a queue. Without a tool there is none: "".
func EncodeQueue(l toolcall.Queue) Token {
	t := Encode(l.Tool)
	if l.Route == "" || t == "" {
		return t
	}
	return t + queueSign + encodeRoute(l.Route)
}

// encodeRoute is Encode without its bound: a route is always read back.
func encodeRoute(route string) Token {
	if plain(route) {
		return Token(route)
	}
	return Token(textPrefix + strictBase64.EncodeToString([]byte(route)))
}

// Queue reads a queue back. It is false for a hashed tool and for what is no
// queue's token.
func (t Token) Queue() (l toolcall.Queue, ok bool) {
	tool, route, routed := strings.Cut(string(t), queueSign)
	if l.Tool, ok = Token(tool).ID(); !ok || !routed {
		return l, ok
	}
	if l.Route, ok = decodeRoute(route); !ok {
		return toolcall.Queue{}, false
	}
	return l, true
}

func decodeRoute(s string) (string, bool) {
	text, encoded := strings.CutPrefix(s, textPrefix)
	if !encoded {
		return s, plain(s)
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || toolcall.CheckRoute(string(b)) != nil || string(encodeRoute(string(b))) != s {
		return "", false
	}
	return string(b), true
}

// parseQueue accepts exactly the texts that EncodeQueue gives.
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

// checkQueue says whether workers can serve a queue.
func checkQueue(l toolcall.Queue) error {
	if err := CheckName("tool", l.Tool); err != nil {
		return err
	}
	if l.Route != "" {
		return toolcall.CheckRoute(l.Route)
	}
	return nil
}

// ConsumerName is the name of the durable consumer that a queue's workers share:
// w_ and the queue's token, or its hash where that is too long for the server.
func ConsumerName(l toolcall.Queue) string {
	token := string(EncodeQueue(l))
	if name := "w_" + token; len(name) <= maxConsumerName {
		return name
	}
	sum := sha256.Sum256([]byte(token))
	return "w_" + textPrefix + queueSign + hex.EncodeToString(sum[:])
}
