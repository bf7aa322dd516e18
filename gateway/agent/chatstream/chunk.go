package chatstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Chunk is one "chat.completion.chunk".
type Chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // Unix seconds
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage"` // with the last chunk, if it was asked for
	// Fault is what a server sends instead when it cannot continue.
	Fault json.RawMessage `json:"error"`
}

// Choice is one of a completion's answers; only choice 0 is accepted.
type Choice struct {
	Index        int     `json:"index"`
	Delta        Delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

// Delta is what a chunk adds.
type Delta struct {
	Role      string      `json:"role"`
	Content   *string     `json:"content"`
	Refusal   *string     `json:"refusal"`
	ToolCalls []CallDelta `json:"tool_calls"`
	// Reasoning is the model's thinking, where the server shows it, under one of two names.
	Reasoning        *string `json:"reasoning"`
	ReasoningContent *string `json:"reasoning_content"`
}

// thinking returns what the chunk adds to the model's reasoning.
func (d Delta) thinking() string {
	switch {
	case d.ReasoningContent != nil:
		return *d.ReasoningContent
	case d.Reasoning != nil:
		return *d.Reasoning
	}
	return ""
}

// CallDelta is a piece of a tool call. The id and the name come with the first
// piece of an index; the arguments come in any number of pieces.
type CallDelta struct {
	Index    int      `json:"index"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function names the tool and carries a piece of its arguments' raw text.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    *struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// ServerError is the error of a server that cannot continue, within a stream or in place of one.
type ServerError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *ServerError) Error() string {
	if e.Type == "" {
		return "the server says: " + e.Message
	}
	return "the server says: " + e.Type + ": " + e.Message
}

// ParseServerError reads the error of a body {"error": …}, or only its member: an object with a
// message, or a string. It returns nil if there is none.
func ParseServerError(data []byte) *ServerError {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if strictjson.UnmarshalOpen(data, &body) == nil && len(body.Error) > 0 {
		data = body.Error
	}
	var e ServerError
	if strictjson.UnmarshalOpen(data, &e) == nil && e.Message != "" {
		return &e
	}
	if text, err := strictjson.Text(data); err == nil && text != "" {
		return &ServerError{Message: text}
	}
	return nil
}

// ErrDone is returned by Next at the end of a completion.
var ErrDone = errors.New("the completion is done")

// maxLine bounds one line of a recording.
const maxLine = 1 << 20

// done is the data that ends a completion.
const done = "[DONE]"

// Error says where a recording is wrong.
type Error struct {
	Line int // from 1: the last line of the faulty event
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("model stream, line %d: %v", e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Reader reads a recording. It is not safe for concurrent use.
type Reader struct {
	lines *bufio.Scanner
	line  int
	open  bool // within a completion
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	s.Split(splitLines)
	return &Reader{lines: s}
}

// Next returns the next chunk, ErrDone after the last of a completion, and io.EOF when no
// completion follows. A recording that breaks off within a completion is an error that wraps
// io.ErrUnexpectedEOF.
func (r *Reader) Next() (*Chunk, error) {
	data, err := r.event()
	switch {
	case errors.Is(err, io.EOF) && r.open:
		return nil, r.fail(fmt.Errorf("the completion has no %s: %w", done, io.ErrUnexpectedEOF))
	case err != nil:
		return nil, err
	case data == done && !r.open:
		return nil, r.fail(errors.New(done + " without a completion before it"))
	case data == done:
		r.open = false
		return nil, ErrDone
	}
	r.open = true
	c := new(Chunk)
	if err := strictjson.UnmarshalOpen([]byte(data), c); err != nil {
		return nil, r.fail(err)
	}
	if len(c.Fault) > 0 && string(c.Fault) != "null" {
		if said := ParseServerError(c.Fault); said != nil {
			return nil, r.fail(said)
		}
		return nil, r.fail(&ServerError{Message: "an error without a message"})
	}
	if c.Object != "" && c.Object != "chat.completion.chunk" {
		return nil, r.fail(fmt.Errorf("object is %.40q, want chat.completion.chunk", c.Object))
	}
	return c, nil
}

// splitLines is a bufio.SplitFunc for the three line ends of server-sent events:
// CR LF, LF and CR.
func splitLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n' || i+1 < len(data) && data[i+1] != '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data):
		return i + 2, data[:i], nil
	case atEOF:
		return i + 1, data[:i], nil
	default: // a CR at the end of the data: the next byte decides
		return 0, nil, nil
	}
}

// event returns the data of the next event that has any. It ignores the other fields of
// server-sent events, and comments.
func (r *Reader) event() (string, error) {
	var data []string
	size := 0
	for r.lines.Scan() {
		r.line++
		line := r.lines.Text()
		if r.line == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && strings.Join(data, "\n") == "":
			data, size = nil, 0 // an event without data does not count
		case line == "":
			return strings.Join(data, "\n"), nil
		case field == "data":
			if size += len(value); size > maxLine {
				return "", r.fail(fmt.Errorf("an event is over %d bytes", maxLine))
			}
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	if err := r.lines.Err(); err != nil {
		r.line++
		return "", r.fail(err)
	}
	if strings.Join(data, "") != "" { // no empty line after the last event
		return strings.Join(data, "\n"), nil
	}
	return "", io.EOF
}

func (r *Reader) fail(err error) error { return &Error{Line: r.line, Err: err} }
