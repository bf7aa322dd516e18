package bus

import (
	"reflect"

	"github.com/nats-io/nats.go/jetstream"
)

// EncodeError makes the reply that refuses.
var EncodeError = encodeError

// EncodeReply makes the reply that answers.
var EncodeReply = encodeReply

// EncodeRequest makes a request.
var EncodeRequest = encodeRequest

// FactSubject is the subject of a fact.
var FactSubject = factSubject

// Table has every subject of the protocol.
func Table() []Row { return append([]Row(nil), table...) }

// BodyTypes gives the types of an operation's request and reply.
func BodyTypes(k Kind, op Op) (request, reply reflect.Type) {
	for _, c := range conversations {
		if c.kind == k {
			return c.ops[op].request, c.ops[op].reply
		}
	}
	return nil, nil
}

// ClaimOf is what a journal that opened on the server n1 claims of a stream.
func ClaimOf(info *jetstream.StreamInfo, stated Durability, syncs map[string]bool) (Durability, error) {
	c, err := claimSource{stated: stated, syncs: syncs, server: "n1"}.claim(info)
	return c.Durability, err
}
