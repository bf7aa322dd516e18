package bus

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of the JetStream API; nats.go exports only some of them.
const (
	codeNoMessage          = 10037
	codeInsufficient       = 10023 // the server's or account's store is full
	codeStorageExceeded    = 10047
	codeMemoryExceeded     = 10028
	codeSubjectOverlap     = 10065
	codeWrongLastSequence  = 10071 // compare-and-swap failed; names the current sequence
	codeStoreFailed        = 10077 // with Discard New: the stream is full, or the message too large
	codeMessageTooLarge    = 10054
	codeDuplicateInProcess = 10158 // the same message id is being stored right now
	codeOutOfStep          = 10063 // the leader cannot store what followers may have stored
	codeWrongLastConstant  = 10164 // compare-and-swap failed inside the replication pipeline
	codeNotLeader          = 10009
	codeClusterUnavailable = 10008
	codeNotClustered       = 10074 // replicas without a cluster
	codeRestoreFailed      = 10062 // its text has the code of the cause
	codeNoPeers            = 10005 // a cluster with fewer servers than replicas
)

// isConflict reports whether a compare-and-swap failed.
func isConflict(code int) bool {
	return code == codeWrongLastSequence || code == codeWrongLastConstant
}

// isInPipeline reports whether a compare-and-swap failed because of a message that is
// about to be stored.
func isInPipeline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && int(api.ErrorCode) == codeWrongLastConstant
}

func isFull(code int, description string) bool {
	switch code {
	case codeInsufficient, codeStorageExceeded, codeMemoryExceeded:
		return true
	case codeStoreFailed:
		return strings.Contains(description, "maximum bytes") || strings.Contains(description, "no space left")
	}
	return false
}

// isDiskError reports whether the server could not write a message for which it had room.
func isDiskError(code int, description string) bool {
	return code == codeStoreFailed && !strings.Contains(description, "maximum") && !isTooLarge(code, description)
}

// isTooLarge reports whether the message can never be stored.
func isTooLarge(code int, description string) bool {
	return code == codeMessageTooLarge || code == codeStoreFailed && strings.Contains(description, "too large")
}

// isTransient reports whether the request was not executed and may succeed soon.
func isTransient(code int) bool {
	return code == codeDuplicateInProcess || code == codeNotLeader || code == codeClusterUnavailable
}

// apiError classifies the failure of a JetStream request that changes no journal.
func apiError(op, what string, err error) *message.Error {
	e := &message.Error{Code: message.CodeInternal, Op: op, What: what, Err: err}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && isFull(int(api.ErrorCode), api.Description):
		e.Code, e.Hint = message.CodeFull, "give the server more room, or delete data that is not needed"
	case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		e.Code, e.Hint = message.CodeUnavailable, "check whether the stream was deleted"
	case errors.As(err, &api) && api.ErrorCode == codeDuplicateInProcess:
		e.Code, e.Hint = message.CodeUnavailable, "try again"
	case errors.As(err, &api) && isTransient(int(api.ErrorCode)):
		e.Code, e.Hint = message.CodeUnavailable, "try again; if it lasts, start the other servers of the NATS cluster"
	case errors.As(err, &api) && api.Code == 503,
		errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, nats.ErrNoResponders), isDisconnected(err):
		e.Code, e.Hint = message.CodeUnavailable, "check that NATS runs with JetStream and that this user can use it"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		e.Code, e.Hint = message.CodeUnavailable, "enable JetStream in the NATS server"
	}
	return e
}

// isDisconnected reports whether the client has no usable connection. Except after
// ErrDisconnected, the failed request was not sent.
func isDisconnected(err error) bool {
	lost := []error{nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrConnectionDraining, nats.ErrConnectionReconnecting}
	return slices.ContainsFunc(lost, func(e error) bool { return errors.Is(err, e) })
}
