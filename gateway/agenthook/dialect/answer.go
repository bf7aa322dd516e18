package dialect

import (
	"cmp"
	"strings"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

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
