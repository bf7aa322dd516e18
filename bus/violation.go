package bus

import (
	"errors"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// NATS refuses a publish or a subscription in passing: the call succeeds, and
// the refusal arrives later on the connection, as its last error.

// violation is the refusal of one of the subjects, if it is the last that the
// connection was told and another than before. A subject that ends with a dot
// stands for all that begin so.
func violation(nc *nats.Conn, before error, subjects ...string) error {
	err := nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) || err == before { //nolint:errorlint // the very same value: it was there before
		return nil
	}
	for _, s := range subjects {
		quoted := strconv.Quote(s)
		if strings.HasSuffix(s, ".") {
			quoted = strings.TrimSuffix(quoted, `"`)
		}
		if strings.Contains(err.Error(), quoted) {
			return err
		}
	}
	return nil
}

// notAllowed is the error for a refusal by NATS.
func notAllowed(op string, err error) *message.Error {
	return &message.Error{Code: message.CodeForbidden, Op: op, What: "NATS does not allow this user to", Hint: "grant what bus/PROTOCOL.md lists for the role, or log in as somebody else", Err: err}
}
