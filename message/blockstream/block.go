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
// one of the structs below.
//
//sumtype:decl
type ContentBlock interface {
	// Type is the discriminator.
	Type() BlockType

	isBlock()
}

// Parent says that a sub-agent made the block. Both members are written as
// null when nil; readers take a missing one for null.
type Parent struct {
	Subagent        *string
	ParentToolUseID *string
}

// Thinking is the model's reasoning; thinking deltas append to it.
type Thinking struct {
	Thinking string
	Parent
}

// Text is text that people read; text deltas append to it.
type Text struct {
	Text string
	Parent
	IsPart bool
}

// ToolUse is a call that a model made, whole: it has no deltas. ID travels
// twice, as id and as tool_use_id.
type ToolUse struct {
	ID    message.CallID
	Name  string
	Label string          // tool_content_message, for people
	Input message.RawJSON // an object; nil is written as {}
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
	ToolUseID message.CallID
	Name      string
	Status    ResultStatus
	Content   string
	Artifact  message.RawJSON // nil is null
	Parent
}

// FileProcessing stands at index 0 of turns that were started with
// content_urls; its delta says when the files are ready.
type FileProcessing struct {
	Status string // "processing"
	Files  []File
}

// File is one of the files that came with a chat.
type File struct{ URL string }

// ApprovalRequest asks a person about tool calls. It exists in two forms: with
// the actions in the start and no delta, or with the key alone here and the
// actions in an [ApprovalDelta]. What this package writes is readable as
// either.
type ApprovalRequest struct {
	ApprovalKey   string
	Actions       []Action // nil: not written
	ReviewConfigs []ReviewConfig
}

// Action is one tool call that needs approval.
type Action struct {
	Name      string
	Args      message.RawJSON // an object; nil is written as {}
	ToolUseID message.CallID  // "" in the form that has none
	// Description and SuggestedRules are ours; empty ones are not written.
	Description    string
	SuggestedRules []message.PermissionRule
}

// ReviewConfig says how the action at the same place is reviewed.
type ReviewConfig struct {
	RequireApproval bool
	Timeout         int64 // seconds; 0 is not written: no limit, or told elsewhere
}

// ApprovalResult announces the decisions, which come in a [DecisionsDelta].
type ApprovalResult struct{ ApprovalKey string }

// Type returns BlockThinking.
func (*Thinking) Type() BlockType { return BlockThinking }

// Type returns BlockText.
func (*Text) Type() BlockType { return BlockText }

// Type returns BlockToolUse.
func (*ToolUse) Type() BlockType { return BlockToolUse }

// Type returns BlockToolResult.
func (*ToolResult) Type() BlockType { return BlockToolResult }

// Type returns BlockFileProcessing.
func (*FileProcessing) Type() BlockType { return BlockFileProcessing }

// Type returns BlockApprovalRequest.
func (*ApprovalRequest) Type() BlockType { return BlockApprovalRequest }

// Type returns BlockApprovalResult.
func (*ApprovalResult) Type() BlockType { return BlockApprovalResult }

func (*Thinking) isBlock()        {}
func (*Text) isBlock()            {}
func (*ToolUse) isBlock()         {}
func (*ToolResult) isBlock()      {}
func (*FileProcessing) isBlock()  {}
func (*ApprovalRequest) isBlock() {}
func (*ApprovalResult) isBlock()  {}
