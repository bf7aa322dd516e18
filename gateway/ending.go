package gateway

import (
	"context"
	"errors"

	"github.com/askance-dev/askance/message"
)

// Ended says why a stream has to end although its turn or its session goes on,
// as an error that the peer may see; ctx is the request's. nil: it has not ended,
// or the peer has gone and hears of nothing.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil, errors.Is(cause, context.Canceled):
		return nil
	case errors.Is(cause, errExpired), errors.Is(cause, errRevoked):
		return &message.Error{Code: message.CodeForbidden, Op: "stream", What: cause.Error(), Hint: "connect again with new ones"}
	case errors.Is(cause, errClosing):
		return &message.Error{Code: message.CodeUnavailable, Op: "stream", What: cause.Error(), Hint: "connect again in a moment"}
	}
	return message.AsError("stream", cause)
}
