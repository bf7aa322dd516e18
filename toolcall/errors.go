package toolcall

import (
	"errors"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// TransitionError says that a call in State does not permit Cause. It is wrapped in the
// *message.Error that Step returns.
type TransitionError struct {
	Call  Key
	State message.ToolCallState
	Cause Cause
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("call %s is %s and does not permit %q", e.Call, e.State, string(e.Cause))
}

// stateError returns the error for a step that the table does not have. A finished call has
// its own code, because callers treat it differently: another party was first.
func stateError(c *Call, cause Cause) *message.Error {
	te := &TransitionError{Call: c.Key, State: c.State, Cause: cause}
	e := &message.Error{Code: message.CodeState, Op: string(cause), Err: te, Call: ErrorCall(c),
		What: "the state of the call does not permit this step", Hint: "show the call, and try again if it is still needed"}
	if c.State == finished {
		e.Code, e.What, e.Hint = message.CodeFinished, "the call is finished and cannot change", "nothing to do: see its result"
	}
	return e
}

func supersededError(c *Call, cause Cause, what string) error {
	return &message.Error{Code: message.CodeSuperseded, Op: string(cause), What: what, Call: ErrorCall(c),
		Hint: "stop: another attempt or owner has replaced this one"}
}

// ErrorCall returns the form in which a [message.Error] contains a call: a copy as JSON,
// because package message cannot use Call. For a nil call it returns nil.
func ErrorCall(c *Call) message.RawJSON {
	if c == nil {
		return nil
	}
	b, err := strictjson.Marshal(c)
	if err != nil {
		return nil // the error still says what is wrong
	}
	return b
}

// CallOf returns the call contained in err, as the caller may see it, or nil. Each call of
// CallOf returns a new copy.
func CallOf(err error) *Call {
	e, ok := errors.AsType[*message.Error](err)
	if !ok || e.Call == nil {
		return nil
	}
	c := new(Call)
	if strictjson.UnmarshalOpen(e.Call, c, strictjson.MaxBytes(len(e.Call))) != nil {
		return nil
	}
	return c
}
