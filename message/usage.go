package message

// Usage is what the model calls of a reply have cost, in tokens.
type Usage struct {
	InputTokens              int64 `json:"input_tokens" wire:"required"`
	OutputTokens             int64 `json:"output_tokens" wire:"required"`
	CacheInputTokens         int64 `json:"cache_input_tokens"`          // read from the provider's prompt cache
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"` // written to it
}

// ErrorInfo says, in words for people, why a reply failed.
type ErrorInfo struct {
	Type    ErrorType `json:"type" wire:"default=unknown"`
	Message string    `json:"message" wire:"required"`
}

// ErrorType classifies what ended a reply.
type ErrorType string

// The classes, in AgentScope's words.
const (
	ErrorAuthentication ErrorType = "authentication"
	ErrorPermission     ErrorType = "permission"
	ErrorRateLimit      ErrorType = "rate_limit"
	ErrorInvalidRequest ErrorType = "invalid_request"
	ErrorUpstream       ErrorType = "upstream"
	ErrorConnection     ErrorType = "connection"
	ErrorInternal       ErrorType = "internal"
	ErrorSetup          ErrorType = "setup"
	ErrorUnknown        ErrorType = "unknown"
)

// Valid reports whether t is one of AgentScope's classes, spelled exactly so.
func (t ErrorType) Valid() bool { return isWord(string(t), t.words()) }

func (ErrorType) words() string {
	return "authentication, permission, rate_limit, invalid_request, upstream, connection, internal, setup, unknown"
}

// ModelFinishedReason is why one model call ended.
type ModelFinishedReason string

// The reasons, in AgentScope's words.
const (
	ModelCompleted   ModelFinishedReason = "completed"
	ModelInterrupted ModelFinishedReason = "interrupted"
)

// Valid reports whether r is one of AgentScope's reasons, spelled exactly so.
func (r ModelFinishedReason) Valid() bool { return isWord(string(r), r.words()) }

func (ModelFinishedReason) words() string { return "completed, interrupted" }
