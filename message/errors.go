package message

import (
	"cmp"
	"errors"
	"fmt"
)

// Code is the closed list of error codes at askance's interfaces. Callers distinguish errors
// by code; the text is for people.
type Code string

// The codes, with what the caller can do about each.
const (
	CodeInvalid        Code = "invalid"         // the request is malformed: correct it
	CodeTooLarge       Code = "too_large"       // over a documented limit
	CodeNotFound       Code = "not_found"       // no such call, reply, session or tool
	CodeConflict       Code = "conflict"        // someone else was first, or the same id with other content
	CodeDigest         Code = "digest_mismatch" // the response's digest is not that of the open approval request
	CodeFinished       Code = "finished"        // the call is finished and cannot change
	CodeArchived       Code = "archived"        // the call or reply was archived; its ids cannot be used again
	CodeState          Code = "wrong_state"     // the call's state does not permit this
	CodeForbidden      Code = "forbidden"       // this principal may not do that
	CodeForeign        Code = "foreign"         // the session belongs to another runtime
	CodeInterrupted    Code = "interrupted"     // the reply was interrupted
	CodeSuperseded     Code = "superseded"      // a newer attempt exists, or another claim holds this one
	CodeOverLimit      Code = "over_limit"      // this reviewer has responded to, or has open, too many requests: try later
	CodeOverloaded     Code = "overloaded"      // too much is in progress, and nothing was started: try again soon
	CodeUnavailable    Code = "unavailable"     // no engine or no NATS: try again later
	CodeFull           Code = "full"            // the journal's store is full: nothing was written
	CodeForeignStream  Code = "foreign_stream"  // the stream was not created by askance
	CodeDamaged        Code = "damaged"         // the journal lost records: nothing runs until an operator decides
	CodeUnknownOutcome Code = "unknown_outcome" // it is unknown whether the write was stored
	CodeInternal       Code = "internal"        // a defect of askance: report it
)

// Sentinels for errors.Is: errors.Is(err, ErrConflict) is true for every Error with that
// code. ErrUnavailable also matches CodeOverloaded, because both mean to try again.
var (
	ErrInvalid        = &Error{Code: CodeInvalid}
	ErrTooLarge       = &Error{Code: CodeTooLarge}
	ErrNotFound       = &Error{Code: CodeNotFound}
	ErrConflict       = &Error{Code: CodeConflict}
	ErrDigest         = &Error{Code: CodeDigest}
	ErrFinished       = &Error{Code: CodeFinished}
	ErrState          = &Error{Code: CodeState}
	ErrForbidden      = &Error{Code: CodeForbidden}
	ErrForeign        = &Error{Code: CodeForeign}
	ErrInterrupted    = &Error{Code: CodeInterrupted}
	ErrSuperseded     = &Error{Code: CodeSuperseded}
	ErrOverLimit      = &Error{Code: CodeOverLimit}
	ErrOverloaded     = &Error{Code: CodeOverloaded}
	ErrArchived       = &Error{Code: CodeArchived}
	ErrUnavailable    = &Error{Code: CodeUnavailable}
	ErrFull           = &Error{Code: CodeFull}
	ErrForeignStream  = &Error{Code: CodeForeignStream}
	ErrDamaged        = &Error{Code: CodeDamaged}
	ErrUnknownOutcome = &Error{Code: CodeUnknownOutcome}
)

// Error is the only error type at askance's interfaces, in Go and as JSON in replies. It
// never contains secrets or internals of the process.
type Error struct {
	Code Code   `json:"code"`
	Op   string `json:"op,omitzero"`   // the operation, e.g. "propose"
	What string `json:"what"`          // what is wrong, and where
	Hint string `json:"hint,omitzero"` // how to correct it
	// Call is the current state of the call as JSON, if the error is about one, so the loser
	// of a race sees the winner's outcome. toolcall.CallOf reads it.
	Call RawJSON `json:"call,omitzero"`
	// Err is the local cause; it is not sent.
	Err error `json:"-"`
}

// Error returns operation, fault, cause and remedy in one line.
func (e *Error) Error() string {
	s := cmp.Or(e.What, string(e.Code))
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		if cause := e.Err.Error(); cause != "" {
			s += ": " + cause
		}
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the local cause.
func (e *Error) Unwrap() error { return e.Err }

// Is compares codes, so the sentinels match every Error with their code.
func (e *Error) Is(target error) bool {
	var t *Error
	if !errors.As(target, &t) || t.What != "" {
		return false
	}
	return t.Code == e.Code || t.Code == CodeUnavailable && e.Code == CodeOverloaded
}

// Errorf returns an Error with a code; %w sets the cause as in fmt.Errorf.
func Errorf(code Code, op, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Op: op, What: err.Error(), Err: quiet{errors.Unwrap(err)}.orNil()}
}

// AsError converts any error to an Error: an Error in the chain is returned as it is,
// anything else becomes internal.
func AsError(op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Op: op, What: err.Error()}
}

// quiet keeps a cause for errors.Is and errors.As whose text is already part of What, so that
// it is not printed twice.
type quiet struct{ error }

func (q quiet) Error() string { return "" }
func (q quiet) Unwrap() error { return q.error }
func (q quiet) orNil() error {
	if q.error == nil {
		return nil
	}
	return q
}
