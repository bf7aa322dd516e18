package jsapi

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
	CodeNoMessage          = 10037
	codeInsufficient       = 10023 // the server's or account's store is full
	codeStorageExceeded    = 10047
	codeMemoryExceeded     = 10028
	codeMaxConsumers       = 10026
	codeMaxStreams         = 10027
	CodeSubjectOverlap     = 10065
	codeWrongLastSequence  = 10071 // compare-and-swap failed; names the current sequence
	codeStoreFailed        = 10077 // with Discard New: the stream is full, or the message too large
	codeMessageTooLarge    = 10054
	codeDuplicateInProcess = 10158 // the same message id is being stored right now
	CodeOutOfStep          = 10063 // the leader cannot store what followers may have stored
	codeWrongLastConstant  = 10164 // compare-and-swap failed inside the replication pipeline
	codeNotLeader          = 10009
	codeClusterUnavailable = 10008
	CodeNotClustered       = 10074 // replicas without a cluster
	CodeRestoreFailed      = 10062 // its text has the code of the cause
	CodeNoPeers            = 10005 // a cluster with fewer servers than replicas
)

// IsConflict reports whether a compare-and-swap failed.
func IsConflict(code int) bool {
	return code == codeWrongLastSequence || code == codeWrongLastConstant
}

// IsInPipeline reports whether a compare-and-swap failed because of a message that is
// about to be stored.
func IsInPipeline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && int(api.ErrorCode) == codeWrongLastConstant
}

// IsFull reports whether the server has no room for the message.
func IsFull(code int, description string) bool {
	switch code {
	case codeInsufficient, codeStorageExceeded, codeMemoryExceeded:
		return true
	case codeStoreFailed:
		return strings.Contains(description, "maximum bytes") || strings.Contains(description, "no space left")
	}
	return false
}

// IsDiskError reports whether the server could not write a message for which it had room.
func IsDiskError(code int, description string) bool {
	return code == codeStoreFailed && !strings.Contains(description, "maximum") && !IsTooLarge(code, description)
}

// IsTooLarge reports whether the message can never be stored.
func IsTooLarge(code int, description string) bool {
	return code == codeMessageTooLarge || code == codeStoreFailed && strings.Contains(description, "too large")
}

// IsTransient reports whether the request was not executed and may succeed soon.
func IsTransient(code int) bool {
	return code == codeDuplicateInProcess || code == codeNotLeader || code == codeClusterUnavailable
}

// Error classifies the failure of a JetStream request that changes no journal.
func Error(op, what string, err error) *message.Error {
	e := &message.Error{Code: message.CodeInternal, Op: op, What: what, Err: err}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && IsFull(int(api.ErrorCode), api.Description):
		e.Code, e.Hint = message.CodeFull, "give the server more room, or delete data that is not needed"
	case errors.As(err, &api) && (api.ErrorCode == codeMaxConsumers || api.ErrorCode == codeMaxStreams):
		e.Code, e.Hint = message.CodeFull, "raise the limits of streams and consumers of the NATS account, or use an account of its own"
	case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		e.Code, e.Hint = message.CodeUnavailable, "check whether the stream was deleted"
	case errors.As(err, &api) && api.ErrorCode == codeDuplicateInProcess:
		e.Code, e.Hint = message.CodeUnavailable, "try again"
	case errors.As(err, &api) && IsTransient(int(api.ErrorCode)):
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

// OnlyHeader returns the value of a header, or "" if it has none or several.
func OnlyHeader(h nats.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
