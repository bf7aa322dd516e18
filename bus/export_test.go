package bus

import (
	"maps"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message/api"
)

// EncodeError encodes a reply with an error.
var EncodeError = encodeError

// EncodeReply encodes a successful reply.
var EncodeReply = encodeReply

// EncodeRequest encodes a request.
var EncodeRequest = encodeRequest

// Table has every subject of the protocol.
func Table() []Row { return append([]Row(nil), table...) }

// OperationNamed returns an operation that exists over NATS, or nil.
func OperationNamed(name string) *api.Operation { return operations[name] }

// AllOperations returns the operations that exist over NATS, in alphabetical order.
func AllOperations() []*api.Operation {
	return slices.SortedFunc(maps.Values(operations), func(a, b *api.Operation) int { return strings.Compare(a.Name, b.Name) })
}
