package jsapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/message"
)

// Without most servers of a cluster, a command says to start them and does not doubt the login.
func TestAPIErrorWithoutQuorum(t *testing.T) {
	err := Error("open journal", "stream X", &jetstream.APIError{Code: 503, ErrorCode: codeClusterUnavailable})
	if !errors.Is(err, message.ErrUnavailable) || !strings.Contains(err.Hint, "start the other servers") {
		t.Errorf("the error is %v with the hint %q", err, err.Hint)
	}
}

// A write that is still being stored needs no other server.
func TestAPIErrorOfADuplicate(t *testing.T) {
	err := Error("checkpoint", "stream X", &jetstream.APIError{Code: 409, ErrorCode: codeDuplicateInProcess})
	if !errors.Is(err, message.ErrUnavailable) || err.Hint != "try again" {
		t.Errorf("the error is %v with the hint %q", err, err.Hint)
	}
}

// An account that cannot have more streams or consumers needs an operator.
func TestAPIErrorOfALimitedAccount(t *testing.T) {
	for _, code := range []jetstream.ErrorCode{10026, 10027} {
		if err := Error("open journal", "stream s", &jetstream.APIError{Code: 400, ErrorCode: code}); !errors.Is(err, message.ErrFull) || err.Hint == "" {
			t.Errorf("%d: %v, want full with a hint", code, err)
		}
	}
}
