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
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
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

// Verdict is what was decided about an event.
type Verdict struct {
	// Behavior is allow; any other value denies.
	Behavior message.Behavior
	Reason   string
	// Input is the complete arguments that may run; "" means those of the event.
	Input string
	// Pass leaves an allowed call to the agent's own rules and prompts.
	Pass bool
}

// maxReason bounds reasons: Claude Code writes longer ones to a file.
const maxReason = 9000

type claudeAnswer struct {
	Output any `json:"hookSpecificOutput"`
}

type beforeOutput struct {
	Event    string          `json:"hookEventName"`
	Decision string          `json:"permissionDecision"`
	Reason   string          `json:"permissionDecisionReason,omitzero"`
	Input    message.RawJSON `json:"updatedInput,omitzero"`
}

type promptOutput struct {
	Event    string         `json:"hookEventName"`
	Decision promptDecision `json:"decision"`
}

type promptDecision struct {
	Behavior string          `json:"behavior"`
	Message  string          `json:"message,omitzero"`
	Input    message.RawJSON `json:"updatedInput,omitzero"`
}

type geminiAnswer struct {
	Decision string        `json:"decision"`
	Reason   string        `json:"reason,omitzero"`
	Output   *geminiOutput `json:"hookSpecificOutput,omitzero"`
}

type geminiOutput struct {
	Input message.RawJSON `json:"tool_input"`
}

// Encode writes the answer to an event. If it is empty, the agent must read nothing. An allowance
// that the dialect cannot express is an error.
func Encode(ev *Event, v Verdict) ([]byte, error) {
	if ev.Kind == After {
		return nil, nil
	}
	allow := v.Behavior == message.BehaviorAllow
	reason := cleanReason(v.Reason)
	var input message.RawJSON // the edited one
	if allow && v.Input != "" && !SameInput(string(ev.Input), v.Input) {
		input = message.RawJSON(v.Input)
		if _, err := jcs.Canonicalize(input); err != nil && ev.Dialect != Codex { // the others read numbers as doubles
			return nil, notExpressible("the approver changed a number to one that the agent would round")
		}
	}
	var answer any
	switch {
	case ev.Dialect == Gemini:
		a, err := geminiOf(ev, allow, reason, input)
		if err != nil {
			return nil, err
		}
		answer = a
	case ev.Kind == Prompt:
		a, err := promptOf(ev, allow, v.Pass, reason, input)
		if a == nil || err != nil {
			return nil, err
		}
		answer = claudeAnswer{a}
	case !allow:
		answer = claudeAnswer{beforeOutput{Event: ev.Name, Decision: "deny", Reason: reason}}
	case ev.Dialect == Codex && input == nil:
		return nil, nil // a bare allow is an error there, and the tool would run
	case ev.Dialect == Codex:
		answer = claudeAnswer{beforeOutput{Event: ev.Name, Decision: "allow", Input: input}}
	case v.Pass && input == nil, ev.Tool == askUser && input == nil:
		return nil, nil // the agent's own rules decide, and only its user can answer a question to its user
	case v.Pass:
		answer = claudeAnswer{beforeOutput{Event: ev.Name, Decision: "ask", Reason: reason, Input: input}}
	default:
		if ev.Tool == "ExitPlanMode" && input == nil { // an allow without input still asks
			input = ev.Input
		}
		answer = claudeAnswer{beforeOutput{Event: ev.Name, Decision: "allow", Reason: reason, Input: input}}
	}
	return strictjson.Marshal(answer)
}

// IsAnswer reports whether Encode could have written an answer to an event. Agents run the tool
// after an answer that they do not know.
func IsAnswer(ev *Event, answer []byte) bool {
	var err error
	var decision string
	name, known := ev.Name, []string{"allow", "deny"}
	switch {
	case len(answer) == 0:
		return ev.Kind == After || ev.Dialect != Gemini
	case ev.Kind == After:
		return false
	case ev.Dialect == Gemini:
		var a geminiAnswer
		err = strictjson.Unmarshal(answer, &a)
		decision = a.Decision
	case ev.Kind == Prompt:
		var a struct {
			Output promptOutput `json:"hookSpecificOutput"`
		}
		err = strictjson.Unmarshal(answer, &a)
		name, decision = a.Output.Event, a.Output.Decision.Behavior
	default:
		var a struct {
			Output beforeOutput `json:"hookSpecificOutput"`
		}
		err = strictjson.Unmarshal(answer, &a)
		name, decision = a.Output.Event, a.Output.Decision
		if ev.Dialect == ClaudeCode {
			known = append(known, "ask")
		}
	}
	return err == nil && name == ev.Name && slices.Contains(known, decision)
}

// promptOf answers where the agent would ask its user; nil leaves the decision to that prompt.
func promptOf(ev *Event, allow, pass bool, reason string, input message.RawJSON) (any, error) {
	out := promptOutput{Event: ev.Name, Decision: promptDecision{Behavior: "deny", Message: reason}}
	switch {
	case !allow:
	case pass && input == nil:
		return nil, nil //nolint:nilnil // documented
	case pass:
		return nil, notExpressible("the agent's own prompt would ask about the arguments before the change")
	case ev.Dialect == Codex && input != nil:
		return nil, notExpressible("Codex takes changed arguments only before it asks for permission")
	default:
		out.Decision = promptDecision{Behavior: "allow", Input: input}
	}
	return out, nil
}

// geminiOf answers Gemini. Old versions merge the members of tool_input over their own, new ones
// replace the arguments.
func geminiOf(ev *Event, allow bool, reason string, input message.RawJSON) (*geminiAnswer, error) {
	if !allow {
		return &geminiAnswer{Decision: "deny", Reason: reason}, nil
	}
	out := &geminiAnswer{Decision: "allow"}
	if input == nil {
		return out, nil
	}
	var before, after map[string]message.RawJSON
	if err := strictjson.Unmarshal(ev.Input, &before); err != nil {
		return nil, err
	}
	if err := strictjson.Unmarshal(input, &after); err != nil {
		return nil, err
	}
	for name := range before {
		if _, stays := after[name]; !stays {
			return nil, notExpressible("the approver removed the argument " + name + ", and Gemini CLI can only change or add arguments")
		}
	}
	out.Output = &geminiOutput{Input: input}
	return out, nil
}

func notExpressible(what string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "answer hook", What: what, Hint: "propose the call with the changed arguments"}
}

// cleanReason makes a reason that every agent accepts: not empty, valid and short.
func cleanReason(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "�"))
	text = strings.TrimSuffix(strings.TrimPrefix(text, "<system-reminder>"), "</system-reminder>")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + " …"
	}
	return cmp.Or(text, "askance gives no reason")
}

// SameInput reports whether two arguments have the same content.
func SameInput(a, b string) bool { return jcs.Equal([]byte(a), []byte(b)) }

// SameRun reports whether the tool of ev ran with the arguments input. The folder does not count: a
// shell command can change it. Claude Code adds what its user answers to the arguments of two tools.
func SameRun(ev *Event, input string) bool {
	return ev.Tool == askUser || ev.Tool == "ExitPlanMode" || SameInput(string(ev.Input), input)
}

// askUser is the tool with which Claude Code asks its user.
const askUser = "AskUserQuestion"

// AnswerInPlace puts an answer that a person gave into the arguments of a tool that only asks the
// agent's user. It returns "" for any other tool, or if the answer does not fit.
func AnswerInPlace(ev *Event, output string) string {
	if ev.Dialect != ClaudeCode || ev.Tool != askUser {
		return ""
	}
	var input map[string]message.RawJSON
	var asked []map[string]message.RawJSON
	if strictjson.Unmarshal(ev.Input, &input) != nil || strictjson.UnmarshalOpen(input["questions"], &asked) != nil {
		return ""
	}
	known := map[string]bool{}
	var text string
	for _, a := range asked {
		if strictjson.Unmarshal(a["question"], &text) != nil {
			return ""
		}
		known[text] = true
	}
	answers := map[string]string{}
	if err := strictjson.Unmarshal([]byte(output), &answers); err != nil {
		if len(asked) != 1 {
			return ""
		}
		answers = map[string]string{text: output}
	}
	for q := range answers {
		if !known[q] {
			return ""
		}
	}
	b, err := strictjson.Marshal(answers)
	if err != nil || len(answers) == 0 {
		return ""
	}
	input["answers"] = b
	b, err = strictjson.Marshal(input)
	if err != nil {
		return ""
	}
	return string(b)
}

// PromptText turns the answer to an event before a tool into what Claude Code reads
// from its permission-prompt tool. Everything but an allowance denies.
func PromptText(input message.RawJSON, answer []byte, err error) []byte {
	var a struct {
		Output beforeOutput `json:"hookSpecificOutput"`
	}
	deny := func(reason string) []byte {
		b, err := strictjson.Marshal(promptDecision{Behavior: "deny", Message: cleanReason(reason)})
		if err != nil {
			return []byte(`{"behavior":"deny","message":"askance failed"}`)
		}
		return b
	}
	switch {
	case err != nil:
		return deny(err.Error())
	case len(answer) == 0:
		return deny("askance leaves this to the user of the agent, who cannot be asked here")
	case strictjson.UnmarshalOpen(answer, &a) != nil:
		return deny("the answer of askance cannot be read")
	case a.Output.Decision != "allow":
		return deny(a.Output.Reason)
	case len(a.Output.Input) > 0:
		input = a.Output.Input
	}
	b, err := strictjson.Marshal(promptDecision{Behavior: "allow", Input: input})
	if err != nil {
		return deny("the arguments cannot be written")
	}
	return b
}
