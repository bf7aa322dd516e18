// Package dialect implements how coding agents talk to their hooks: it decodes the events of
// Claude Code, Codex and Gemini CLI, and encodes the answers. It does no I/O.
//
//	ev, err := dialect.Decode(dialect.ClaudeCode, stdin)
//	…
//	answer, err := dialect.Encode(ev, dialect.Verdict{Behavior: message.BehaviorDeny, Reason: "…"})
//
// All three agents run the tool if they cannot read an answer. Therefore Encode writes
// only members that the agent is known to accept, and never an empty reason.
package dialect

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Dialect names a coding agent.
type Dialect string

// The coding agents.
const (
	ClaudeCode Dialect = "claude-code"
	Codex      Dialect = "codex"
	Gemini     Dialect = "gemini"
)

// Dialects are all of them.
func Dialects() []Dialect { return []Dialect{ClaudeCode, Codex, Gemini} }

// Timeout is how long the agent lets a hook run by default.
func (d Dialect) Timeout() time.Duration {
	if d == Gemini {
		return time.Minute
	}
	return 10 * time.Minute
}

// Margin is how long before the agent's timeout a hook answers: after the timeout the
// agent runs the tool.
const Margin = 5 * time.Second

// MaxEventBytes bounds an event. Events after a tool carry its whole result.
const MaxEventBytes = 8 << 20

// Kind is when an event occurs.
type Kind int

// The kinds of events.
const (
	Before Kind = iota // before a tool runs; the answer decides
	Prompt             // where the agent would ask its user; the answer may decide
	After              // the tool ran, or failed
)

// Event is an event of an agent. Ids that the agent does not send are empty.
type Event struct {
	Dialect Dialect
	Name    string // as the agent calls it
	Kind    Kind
	Session string
	Turn    string // the prompt that the agent works on
	Call    string
	Agent   string // a subagent
	Tool    string
	// Cwd is the folder in which the agent runs the tool; only an event of Kind After may name none.
	// CwdErr says why it cannot be read; such a call must not run.
	Cwd        string
	CwdErr     error
	CwdAssumed bool            // Cwd is a default: another event may have named the call's folder
	Input      message.RawJSON // the bytes that the agent sent: an object
	Result     *Result         // of Kind After
}

// Result is what the agent says about a tool that ran.
type Result struct {
	State message.ToolResultState
	Text  string
}

var kinds = map[Dialect]map[string]Kind{
	ClaudeCode: {"PreToolUse": Before, "PermissionRequest": Prompt, "PostToolUse": After, "PostToolUseFailure": After},
	Codex:      {"PreToolUse": Before, "PermissionRequest": Prompt, "PostToolUse": After},
	Gemini:     {"BeforeTool": Before, "AfterTool": After},
}

// wire has the members of all dialects that matter here. New versions of the agents add others.
type wire struct {
	Event     string          `json:"hook_event_name"`
	Session   string          `json:"session_id"`
	Prompt    string          `json:"prompt_id"`
	Turn      string          `json:"turn_id"`
	Call      string          `json:"tool_use_id"`
	AgentID   string          `json:"agent_id"`
	AgentType string          `json:"agent_type"`
	Tool      string          `json:"tool_name"`
	Cwd       message.RawJSON `json:"cwd"`
	Assumed   bool            `json:"cwd_assumed"`
	Input     message.RawJSON `json:"tool_input"`
	Response  message.RawJSON `json:"tool_response"`
	Error     string          `json:"error"`
	Interrupt bool            `json:"is_interrupt"`
}

// Unreadable is an event for which Encode writes a denial if the agent's own cannot be read.
func Unreadable(d Dialect) *Event { return &Event{Dialect: d, Name: "PreToolUse"} }

// Decode reads an event. It refuses unknown events, because an agent that is not understood must
// not run the tool. The event that it returns with an error is only good for a denial.
func Decode(d Dialect, data []byte) (*Event, error) {
	ev := Unreadable(d)
	bad := func(what string) (*Event, error) {
		return ev, &message.Error{Code: message.CodeInvalid, Op: "read hook event", What: what, Hint: "call askance hook " + string(d) + " only from a hook of that agent; askance hook install " + string(d) + " writes the settings"}
	}
	var w wire
	if err := strictjson.UnmarshalOpen(data, &w, strictjson.MaxBytes(MaxEventBytes)); err != nil {
		return bad("the event is not valid: " + err.Error())
	}
	kind, known := kinds[d][w.Event]
	ev.Name, ev.Kind = cmp.Or(w.Event, ev.Name), kind
	input := bytes.TrimSpace(w.Input)
	switch {
	case w.Event == "":
		return bad("the event has no hook_event_name")
	case !known:
		return bad(fmt.Sprintf("the event %q is unknown", w.Event))
	case w.Session == "":
		return bad("the event has no session_id")
	case w.Tool == "":
		return bad("the event has no tool_name")
	case len(input) == 0 || input[0] != '{':
		return bad("tool_input is not an object")
	case w.Call == "" && kind != Prompt && d != Gemini:
		return bad("the event has no tool_use_id")
	case len(w.Cwd) == 0 && kind != After:
		return bad("the event has no cwd")
	}
	ev = &Event{
		Dialect: d, Name: w.Event, Kind: kind, Session: w.Session, Turn: cmp.Or(w.Prompt, w.Turn), Call: w.Call,
		Agent: agentName(d, w), Tool: w.Tool, Input: input, CwdAssumed: w.Assumed,
	}
	ev.Cwd, ev.CwdErr = folderOf(w.Cwd)
	if kind == After {
		ev.Result = resultOf(w)
	}
	return ev, nil
}

// folderOf reads the folder in which the tool runs.
func folderOf(raw message.RawJSON) (string, error) {
	var cwd *string
	if len(raw) == 0 {
		return "", nil
	}
	err := strictjson.UnmarshalOpen(raw, &cwd, strictjson.MaxBytes(MaxEventBytes))
	if err != nil || cwd == nil || *cwd == "" {
		return "", &message.Error{Code: message.CodeInvalid, What: "the event's cwd is not a path", Hint: "the agent must send the absolute path of the folder in which the tool runs"}
	}
	if err := toolcall.CheckCwd(*cwd); err != nil {
		return "", err // also for .., which leads elsewhere behind a link
	}
	if (*cwd)[0] == '/' {
		*cwd = path.Clean(*cwd)
	}
	return *cwd, nil
}

// agentName is the name under which policies and people see the agent.
func agentName(d Dialect, w wire) string {
	switch {
	case w.AgentType != "":
		return string(d) + "/" + w.AgentType
	case w.AgentID != "":
		return string(d) + "/" + w.AgentID
	}
	return string(d)
}

// resultOf reads the result of a tool, which each agent writes in its own way.
func resultOf(w wire) *Result {
	r := &Result{State: message.ToolResultSuccess, Text: string(w.Response)}
	var text string
	if strictjson.UnmarshalOpen(w.Response, &text, strictjson.MaxBytes(MaxEventBytes)) == nil {
		r.Text = text
	}
	var gemini struct {
		Error message.RawJSON `json:"error"`
	}
	failed := strictjson.UnmarshalOpen(w.Response, &gemini, strictjson.MaxBytes(MaxEventBytes)) == nil &&
		len(gemini.Error) > 0 && string(gemini.Error) != "null"
	switch {
	case w.Interrupt:
		r.State, r.Text = message.ToolResultInterrupted, cmp.Or(w.Error, r.Text)
	case w.Error != "" || w.Event == "PostToolUseFailure":
		r.State, r.Text = message.ToolResultError, cmp.Or(w.Error, r.Text)
	case failed:
		r.State = message.ToolResultError
	}
	return r
}
