package bus

import (
	"maps"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message/api"
	"github.com/nats-io/nats.go/jetstream"
)

// EncodeError makes the reply that refuses.
var EncodeError = encodeError

// EncodeReply makes the reply that answers.
var EncodeReply = encodeReply

// EncodeRequest makes a request.
var EncodeRequest = encodeRequest

// RecordSubject is the subject of a record.
var RecordSubject = recordSubject

// Table has every subject of the protocol.
func Table() []Row { return append([]Row(nil), table...) }

// OperationNamed is an operation that exists over NATS; nil: there is none.
func OperationNamed(name string) *api.Operation { return operations[name] }

// AllOperations are all that exist over NATS, in alphabetical order.
func AllOperations() []*api.Operation {
	return slices.SortedFunc(maps.Values(operations), func(a, b *api.Operation) int { return strings.Compare(a.Name, b.Name) })
}

// ClaimOf is what a journal that opened on the server n1 claims of a stream.
func ClaimOf(info *jetstream.StreamInfo, stated Durability, syncs map[string]bool) (Durability, error) {
	c, err := (&claims{stated: stated, syncs: syncs, server: "n1"}).compute(info)
	return c.Durability, err
}
