package blockstream

import "github.com/askance-dev/askance/message"

// BlockType is the type of a content block.
type BlockType string

// The block types on the wire. What clients call terminal blocks are text blocks with
// [Extras] here.
const (
	BlockThinking        BlockType = "thinking"
	BlockText            BlockType = "text"
	BlockToolUse         BlockType = "tool_use"
	BlockToolResult      BlockType = "tool_result"
	BlockFileProcessing  BlockType = "file_processing"
	BlockApprovalRequest BlockType = "approval_request"
	BlockApprovalResult  BlockType = "approval_result"
)

// ContentBlock is the start of a block. The set is closed: a pointer to one of the structs
// below. [BlockTypeOf] returns its type.
//
//sumtype:decl
type ContentBlock interface{ isBlock() }

// Parent identifies the sub-agent that made the block. Both members are written as null if
// nil; readers treat missing ones as null.
type Parent struct {
	Subagent        *string `json:"subagent"`
	ParentToolUseID *string `json:"parent_tool_use_id"`
}

// Thinking is the model's reasoning; thinking deltas append to it.
type Thinking struct {
	Thinking string `json:"thinking" wire:"null"`
	Parent
}

// Text is text for people; text deltas append to it.
type Text struct {
	Text string `json:"text" wire:"null"`
	Parent
	IsPart bool `json:"is_part" wire:"null"`
}

// ToolUse is a complete call of a model; it has no deltas. ID is sent twice, as id and as
// tool_use_id.
type ToolUse struct {
	ID    message.CallID  `json:"id" wire:"required"`
	Name  string          `json:"name" wire:"required"`
	_     struct{}        `wire:"name=tool_use_id,copy=ID"`
	Label string          `json:"tool_content_message" wire:"null"` // for people
	Input message.RawJSON `json:"input" wire:"object,empty,null"`   // nil is written as {}
	Parent
}

// ResultStatus is how a call ended.
type ResultStatus string

// The states of a result.
const (
	ResultSuccess ResultStatus = "success"
	ResultError   ResultStatus = "error"
)

// ToolResult is the complete result of a call; it has no deltas. Content has at most
// [MaxContent] characters.
type ToolResult struct {
	ToolUseID message.CallID  `json:"tool_use_id" wire:"required"`
	Name      string          `json:"name" wire:"null"`
	Status    ResultStatus    `json:"status" wire:"required"`
	Content   string          `json:"content" wire:"null,rule=content"`
	Artifact  message.RawJSON `json:"artifact" wire:"any,null"` // nil is null
	Parent
}

// FileProcessing is at index 0 of turns that were started with content_urls; its delta says
// when the files are ready.
type FileProcessing struct {
	Status string `json:"status" wire:"required"` // "processing"
	Files  []File `json:"files" wire:"null"`
}

// File is one of the files that came with a chat.
type File struct {
	URL string `json:"url" wire:"required"`
}

// ApprovalRequest asks a person about tool calls. It exists in two forms: with the actions
// in the start and no delta, or with only the key here and the actions in an
// [ApprovalDelta]. What this package writes can be read as either.
type ApprovalRequest struct {
	ApprovalKey   string         `json:"approval_key" wire:"required"`
	Actions       []Action       `json:"actions" wire:"omit,null"` // not written if nil
	ReviewConfigs []ReviewConfig `json:"review_configs" wire:"omit,null"`
}

// Action is one tool call that needs approval.
type Action struct {
	Name      string          `json:"name" wire:"required"`
	Args      message.RawJSON `json:"args" wire:"object,empty,null"` // nil is written as {}
	ToolUseID message.CallID  `json:"tool_use_id" wire:"omit,null"`  // "" in the form without it
	// Description and SuggestedRules are our extensions; empty ones are not written.
	Description    string                   `json:"description" wire:"omit,null"`
	SuggestedRules []message.PermissionRule `json:"suggested_rules" wire:"omitempty,null"`
}

// ReviewConfig says how the action at the same index is reviewed.
type ReviewConfig struct {
	RequireApproval bool  `json:"require_approval"`
	Timeout         int64 `json:"timeout" wire:"omit,null,least=0"` // seconds; 0 (no limit here) is not written
}

// ApprovalResult announces the decisions, which follow in a [DecisionsDelta].
type ApprovalResult struct {
	ApprovalKey string `json:"approval_key" wire:"omit,null"`
}

func (*Thinking) isBlock()        {}
func (*Text) isBlock()            {}
func (*ToolUse) isBlock()         {}
func (*ToolResult) isBlock()      {}
func (*FileProcessing) isBlock()  {}
func (*ApprovalRequest) isBlock() {}
func (*ApprovalResult) isBlock()  {}

// Delta is what a content_block_delta adds. Only text and thinking deltas name their type
// on the wire; the others are recognized by their members. The set is closed.
//
//sumtype:decl
type Delta interface{ isDelta() }

// TextDelta appends to a text block. Extras make it a terminal block.
type TextDelta struct {
	Text   string  `json:"text" wire:"null"`
	Extras *Extras `json:"extras" wire:"omit"`
}

// Subtype names a terminal block.
type Subtype string

// The terminal blocks. A client shows a text block with these extras as
// terminal_user_stopped or terminal_error.
const (
	SubtypeUserStopped Subtype = "user_stopped"
	SubtypeError       Subtype = "error"
)

// Extras mark a terminal block. The members after Subtype are written only for errors.
type Extras struct {
	Subtype   Subtype         `json:"block_subtype" wire:"variant,null"`
	Code      string          `json:"code" wire:"null,when=error"` // CodeLLM is the only documented code
	CanRetry  bool            `json:"can_retry" wire:"null,when=error"`
	ErrorType string          `json:"error_type" wire:"null,when=error"`           // "terminal"
	Details   message.RawJSON `json:"details" wire:"object,empty,null,when=error"` // nil is written as {}
}

// Values in the extras of an error.
const (
	CodeLLM       = "LLM_ERROR"
	ErrorTerminal = "terminal"
)

// ThinkingDelta appends to a thinking block.
type ThinkingDelta struct {
	Thinking string `json:"thinking" wire:"null"`
}

// FileDelta reports the outcome of the files. No other delta has members with these names,
// because clients set the file state of any block that has them.
type FileDelta struct {
	Status  string `json:"status" wire:"required"`
	Message string `json:"message" wire:"null"`
}

// ApprovalDelta contains the actions of an approval_request.
type ApprovalDelta struct {
	Actions        []Action       `json:"action_requests"`
	ReviewConfigs  []ReviewConfig `json:"review_configs"`
	TimeoutSeconds int64          `json:"timeout_seconds" wire:"omit,null,least=0"` // 0 (no limit) is not written
}

// DecisionsDelta contains the decisions, in the order of the actions.
type DecisionsDelta struct {
	Decisions []Decision `json:"decisions"`
}

func (*TextDelta) isDelta()      {}
func (*ThinkingDelta) isDelta()  {}
func (*FileDelta) isDelta()      {}
func (*ApprovalDelta) isDelta()  {}
func (*DecisionsDelta) isDelta() {}
