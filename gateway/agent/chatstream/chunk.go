package chatstream

import (
	"encoding/json"

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

// Error returns the type and the message.
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
