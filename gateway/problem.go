package gateway

import (
	"fmt"
	"net/http"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Problem is an error as problem details (RFC 9457), with askance's own code
// and, where the error is about a call, its present state.
type Problem struct {
	Type   string        `json:"type"` // "about:blank", or a page that explains the code
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitzero"`
	Code   message.Code  `json:"code"`
	Hint   string        `json:"hint,omitzero"`
	Call   *message.Call `json:"call,omitzero"`
}

// StatusOf is the HTTP status of a code.
func StatusOf(c message.Code) int {
	switch c {
	case message.CodeInvalid:
		return http.StatusBadRequest
	case message.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case message.CodeNotFound:
		return http.StatusNotFound
	case message.CodeForbidden, message.CodeForeign:
		return http.StatusForbidden
	case message.CodeConflict, message.CodeDigest, message.CodeFinished, message.CodeState, message.CodeInterrupted, message.CodeSuperseded:
		return http.StatusConflict
	case message.CodeOverLimit:
		return http.StatusTooManyRequests
	case message.CodeUnavailable, message.CodeUnknownOutcome, message.CodeDamaged:
		return http.StatusServiceUnavailable
	case message.CodeFull, message.CodeForeignStream:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

// ProblemOf makes problem details of any error.
func ProblemOf(err error) Problem {
	e := message.AsError("", err)
	status := StatusOf(e.Code)
	p := Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.What, Code: e.Code, Hint: e.Hint, Call: toolcall.CallOf(e)}
	if e.Code == message.CodeInternal {
		p.Detail = "something went wrong here; the server's log says what"
	}
	return p
}

// WriteProblem answers a request with an error.
func WriteProblem(w http.ResponseWriter, err error) {
	ProblemOf(err).write(w)
}

func (p Problem) write(w http.ResponseWriter) {
	b, err := strictjson.Marshal(p)
	if err != nil { // only a call that cannot be written; the rest always can
		b = fmt.Appendf(nil, `{"title":%q,"status":%d,"code":%q}`, p.Title, p.Status, p.Code)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n')) //nolint:gosec // G705: JSON that says so, with nosniff; the peer may be gone
}
