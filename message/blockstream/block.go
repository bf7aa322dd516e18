package blockstream

import "github.com/askance-dev/askance/message"

// BlockType is the discriminator of a content block.
type BlockType string

// The block types on the wire. The terminal blocks of the clients are text
// blocks with [Extras] here.
const (
	BlockThinking        BlockType = "thinking"
	BlockText            BlockType = "text"
	BlockToolUse         BlockType = "tool_use"
	BlockToolResult      BlockType = "tool_result"
	BlockFileProcessing  BlockType = "file_processing"
	BlockApprovalRequest BlockType = "approval_request"
	BlockApprovalResult  BlockType = "approval_result"
)

// ContentBlock is what a block starts with. The set is closed: a pointer to
// one of the structs below. [BlockTypeOf] gives its type.
//
//sumtype:decl
type ContentBlock interface{ isBlock() }

// Parent says that a sub-agent made the block. Both members are written as
// null when nil; readers take a missing one for null.
type Parent struct {
	Subagent        *string `json:"subagent"`
	ParentToolUseID *string `json:"parent_tool_use_id"`
}

// Thinking is the model's reasoning; thinking deltas append to it.
type Thinking struct {
	Thinking string `json:"thinking" wire:"null"`
	Parent
}

// Text is text that people read; text deltas append to it.
type Text struct {
	Text string `json:"text" wire:"null"`
	Parent
	IsPart bool `json:"is_part" wire:"null"`
}

// ToolUse is a call that a model made, whole: it has no deltas. ID travels
// twice, as id and as tool_use_id.
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

// ToolResult is the end of a call, whole: it has no deltas. Content has at most
// [MaxContent] characters.
type ToolResult struct {
	ToolUseID message.CallID  `json:"tool_use_id" wire:"required"`
	Name      string          `json:"name" wire:"null"`
	Status    ResultStatus    `json:"status" wire:"required"`
	Content   string          `json:"content" wire:"null,rule=content"`
	Artifact  message.RawJSON `json:"artifact" wire:"any,null"` // nil is null
	Parent
}

// FileProcessing stands at index 0 of turns that were started with
// content_urls; its delta says when the files are ready.
type FileProcessing struct {
	Status string `json:"status" wire:"required"` // "processing"
	Files  []File `json:"files" wire:"null"`
}

// File is one of the files that came with a chat.
type File struct {
	URL string `json:"url" wire:"required"`
}

// ApprovalRequest asks a person about tool calls. It exists in two forms: with
// the actions in the start and no delta, or with the key alone here and the
// actions in an [ApprovalDelta]. What this package writes is readable as
// either.
type ApprovalRequest struct {
	ApprovalKey   string         `json:"approval_key" wire:"required"`
	Actions       []Action       `json:"actions" wire:"omit,null"` // nil: not written
	ReviewConfigs []ReviewConfig `json:"review_configs" wire:"omit,null"`
}

// Action is one tool call that needs approval.
type Action struct {
	Name      string          `json:"name" wire:"required"`
	Args      message.RawJSON `json:"args" wire:"object,empty,null"` // nil is written as {}
	ToolUseID message.CallID  `json:"tool_use_id" wire:"omit,null"`  // "" in the form that has none
	// Description and SuggestedRules are ours; empty ones are not written.
	Description    string                   `json:"description" wire:"omit,null"`
	SuggestedRules []message.PermissionRule `json:"suggested_rules" wire:"omitempty,null"`
}

// ReviewConfig says how the action at the same place is reviewed.
type ReviewConfig struct {
	RequireApproval bool  `json:"require_approval"`
	Timeout         int64 `json:"timeout" wire:"omit,null,least=0"` // seconds; 0 is not written: no limit, or told elsewhere
}

// ApprovalResult announces the decisions, which come in a [DecisionsDelta].
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

// Delta is what a content_block_delta adds. Only text and thinking deltas name
// a type on the wire; the others are known by their members. The set is
// closed.
//
//sumtype:decl
type Delta interface{ isDelta() }

// TextDelta appends to a text block. Extras turn the block into a terminal one.
type TextDelta struct {
	Text   string  `json:"text" wire:"null"`
	Extras *Extras `json:"extras" wire:"omit"`
}

// Subtype names a terminal block.
type Subtype string

// The terminal blocks: a client shows a text block with such extras as
// terminal_user_stopped or terminal_error.
const (
	SubtypeUserStopped Subtype = "user_stopped"
	SubtypeError       Subtype = "error"
)

// Extras mark a terminal block. The members after Subtype are written for
// errors only.
type Extras struct {
	Subtype   Subtype         `json:"block_subtype" wire:"variant,null"`
	Code      string          `json:"code" wire:"null,when=error"` // CodeLLM is the only one that is documented
	CanRetry  bool            `json:"can_retry" wire:"null,when=error"`
	ErrorType string          `json:"error_type" wire:"null,when=error"`           // "terminal"
	Details   message.RawJSON `json:"details" wire:"object,empty,null,when=error"` // nil is written as {}
}

// What extras of an error say.
const (
	CodeLLM       = "LLM_ERROR"
	ErrorTerminal = "terminal"
)

// ThinkingDelta appends to a thinking block.
type ThinkingDelta struct {
	Thinking string `json:"thinking" wire:"null"`
}

// FileDelta says what became of the files. Its members have these names in no
// other delta: a client sets the file state of any block by them.
type FileDelta struct {
	Status  string `json:"status" wire:"required"`
	Message string `json:"message" wire:"null"`
}

// ApprovalDelta carries the actions of an approval_request.
type ApprovalDelta struct {
	Actions        []Action       `json:"action_requests"`
	ReviewConfigs  []ReviewConfig `json:"review_configs"`
	TimeoutSeconds int64          `json:"timeout_seconds" wire:"omit,null,least=0"` // 0 is not written: no limit
}

// DecisionsDelta carries what was decided, in the order of the actions.
type DecisionsDelta struct {
	Decisions []Decision `json:"decisions"`
}

func (*TextDelta) isDelta()      {}
func (*ThinkingDelta) isDelta()  {}
func (*FileDelta) isDelta()      {}
func (*ApprovalDelta) isDelta()  {}
func (*DecisionsDelta) isDelta() {}
