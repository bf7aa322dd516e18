package agentscope

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// The oracle decides as AgentScope 2.0.6 does, including its hazards. It shares the analysis of
// texts with the kinds, but nothing that decides.

// oracle is one of AgentScope's own tools, and decides about its calls as upstream does.
type oracle struct {
	Config
	kind string
}

// argument returns an argument as text. Upstream treats values that Python takes for false as
// absent.
func (o oracle) argument(c permission.Call, name string) (string, error) {
	v := c.Input[name]
	if s, ok := v.(string); ok || v == nil || isFalseInPython(v) {
		return s, nil
	}
	return "", errors.New(name + " is not text")
}

func upstreamEditsFreely(m permission.Mode) bool {
	return m == permission.ModeAcceptEdits || m == permission.ModeDontAsk
}

func isFalseInPython(v any) bool {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Slice || r.Kind() == reflect.Map {
		return r.Len() == 0
	}
	return r.IsZero()
}

func (o oracle) tree(text string) *tree { return parseTree(text).cutByChar() }

func (o oracle) readOnly(c permission.Call) bool {
	switch o.kind {
	case Bash:
		text, err := o.argument(c, "command")
		t := o.tree(text)
		return err == nil && text != "" && t.dynamic == "" && t.looksReadOnly()
	case Read, Glob, Grep:
		return true
	}
	return false
}

func (o oracle) check(c permission.Call) permission.ToolVerdict {
	switch o.kind {
	case Bash:
		return o.checkBash(c)
	case Write, Edit:
		path, err := o.argument(c, "file_path")
		at := o.places(c)
		switch {
		case err != nil:
			return malformedVerdict(err)
		case path == "":
		case at.isDangerous(path):
			return immuneVerdict(StepDangerousPath, "")
		case upstreamEditsFreely(c.Mode) && at.isInside(path):
			return permission.ToolVerdict{Answer: permission.CheckAllow, Step: StepWorkingDirectory}
		}
	}
	return permission.ToolVerdict{}
}

func (o oracle) checkBash(c permission.Call) permission.ToolVerdict {
	text, err := o.argument(c, "command")
	t, at := o.tree(text), o.places(c)
	edits := &bashCall{text: text, tree: t, places: at}
	switch {
	case err != nil:
		return malformedVerdict(err)
	case text == "":
	case t.dynamic != "":
		return immuneVerdict(StepInjection, "")
	case dangerousText(text) != "":
		return immuneVerdict(StepDangerousCommand, "")
	case sedFault(text) != "":
		return immuneVerdict(StepSed, "")
	case slices.ContainsFunc(t.paths(), func(p commandPath) bool { return at.isDangerous(p.path) }):
		return immuneVerdict(StepDangerousPath, "")
	case t.removal(at) != "":
		return immuneVerdict(StepDangerousRemoval, "")
	case upstreamEditsFreely(c.Mode) && edits.editsInside():
		return permission.ToolVerdict{Answer: permission.CheckAllow, Step: StepWorkingDirectory}
	}
	return permission.ToolVerdict{}
}

// match reports whether the content of a rule matches a call.
func (o oracle) match(content string, c permission.Call) (bool, error) {
	switch o.kind {
	case Bash:
		text, err := o.argument(c, "command")
		return err == nil && compileContent(content).match(text), err
	case Read, Write, Edit:
		path, err := o.argument(c, "file_path")
		return err == nil && path != "" && matchName(content, path), err
	case Glob, Grep:
		path, badPath := o.argument(c, "path")
		looked, badPattern := o.argument(c, "pattern")
		if err := errors.Join(badPath, badPattern); err != nil {
			return false, err
		}
		if o.kind == Grep {
			return matchName(content, cmp.Or(path, c.Cwd)), nil
		}
		return path != "" && matchName(content, path) || looked != "" && matchName(content, looked), nil
	}
	return false, nil
}

func (o oracle) suggest(c permission.Call) []message.PermissionRule {
	if o.kind != Bash {
		return makers[o.kind](o.Config).Suggest(c)
	}
	text, err := o.argument(c, "command")
	if err != nil {
		return []message.PermissionRule{}
	}
	return suggestPrefixes(c, o.tree(text))
}

func suggestPrefixes(c permission.Call, tr *tree) []message.PermissionRule {
	out := []message.PermissionRule{}
	for _, prefix := range tr.prefixes() {
		content := prefix + ":*"
		out = append(out, suggestRule(c, &content))
	}
	return out
}

// judged contains what the steps of the decision need to know about one call.
type judged struct {
	rules    []message.PermissionRule // of the tool
	readOnly bool
	check    permission.ToolVerdict
	match    func(message.PermissionRule) bool
	suggest  []message.PermissionRule
}

// decide follows AgentScope's steps, in which an ask rule comes before the denials of the tool
// and of the mode.
func (j judged) decide(mode permission.Mode) verdict {
	matched := func(b message.Behavior) bool {
		return slices.ContainsFunc(j.rules, func(r message.PermissionRule) bool { return r.Behavior == b && j.match(r) })
	}
	answer := func(b message.Behavior, step permission.Step) verdict { return verdict{Behavior: b, Step: step} }
	ask := func(step permission.Step, immune bool) verdict {
		if mode == permission.ModeDontAsk {
			return verdict{Behavior: message.BehaviorDeny, Step: permission.StepAskConverted, Suggested: j.suggest}
		}
		return verdict{Behavior: message.BehaviorAsk, Step: step, BypassImmune: immune, Suggested: j.suggest}
	}
	switch {
	case matched(message.BehaviorDeny):
		return answer(message.BehaviorDeny, permission.StepRule)
	case matched(message.BehaviorAsk):
		return ask(permission.StepRule, false)
	case j.readOnly:
		return answer(message.BehaviorAllow, permission.StepReadOnly)
	case mode == permission.ModeExplore:
		return answer(message.BehaviorDeny, permission.StepFallbackExplore)
	}
	step := cmp.Or(j.check.Step, permission.StepToolCheck)
	switch {
	case j.check.Answer == permission.CheckAllow:
		return answer(message.BehaviorAllow, step)
	case j.check.Answer == permission.CheckDeny:
		return answer(message.BehaviorDeny, step)
	case j.check.Answer == permission.CheckAskImmune && mode != permission.ModeBypass:
		return ask(step, true)
	case matched(message.BehaviorAllow):
		return answer(message.BehaviorAllow, permission.StepAllowRule)
	case mode == permission.ModeBypass:
		return answer(message.BehaviorAllow, permission.StepFallbackBypass)
	case mode == permission.ModeDontAsk:
		return answer(message.BehaviorDeny, permission.StepFallbackDontAsk)
	}
	return ask(permission.StepFallbackAsk, false)
}

// decideAsUpstream returns AgentScope's verdict on a call of one of its own tools.
func decideAsUpstream(t rapid.TB, rules []message.PermissionRule, req permission.Request, home string) verdict {
	t.Helper()
	c := permission.Call{Tool: req.Tool, Raw: req.Input, Mode: req.Mode, Cwd: req.Cwd, WorkingDirs: req.WorkingDirs, Input: decodeInput(t, req.Input)}
	o := oracle{Config{Home: home}, builtin[req.Tool]}
	return judged{
		rules: rulesOf(req.Tool, rules), readOnly: o.readOnly(c), check: o.check(c), suggest: append([]message.PermissionRule{}, o.suggest(c)...),
		match: func(r message.PermissionRule) bool {
			if r.RuleContent == nil || *r.RuleContent == "" {
				return true
			}
			ok, err := o.match(*r.RuleContent, c)
			return ok && err == nil
		},
	}.decide(req.Mode)
}

func rulesOf(tool string, rules []message.PermissionRule) []message.PermissionRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r message.PermissionRule) bool { return r.ToolName != tool })
}

func decodeInput(t rapid.TB, input []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(input, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// maxSuggestions is the maximum number of commands in a line for which rules are suggested.
const maxSuggestions = 5

// safeVariables may come before a command for which a rule is suggested.
var safeVariables = setOf("NODE_ENV PYTHONUNBUFFERED RUST_LOG LANG TERM NO_COLOR FORCE_COLOR DEBUG VERBOSE CI PATH HOME USER SHELL " +
	"EDITOR PAGER TZ LC_ALL LC_CTYPE COLUMNS LINES CLICOLOR CLICOLOR_FORCE")

// prefixes returns the beginnings of commands for which rules are suggested: the program and its
// first plain argument.
func (t *tree) prefixes() []string {
	if trimSpace(t.text) == "" {
		return nil
	}
	var out []string
	commands := t.subcommands()
	for _, text := range commands[:min(len(commands), maxSuggestions)] {
		if p := t.prefix(text); p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// prefix returns the suggested beginning of one command, cut like the whole line.
func (t *tree) prefix(text string) string {
	command := parseTree(text)
	if len(command.commands) == 0 {
		return ""
	}
	if t.chars != nil {
		command = command.cutByChar()
	}
	c := command.commands[0]
	for _, a := range c.assigns {
		name, _, _ := strings.Cut(command.cutSpan(a), "=")
		if !safeVariables[name] {
			return ""
		}
	}
	name := command.cutSpan(c.name)
	if safeCommands[strings.ToLower(name)] || len(c.words) == 0 {
		return ""
	}
	return name + " " + command.cutSpan(c.words[0])
}
