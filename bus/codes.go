package bus

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of the JetStream API that decide what we do. nats.go exports
// only some of them.
const (
	codeNoMessage          = 10037
	codeInsufficient       = 10023 // the server's or account's store is full
	codeStorageExceeded    = 10047
	codeMemoryExceeded     = 10028
	codeSubjectOverlap     = 10065
	codeWrongLastSequence  = 10071 // compare-and-swap lost; names the present sequence
	codeStoreFailed        = 10077 // with Discard New: the stream is full, or the message too large
	codeMessageTooLarge    = 10054
	codeDuplicateInProcess = 10158 // the same message id is being stored right now
	codeWrongLastConstant  = 10164 // compare-and-swap lost inside the replication pipeline
	codeNotLeader          = 10009
	codeClusterUnavailable = 10008
	codeNotClustered       = 10074 // replicas without a cluster
	codeNoPeers            = 10005 // a cluster with fewer servers than replicas
)

// conflictCode reports whether a compare-and-swap lost. There are two codes.
func conflictCode(code int) bool {
	return code == codeWrongLastSequence || code == codeWrongLastConstant
}

// inPipeline reports whether a compare-and-swap lost against a message that is
// not stored yet, but about to be.
func inPipeline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && int(api.ErrorCode) == codeWrongLastConstant
}

// fullCode reports whether there was no room to store.
func fullCode(code int, description string) bool {
	switch code {
	case codeInsufficient, codeStorageExceeded, codeMemoryExceeded:
		return true
	case codeStoreFailed:
		return strings.Contains(description, "maximum bytes") || strings.Contains(description, "no space left")
	}
	return false
}

// tooLargeCode reports whether the message can never be stored.
func tooLargeCode(code int, description string) bool {
	return code == codeMessageTooLarge || code == codeStoreFailed && strings.Contains(description, "too large")
}

// transientCode reports whether the same request may succeed soon, and was
// not carried out now.
func transientCode(code int) bool {
	return code == codeDuplicateInProcess || code == codeNotLeader || code == codeClusterUnavailable
}
