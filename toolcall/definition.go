package toolcall

import (
	"fmt"
	"slices"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Limits of what runtimes may declare about their tools.
const (
	MaxDefinitions      = 256       // of one session, including changed ones
	MaxDefinitionBytes  = 64 << 10  // one definition in its canonical form
	MaxDefinitionsBytes = 384 << 10 // all definitions of a session
)

// ToolDefinition is what a runtime declares about a tool that it runs itself. It is only a
// claim: it does not apply to tools that the engine is configured with.
type ToolDefinition struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// InputSchema is a JSON Schema (2020-12) of the input; without it any object is valid.
	InputSchema message.RawJSON `json:"input_schema,omitzero"`
	Annotations ToolAnnotations `json:"annotations,omitzero"`
}

// ToolAnnotations are the hints of MCP and the tools file. A missing one is false.
type ToolAnnotations struct {
	ReadOnly    bool `json:"read_only,omitzero"`
	Destructive bool `json:"destructive,omitzero"`
	Idempotent  bool `json:"idempotent,omitzero"`
	OpenWorld   bool `json:"open_world,omitzero"`
}

// DeclaredTool is a definition with its hash.
type DeclaredTool struct {
	ToolDefinition
	Hash string `json:"hash"` // "sha256:" and the hex SHA-256 of the RFC 8785 form
}

// Declare checks the size of a definition and computes its hash.
func Declare(d ToolDefinition) (DeclaredTool, error) {
	form, err := jcs.Marshal(d)
	switch {
	case d.Name == "":
		return DeclaredTool{}, &message.Error{Code: message.CodeInvalid, What: "name is empty", Hint: "name the tool"}
	case len(d.Name) > MaxIDBytes:
		return DeclaredTool{}, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("the tool's name has %d bytes, the limit is %d", len(d.Name), MaxIDBytes), Hint: "shorten it"}
	case err != nil:
		return DeclaredTool{}, &message.Error{Code: message.CodeInvalid, What: "the definition of " + d.Name + " has no canonical form: " + err.Error(), Hint: "correct the definition", Err: err}
	case len(form) > MaxDefinitionBytes:
		return DeclaredTool{}, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("the definition of %s has %d bytes, the limit is %d", d.Name, len(form), MaxDefinitionBytes), Hint: "shorten the description or the schema"}
	}
	return DeclaredTool{d, message.Digest(form)}, nil
}

// DefinitionRef identifies the definition under which a call is decided.
type DefinitionRef struct {
	Hash string `json:"hash"`
	// First is the hash of the session's first definition of the tool, if it differs from
	// Hash.
	First string `json:"first_hash,omitzero"`
}

// Changed reports whether the session began with another definition of the tool.
func (r *DefinitionRef) Changed() bool { return r != nil && r.First != "" }

// DefinitionHash is the hash of the definition under which the call is decided, or "" if
// the runtime declared none.
func (c *Call) DefinitionHash() string {
	if c.Definition == nil {
		return ""
	}
	return c.Definition.Hash
}

// Tool returns the session's definition with this hash, or nil.
func (s SessionState) Tool(hash string) *DeclaredTool {
	if i := slices.IndexFunc(s.Tools, func(t *DeclaredTool) bool { return t.Hash == hash }); i >= 0 {
		return s.Tools[i]
	}
	return nil
}

// Newest returns the latest definition of a tool, or nil.
func (s SessionState) Newest(tool string) *DeclaredTool {
	for _, t := range slices.Backward(s.Tools) {
		if t.Name == tool {
			return t
		}
	}
	return nil
}

// Ref returns a reference to one of the session's definitions.
func (s SessionState) Ref(d *DeclaredTool) *DefinitionRef {
	ref := &DefinitionRef{Hash: d.Hash}
	if i := slices.IndexFunc(s.Tools, func(t *DeclaredTool) bool { return t.Name == d.Name }); i >= 0 && s.Tools[i].Hash != d.Hash {
		ref.First = s.Tools[i].Hash
	}
	return ref
}

// With returns the state with additional definitions; news reports whether any was missing.
func (s SessionState) With(tools []*DeclaredTool) (out SessionState, news bool, err error) {
	out = s
	out.Tools = slices.Clone(s.Tools)
	size := 0
	for _, t := range tools {
		if !slices.ContainsFunc(out.Tools, func(o *DeclaredTool) bool { return o.Hash == t.Hash }) {
			out.Tools, news = append(out.Tools, t), true
		}
	}
	for _, t := range out.Tools {
		size += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	switch {
	case news && len(out.Tools) > MaxDefinitions:
		err = &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("the session has %d definitions of tools, the limit is %d", len(out.Tools), MaxDefinitions), Hint: "declare only the tools of the proposed calls, or use another session"}
	case news && size > MaxDefinitionsBytes:
		err = &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("the definitions of the session's tools have %d bytes, the limit is %d", size, MaxDefinitionsBytes), Hint: "declare only the tools of the proposed calls, or use another session"}
	}
	return out, news, err
}

// MaxDepth bounds how deep calls may be nested within calls.
const MaxDepth = 16

// ParentKey names the call within which the calls of a proposal are made, such as the
// call that started a sub-agent.
type ParentKey struct {
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Call    message.CallID    `json:"tool_call_id"`
}

// Parent is the call within which another one was made, in its state at that time.
type Parent struct {
	ParentKey
	Tool    string `json:"tool_name"`
	Runtime string `json:"runtime"`
	Agent   string `json:"agent,omitzero"`
	Depth   int    `json:"depth"` // of the call that has this parent; 1 if the parent itself has none
	// Around are the other runtimes of the calls around the parent, one name of each.
	Around []string `json:"around,omitzero"`
}

// Depth is the number of calls around this one.
func (c *Call) Depth() int {
	if c.Parent == nil {
		return 0
	}
	return c.Parent.Depth
}

// AsParent returns the call as the parent of new calls. The call must be allowed, and must
// not have been ended from outside.
func (c *Call) AsParent() (*Parent, error) {
	refuse := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, Call: ErrorCall(c), What: what, Hint: hint}
	}
	switch {
	case c.State == message.ToolCallPending || c.State == message.ToolCallAsking:
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" is not allowed yet", "propose calls within it once it runs")
	case !c.Open() && c.Result != nil && c.Result.State == message.ToolResultInterrupted:
		return nil, refuse(message.CodeInterrupted, "the call "+string(c.Call)+" was interrupted", "stop its sub-agent")
	case !c.Open() && c.Result != nil && c.Result.State == message.ToolResultDenied:
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" was denied", "do not run it")
	case c.Cause == string(CauseRefuse) || c.Cause == string(CauseRespond):
		return nil, refuse(message.CodeState, "the call "+string(c.Call)+" ended without running its tool", "do not run it")
	case c.Depth() >= MaxDepth:
		return nil, refuse(message.CodeTooLarge, fmt.Sprintf("the call %s is at depth %d, the limit is %d", c.Call, c.Depth(), MaxDepth), "nest calls less deeply")
	}
	return &Parent{
		ParentKey: ParentKey{Session: c.Session, Reply: c.Reply, Call: c.Call}, Tool: c.Tool, Runtime: c.Runtime, Agent: c.Agent, Depth: c.Depth() + 1, Around: c.Parent.RuntimesExcept(c.Runtime),
	}, nil
}

// RuntimesExcept returns the runtimes of the parent and the calls around it, one name of each,
// without one of them. Without any it returns nil, so that no record or digest has an empty list.
func (p *Parent) RuntimesExcept(runtime string) []string {
	if p == nil {
		return nil
	}
	all := People(append(slices.Clone(p.Around), p.Runtime))
	if all = slices.DeleteFunc(all, func(name string) bool { return IsSamePerson(name, runtime) }); len(all) == 0 {
		return nil
	}
	return all
}
