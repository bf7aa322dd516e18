package toolcall

import (
	"errors"
	"fmt"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// TransitionError says that a call in State does not take Cause. It is the
// cause inside the *message.Error that Step returns.
type TransitionError struct {
	Call  Key
	State message.ToolCallState
	Cause Cause
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("call %s is %s and does not take %q", e.Call, e.State, string(e.Cause))
}

// stateError returns the border's error for a step that the table does not
// have. A finished call has a code of its own, because callers treat it
// differently: another party was first.
func stateError(c *Call, cause Cause) error {
	te := &TransitionError{Call: c.Key, State: c.State, Cause: cause}
	e := &message.Error{Code: message.CodeState, Op: string(cause), Err: te, Call: ErrorCall(c),
		What: "the state of the call does not permit this step", Hint: "show the call, and try again if it is still needed"}
	if c.State == finished {
		e.Code, e.What, e.Hint = message.CodeFinished, "the call is finished and never moves again", "nothing to do: see its result"
	}
	return e
}

func supersededError(c *Call, cause Cause, what string) error {
	return &message.Error{Code: message.CodeSuperseded, Op: string(cause), What: what, Call: ErrorCall(c),
		Hint: "stop: another attempt or owner counts"}
}

// ErrorCall gives the form in which a [message.Error] carries a call: a copy as
// JSON, because package message knows no calls. Without a call it is nil.
func ErrorCall(c *Call) message.RawJSON {
	if c == nil {
		return nil
	}
	b, err := strictjson.Marshal(c)
	if err != nil {
		return nil // the error alone still says what is wrong
	}
	return b
}

// CallOf returns the call that err carries, as the caller may see it. It is nil
// where err carries none. Each reading returns a new copy.
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
