package message

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message/internal/weburl"
)

// MsgRole says who a message is from: AgentScope's "role", unrelated to the role of a
// principal. There is no tool role: results are in the assistant's message, with the
// calls.
type MsgRole string

// The roles, and the blocks that a message of each may be made with.
const (
	RoleUser      MsgRole = "user"      // text, data
	RoleAssistant MsgRole = "assistant" // all blocks
	RoleSystem    MsgRole = "system"    // text
)

// Valid reports whether r is exactly one of AgentScope's roles.
func (r MsgRole) Valid() bool { return isWord(string(r), r.words()) }

func (MsgRole) words() string { return "user, assistant, system" }

// canHold reports whether a message of this role may be made with such a block.
func (r MsgRole) canHold(t BlockType) bool {
	switch r {
	case RoleAssistant:
		return true
	case RoleUser:
		return t == BlockText || t == BlockData
	case RoleSystem:
		return t == BlockText
	}
	return false
}

// FinishedReason is why a reply ended.
type FinishedReason string

// The reasons, in AgentScope's spelling.
const (
	FinishedCompleted      FinishedReason = "completed"
	FinishedInterrupted    FinishedReason = "interrupted"
	FinishedExceedMaxIters FinishedReason = "exceed_max_iters"
	FinishedError          FinishedReason = "error"
)

// Valid reports whether r is exactly one of AgentScope's reasons.
func (r FinishedReason) Valid() bool { return isWord(string(r), r.words()) }

func (FinishedReason) words() string { return "completed, interrupted, exceed_max_iters, error" }

// Msg is a message of AgentScope 2.0: what one side said in one turn. An assistant's message
// is one whole reply, including its tool calls and their results; its ID is the reply's id.
// A Msg is not safe for concurrent use.
//
// Times are opaque text (see [Timestamp]); nothing compares or parses them.
type Msg struct {
	Name             string          `json:"name" wire:"required"` // of the sender
	Content          []Block         `json:"content" wire:"required"`
	Role             MsgRole         `json:"role" wire:"required"`
	ID               string          `json:"id" wire:"id"`
	Metadata         map[string]any  `json:"metadata"`
	CreatedAt        string          `json:"created_at" wire:"now"`
	Usage            *Usage          `json:"usage"`
	FinishedAt       *string         `json:"finished_at"`
	FinishedReason   *FinishedReason `json:"finished_reason"`
	StructuredOutput map[string]any  `json:"structured_output" wire:"null"` // nil is null; no event sets it
	Error            *ErrorInfo      `json:"error"`
}

// Validate checks that role and finished_reason are known and that the role may have these
// blocks. Messages are checked when they are decoded or made; Append does not check, like
// upstream.
func (m *Msg) Validate() error {
	if !m.Role.Valid() {
		return Errorf(CodeInvalid, "validate message", "role %q is not one of %s", m.Role, m.Role.words())
	}
	if r := m.FinishedReason; r != nil && !r.Valid() {
		return Errorf(CodeInvalid, "validate message", "finished_reason %q is not one of %s", *r, r.words())
	}
	if i, err := m.findMisplaced(); err != nil {
		return Errorf(CodeInvalid, "validate message", "content[%d]: %w", i, err)
	}
	return nil
}

// findMisplaced finds the first block that the role does not allow.
func (m *Msg) findMisplaced() (int, error) {
	for i, b := range m.Content {
		if b == nil {
			return i, errors.New("the block is nil")
		}
		if !m.Role.canHold(b.Type()) {
			return i, fmt.Errorf("a %s message cannot hold a %s block", m.Role, b.Type())
		}
	}
	return 0, nil
}

// TextContent joins the text blocks with sep; upstream uses a newline. It returns false if
// there is no text block, which differs from "".
func (m *Msg) TextContent(sep string) (string, bool) {
	var parts []string
	for _, b := range m.Content {
		if t, ok := b.(*TextBlock); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, sep), parts != nil
}

// HasBlocks reports whether the content has a block of any of the types or, without types,
// any block.
func (m *Msg) HasBlocks(types ...BlockType) bool { return len(m.Blocks(types...)) > 0 }

// Blocks returns the blocks of the given types in order or, without types, all. The blocks
// are not copied.
func (m *Msg) Blocks(types ...BlockType) []Block {
	var out []Block
	for _, b := range m.Content {
		if len(types) == 0 || slices.Contains(types, b.Type()) {
			out = append(out, b)
		}
	}
	return out
}

// BlocksOf returns the message's blocks of one Go type, in order:
//
//	for _, call := range message.BlocksOf[*message.ToolCallBlock](m) { … }
func BlocksOf[T Block](m *Msg) []T {
	var out []T
	for _, b := range m.Content {
		if t, ok := b.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// ToolCall returns the first call block with that id, or nil.
func (m *Msg) ToolCall(id CallID) *ToolCallBlock {
	return find[*ToolCallBlock](m, string(id))
}

// ToolResult returns the first result block of that call, or nil.
func (m *Msg) ToolResult(id CallID) *ToolResultBlock {
	return find[*ToolResultBlock](m, string(id))
}

// find finds a block as AgentScope does: the first one with that type and id.
func find[T Block](m *Msg, id string) (found T) {
	for _, b := range m.Content {
		if t, ok := b.(T); ok && b.BlockID() == id {
			return t
		}
	}
	return found
}

// String is for logs: role, name and id, not the content.
func (m *Msg) String() string {
	return fmt.Sprintf("%s message %s from %q, %d blocks", m.Role, m.ID, m.Name, len(m.Content))
}

// Usage is the token usage of a reply's model calls.
type Usage struct {
	InputTokens              int64 `json:"input_tokens" wire:"required"`
	OutputTokens             int64 `json:"output_tokens" wire:"required"`
	CacheInputTokens         int64 `json:"cache_input_tokens"`          // read from the provider's prompt cache
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"` // written to it
}

// ErrorInfo says, in text for people, why a reply failed.
type ErrorInfo struct {
	Type    ErrorType `json:"type" wire:"default=unknown"`
	Message string    `json:"message" wire:"required"`
}

// ErrorType classifies what ended a reply.
type ErrorType string

// The classes, in AgentScope's spelling.
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

// Valid reports whether t is exactly one of AgentScope's classes.
func (t ErrorType) Valid() bool { return isWord(string(t), t.words()) }

func (ErrorType) words() string {
	return "authentication, permission, rate_limit, invalid_request, upstream, connection, internal, setup, unknown"
}

// ModelFinishedReason is why one model call ended.
type ModelFinishedReason string

// The reasons, in AgentScope's spelling.
const (
	ModelCompleted   ModelFinishedReason = "completed"
	ModelInterrupted ModelFinishedReason = "interrupted"
)

// Valid reports whether r is exactly one of AgentScope's reasons.
func (r ModelFinishedReason) Valid() bool { return isWord(string(r), r.words()) }

func (ModelFinishedReason) words() string { return "completed, interrupted" }

// MsgOption sets a field of a new message.
type MsgOption func(*Msg)

// WithID sets the id, which is otherwise generated. For an assistant's message it is the
// reply's id.
func WithID(id string) MsgOption { return func(m *Msg) { m.ID = id } }

// WithCreatedAt sets created_at instead of now.
func WithCreatedAt(at string) MsgOption { return func(m *Msg) { m.CreatedAt = at } }

// UserMsg returns a person's message: text and data. A string content becomes one text block.
// It is finished when created.
func (c Codec) UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleUser, name, content, opts)
}

// SystemMsg returns a system message: text only. Otherwise it is like UserMsg.
func (c Codec) SystemMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleSystem, name, content, opts)
}

// AssistantMsg returns an agent's message: any blocks. It is not finished; if events build it,
// pass an empty [List] and the reply's id.
func (c Codec) AssistantMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return c.newMsg(RoleAssistant, name, content, opts)
}

// UserMsg is Codec.UserMsg with the zero Codec.
func UserMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return Codec{}.UserMsg(name, content, opts...)
}

// AssistantMsg is Codec.AssistantMsg with the zero Codec.
func AssistantMsg(name string, content Content, opts ...MsgOption) (*Msg, error) {
	return Codec{}.AssistantMsg(name, content, opts...)
}

func (c Codec) newMsg(role MsgRole, name string, content Content, opts []MsgOption) (*Msg, error) {
	m := &Msg{Name: name, Role: role, Content: content.Blocks}
	if !content.IsList() {
		m.Content = []Block{c.NewText(content.Text)}
	}
	for _, o := range opts {
		o(m)
	}
	if m.ID == "" {
		m.ID = c.newID()
	}
	if m.CreatedAt == "" {
		m.CreatedAt = c.now()
	}
	if m.FinishedAt == nil && role != RoleAssistant {
		m.FinishedAt = clonePtr(&m.CreatedAt)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// NewText returns a text block with a new id, created now.
func (c Codec) NewText(text string) *TextBlock {
	return &TextBlock{Text: text, ID: c.newID(), CreatedAt: c.now()}
}

// NewData returns a data block with a new id, created now.
func (c Codec) NewData(src Source) *DataBlock {
	return &DataBlock{ID: c.newID(), Source: src, CreatedAt: c.now()}
}

// NewHeader returns the header of an event of a reply, with a new id, created now.
func (c Codec) NewHeader(reply ReplyID) EventHeader {
	return EventHeader{ID: c.newID(), CreatedAt: c.now(), Reply: reply}
}

// NewData is Codec.NewData with the zero Codec.
func NewData(src Source) *DataBlock { return Codec{}.NewData(src) }

// NewHeader is Codec.NewHeader with the zero Codec.
func NewHeader(reply ReplyID) EventHeader { return Codec{}.NewHeader(reply) }

// NewURLSource returns a source that points to raw, an absolute URL, in normal form.
func NewURLSource(raw, mediaType string) (*URLSource, error) {
	u, err := weburl.Normalize(raw)
	if err != nil {
		return nil, Errorf(CodeInvalid, "make url source", "%w", err)
	}
	return &URLSource{URL: u, MediaType: mediaType}, nil
}

// Behavior is what a permission rule or a decision says about a tool call. The zero value is
// not "allow": it is not a behavior, and every consumer treats it as ask or refuses it.
type Behavior string

// The behaviors of AgentScope 2.0, in its spelling.
const (
	BehaviorAllow       Behavior = "allow"
	BehaviorDeny        Behavior = "deny"
	BehaviorAsk         Behavior = "ask"
	BehaviorPassthrough Behavior = "passthrough"
)

// PermissionRule is AgentScope's rule as sent in tool call blocks (suggested_rules), confirm
// results and permission contexts. RuleContent is a required member whose value may be null:
// nil and "" both match every call of the tool.
type PermissionRule struct {
	ToolName    string   `json:"tool_name" wire:"required"`
	RuleContent *string  `json:"rule_content" wire:"required"`
	Behavior    Behavior `json:"behavior" wire:"required"`
	Source      string   `json:"source" wire:"required"`
}

// Valid reports whether b is exactly one of AgentScope's behaviors.
func (b Behavior) Valid() bool { return isWord(string(b), b.words()) }

func (Behavior) words() string { return "allow, deny, ask, passthrough" }

// PermissionMode is the mode of AgentScope's permission engine. The zero value is not a mode and
// is written as default.
type PermissionMode string

// The modes, in AgentScope's spelling.
const (
	ModeDefault     PermissionMode = "default"      // asks about calls that no rule allows
	ModeAcceptEdits PermissionMode = "accept_edits" // allows edits of files in the working folders
	ModeExplore     PermissionMode = "explore"      // allows only what provably changes nothing; ignores allow rules
	ModeBypass      PermissionMode = "bypass"       // allows what no rule denies or asks about
	ModeDontAsk     PermissionMode = "dont_ask"     // denies what default asks about, for runs without approvers
)

// Valid reports whether m is exactly one of AgentScope's modes.
func (m PermissionMode) Valid() bool { return isWord(string(m), m.words()) }

func (PermissionMode) words() string { return "default, accept_edits, explore, bypass, dont_ask" }

// PermissionContext is the permission state of an AgentScope session. Rules are listed under
// their tool's name. A rule acts according to the list and name under which it is listed,
// regardless of its own fields, and is stored unchanged.
type PermissionContext struct {
	Mode               PermissionMode              `json:"mode" wire:"default=default"`
	WorkingDirectories map[string]WorkingDirectory `json:"working_directories"`
	AllowRules         map[string][]PermissionRule `json:"allow_rules"`
	DenyRules          map[string][]PermissionRule `json:"deny_rules"`
	AskRules           map[string][]PermissionRule `json:"ask_rules"`
}

// WorkingDirectory is a folder in which file tools may write without asking.
type WorkingDirectory struct {
	Path   string `json:"path" wire:"required"`
	Source string `json:"source" wire:"required"` // who added it, free text
}

const digestPrefix = "sha256:"

// Digest returns "sha256:" and the SHA-256 of b in hexadecimal, the form of all digests.
func Digest(b []byte) string { return HashText(sha256.Sum256(b)) }

// HashText returns a SHA-256 in the form of all digests.
func HashText(sum [sha256.Size]byte) string {
	var out [len(digestPrefix) + 2*sha256.Size]byte
	hex.Encode(out[copy(out[:], digestPrefix):], sum[:])
	return string(out[:])
}
