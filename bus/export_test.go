package bus

import "reflect"

// EncodeError makes the reply that refuses.
var EncodeError = encodeError

// EncodeReply makes the reply that answers.
var EncodeReply = encodeReply

// EncodeRequest makes a request.
var EncodeRequest = encodeRequest

// BodyTypes gives the types of an operation's request and reply.
func BodyTypes(k Kind, op Op) (request, reply reflect.Type) {
	for _, c := range conversations {
		if c.kind == k {
			return c.ops[op].request, c.ops[op].reply
		}
	}
	return nil, nil
}
