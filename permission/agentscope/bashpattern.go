package agentscope

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/shell"
)

// Compile reads the content of a rule.
func (b bash) Compile(text string, behavior message.Behavior) (permission.Pattern, error) {
	pattern, err := shell.Compile(text)
	return bashPattern{bash: b, content: compileContent(text), shell: pattern, allow: behavior == message.BehaviorAllow}, err
}

// TrustOptions implements permission.OptionTruster.
func (b bashPattern) TrustOptions() permission.Pattern {
	b.shell, b.trusts = b.shell.TrustOptions(), true
	return b
}

// Notice says where an allow rule means less than upstream.
func (b bashPattern) Notice() string {
	if !b.allow {
		return ""
	}
	var out []string
	if !b.content.prefix && b.content.whole == nil {
		out = append(out, "allows commands that begin with these words; in AgentScope it allows every line that contains the text")
	}
	if b.shell.NamesFiles() {
		out = append(out, "each * means files, a host or a word, with options between them; in AgentScope it means any text")
	}
	if !b.trusts && b.unknownProgram() {
		out = append(out, "what the options of the program do is not known, so that only the command without further arguments is allowed; "+
			"add trust_options: true if all of them are harmless")
	}
	return strings.Join(out, "; ")
}

// unknownProgram tries the rule on its own words with one more.
func (b bashPattern) unknownProgram() bool {
	words := b.content.text
	if b.content.whole != nil {
		return false
	}
	cover := shell.Parse(words + " x").Cover([]*shell.Pattern{b.shell})
	return slices.ContainsFunc(cover.Commands, func(c shell.CommandCoverage) bool { return !c.Covered && c.Why.Code == shell.CodeNoTable })
}

// bashPattern is the content of one rule.
type bashPattern struct {
	bash
	content content
	shell   *shell.Pattern
	allow   bool
	trusts  bool
}

// Match is narrower than upstream's for an allow rule, which has to cover every
// command as well. It is wider for a deny or ask rule, which is about a line if
// it is about any command in it.
func (b bashPattern) Match(c permission.Call) (bool, error) {
	p := b.prepared(c)
	if p.err != nil {
		return false, p.err
	}
	whole := b.content.match(p.text)
	switch {
	case b.allow:
		return whole && (b.isEverything() || p.line.Covers([]*shell.Pattern{b.shell})), nil
	case whole || p.text == "":
		return whole, nil
	default:
		return b.shell.Matches(p.line)
	}
}

// isEverything reports whether the rule is about all commands, as one without a
// content is.
func (b bashPattern) isEverything() bool {
	return b.content.whole != nil && strings.Trim(b.content.text, "*") == ""
}

// Explain shows the commands of the line as the rule sees them.
func (b bashPattern) Explain(c permission.Call) []permission.Piece {
	p := b.prepared(c)
	if p.err != nil || !b.allow || b.isEverything() {
		return nil
	}
	cover := p.line.Cover([]*shell.Pattern{b.shell})
	var out []permission.Piece
	for _, one := range cover.Commands {
		piece := permission.Piece{Text: one.Command.String(), Covered: one.Covered}
		if !one.Covered {
			piece.Why = one.Why.String()
		}
		out = append(out, piece)
	}
	for _, r := range cover.Reasons {
		out = append(out, permission.Piece{Text: p.text, Why: r.String()})
	}
	return out
}

// Covered implements permission.JointMatcher: every command is covered by one
// of the rules, and one of them matches the line as upstream has it.
func (b bash) Covered(c permission.Call, patterns []permission.Pattern) ([]int, error) {
	p := b.prepared(c)
	if p.err != nil {
		return nil, p.err
	}
	all, at, whole := make([]*shell.Pattern, 0, len(patterns)), make([]int, 0, len(patterns)), -1
	for i, q := range patterns {
		if bp, ok := q.(bashPattern); ok {
			all, at = append(all, bp.shell), append(at, i)
			if whole < 0 && bp.content.match(p.text) {
				whole = i
			}
		}
	}
	if whole < 0 || !p.line.Covers(all) {
		return nil, nil
	}
	by := []int{whole}
	for _, one := range p.line.Cover(all).Commands {
		by = append(by, at[one.By])
	}
	slices.Sort(by)
	return slices.Compact(by), nil
}
