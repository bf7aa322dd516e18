package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/askance-dev/askance/message"
)

// In subjects and consumers the token of a lane stands where a tool's stands:
// that of the tool itself, or with a route both tokens joined by a sign that no
// token of a name has.
const laneSign = "="

// maxConsumerName is the server's limit.
const maxConsumerName = 255

// EncodeLane gives the one token of a lane. Without a tool there is none: "".
func EncodeLane(l message.Lane) Token {
	t := Encode(l.Tool)
	if l.Route == "" || t == "" {
		return t
	}
	return t + laneSign + encodeRoute(l.Route)
}

// encodeRoute is Encode without its bound: a route is always read back.
func encodeRoute(route string) Token {
	if plain(route) {
		return Token(route)
	}
	return Token(textPrefix + strictBase64.EncodeToString([]byte(route)))
}

// Lane reads a lane back. It is false for a hashed tool and for what is no
// lane's token.
func (t Token) Lane() (l message.Lane, ok bool) {
	tool, route, routed := strings.Cut(string(t), laneSign)
	if l.Tool, ok = Token(tool).ID(); !ok || !routed {
		return l, ok
	}
	if l.Route, ok = decodeRoute(route); !ok {
		return message.Lane{}, false
	}
	return l, true
}

func decodeRoute(s string) (string, bool) {
	text, encoded := strings.CutPrefix(s, textPrefix)
	if !encoded {
		return s, plain(s)
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || message.CheckRoute(string(b)) != nil || string(encodeRoute(string(b))) != s {
		return "", false
	}
	return string(b), true
}

// parseLane accepts exactly the texts that EncodeLane gives.
func parseLane(s string) (Token, error) {
	tool, route, routed := strings.Cut(s, laneSign)
	t, err := ParseToken(tool)
	if err != nil || !routed {
		return t, err
	}
	if _, ok := decodeRoute(route); !ok {
		return "", badToken(s)
	}
	return Token(s), nil
}

// checkLane says whether workers can serve a lane.
func checkLane(l message.Lane) error {
	if err := CheckName("tool", l.Tool); err != nil {
		return err
	}
	if l.Route != "" {
		return message.CheckRoute(l.Route)
	}
	return nil
}

// ConsumerName is the name of the durable consumer that a lane's workers share:
// w_ and the lane's token, or its hash where that is too long for the server.
func ConsumerName(l message.Lane) string {
	token := string(EncodeLane(l))
	if name := "w_" + token; len(name) <= maxConsumerName {
		return name
	}
	sum := sha256.Sum256([]byte(token))
	return "w_" + textPrefix + laneSign + hex.EncodeToString(sum[:])
}
