package lint

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func (c *expr) checkCalls() {
	negated := map[int64]bool{}
	c.eachCall(func(e celast.Expr, name string) {
		if name == operators.LogicalNot {
			negated[e.AsCall().Args()[0].ID()] = true
		}
	})
	c.eachCall(func(e celast.Expr, name string) {
		all := args(e.AsCall())
		if len(all) < 2 {
			return
		}
		switch name {
		case "matches":
			c.checkPattern(e, all[1], negated[e.ID()])
			c.checkLinePattern(e, all[0], all[1])
		case "startsWith", "endsWith", "contains":
			c.checkText(e, all[0], all[1], name)
		case "split", "substring", "charAt", "indexOf", "lastIndexOf", "replace", "regex.extract", "regex.extractAll", "regex.replace":
			if c.Field == "when" && c.isCommand(lastName(all[0])) && c.allowsByText() {
				c.report(Boundary, Error, e, name+"() parses the line as text: quotes, or a command after a ;, evade it", textHint)
			}
		}
	})
}

// textHint is what to write instead of a condition on the text of a command line.
const textHint = "use rule_content, or cmd.static && cmd.calls.all(c, … && c.options_admitted); or write i_know: true"

// checkPattern requires a pattern that matches the whole text, and in which no newline evades a
// rule that protects.
func (c *expr) checkPattern(e, pattern celast.Expr, negated bool) {
	if c.Field != "when" {
		return
	}
	level := Warning
	if c.Rule.Behavior == message.BehaviorAllow {
		level = Error
	}
	text, ok := textLiteral(pattern)
	if !ok {
		c.report(Unanchored, level, e, "the pattern of matches() is computed at run time, so the caller may decide what matches", "write out the pattern")
		return
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return // it has been refused already
	}
	if isAnchored(re, syntax.OpBeginText) && isAnchored(re, syntax.OpEndText) {
		if (level == Error) == negated && stopsAtNewline(re) {
			c.report(Unanchored, Warning, e, "a dot does not match a newline, so a text with one does not match "+text, "begin it with (?s)")
		}
		return
	}
	hint := "begin it with ^ and end it with $"
	if level == Warning {
		hint += ", or with (?s)^.* and .*$ to look anywhere"
	}
	c.report(Unanchored, level, e, "matches() searches: the pattern "+text+" matches every text that contains it", hint)
}

func stopsAtNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpAnyCharNotNL || slices.ContainsFunc(re.Sub, stopsAtNewline)
}

// isAnchored reports whether every match of the pattern starts, or ends, where the text does.
func isAnchored(re *syntax.Regexp, op syntax.Op) bool {
	switch re.Op {
	case op:
		return true
	case syntax.OpConcat:
		if len(re.Sub) == 0 {
			return false
		}
		if op == syntax.OpBeginText {
			return isAnchored(re.Sub[0], op)
		}
		return isAnchored(re.Sub[len(re.Sub)-1], op)
	case syntax.OpCapture:
		return isAnchored(re.Sub[0], op)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !isAnchored(sub, op) })
	default:
		return false
	}
}

// checkText looks for paths, URLs and commands that are compared as text.
func (c *expr) checkText(e, target, with celast.Expr, function string) {
	if c.Field != "when" {
		return
	}
	name := lastName(target)
	f, _ := c.declaredField(target)
	switch {
	case c.isCommand(name) && c.allowsByText():
		c.report(Boundary, Error, e, function+"() checks only a part of the line: the rest, such as a command after a ;, is also allowed", textHint)
	case c.isCommand(name):
		if text, ok := textLiteral(with); ok && function == "startsWith" && !strings.HasSuffix(text, " ") {
			c.report(Boundary, Warning, e, "startsWith(\""+text+"\") matches every program whose name begins like that",
				"use rule_content, or end the text with a space")
		}
	case isURL(f.Format, name):
		c.report(TextPrefix, Warning, e, c.text(target)+" is a URL, and "+function+"() compares it as text: user names, ports and encodings evade it",
			"compare its host with url.host")
	case isPath(f.Format, name):
		c.report(TextPrefix, Warning, e, c.text(target)+" is a path, and "+function+"() compares it as text: /data2 begins with /data, and so does /data/../etc",
			"use path.within")
	case function == "startsWith" && textBegins(with, urlText):
		c.report(TextPrefix, Warning, e, "startsWith() compares a URL as text: https://example.com.evil.test begins with https://example.com",
			"use url.within, or compare its host with url.host")
	case function == "startsWith" && textBegins(with, pathText):
		c.report(TextPrefix, Warning, e, "startsWith() compares a path as text: /data/../etc begins with /data/",
			"use path.within")
	}
}

// Prefixes of literals that are meant for URLs and for paths. A single word after a slash may be a
// chat command.
var (
	urlText  = regexp.MustCompile(`^[a-z]+://`)
	pathText = regexp.MustCompile(`^(~|\.\.?)?/[A-Za-z0-9._-]+/`)
)

func textBegins(e celast.Expr, with *regexp.Regexp) bool {
	text, ok := textLiteral(e)
	return ok && with.MatchString(text)
}

// allowsByText reports whether the rule allows shell lines only by their text: nothing else in it
// checks the commands in them.
func (c *expr) allowsByText() bool {
	return isAllow(c.Rule) && !c.Rule.IKnow && !c.Rule.HasContent() && c.Rule.IsEnforced() && !commandCheck{c}.readsCalls()
}

// readsVariable reports whether the expression names a variable, directly or through a term.
func (c *expr) readsVariable(variable string) bool {
	found := false
	c.eachPart(func(e celast.Expr) {
		term, ok := guardCheck{c}.termOf(e)
		found = found || e.Kind() == celast.IdentKind && e.AsIdent() == variable || ok && term.readsVariable(variable)
	})
	return found
}

// checkLinePattern looks for patterns that allow a line with a further command in it.
func (c *expr) checkLinePattern(e, target, pattern celast.Expr) {
	text, ok := textLiteral(pattern)
	if !ok || c.Field != "when" || !c.isCommand(lastName(target)) || !c.allowsByText() {
		return
	}
	if re, err := syntax.Parse(text, syntax.Perl); err == nil && fitsOperator(re) {
		c.report(Boundary, Error, e, "the pattern "+text+" allows a further command, after a ; or in $(…)", textHint)
	}
}

// fitsOperator reports whether a wildcard of the pattern matches the start of another command.
func fitsOperator(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for _, r := range ";|&$`\n" {
				if re.Rune[i] <= r && r <= re.Rune[i+1] && re.Rune[i] != re.Rune[i+1] {
					return true
				}
			}
		}
		return false
	default:
		return slices.ContainsFunc(re.Sub, fitsOperator)
	}
}

// isCommand reports whether a member of the arguments is the line of a shell tool.
func (c *expr) isCommand(field string) bool {
	name := "command"
	for _, t := range c.opts.Tools {
		if k, ok := t.Kind.(permission.ArgumentKind); ok && t.Name == c.Tool {
			name = k.Argument().Name
		}
	}
	return field == name && c.isShell(c.Tool)
}

func isPath(format, field string) bool {
	field = strings.ToLower(field)
	return format == "path" || format == "file-path" ||
		slices.Contains([]string{"path", "file_path", "filepath", "file", "dir", "directory", "folder", "cwd"}, field) ||
		strings.HasSuffix(field, "_path") || strings.HasSuffix(field, "_dir")
}

func isURL(format, field string) bool {
	field = strings.ToLower(field)
	return slices.Contains([]string{"uri", "url", "uri-reference", "iri", "iri-reference"}, format) ||
		slices.Contains([]string{"url", "uri", "href", "endpoint"}, field) || strings.HasSuffix(field, "_url")
}

// lastName returns the last field of a path of fields.
func lastName(e celast.Expr) string {
	switch {
	case e.Kind() == celast.SelectKind:
		return e.AsSelect().FieldName()
	case isCall(e, "_?._"):
		name, _ := textLiteral(e.AsCall().Args()[1])
		return name
	case isCall(e, "orValue"), isCall(e, "lowerAscii"), isCall(e, "trim"):
		return lastName(e.AsCall().Target())
	default:
		return ""
	}
}

// clock has the smallest and largest value of each part of a time.
var clock = map[string]struct {
	low, high int64
	remark    string
}{
	"getHours": {0, 23, ""}, "getMinutes": {0, 59, ""}, "getSeconds": {0, 59, ""}, "getMilliseconds": {0, 999, ""},
	"getDayOfWeek": {0, 6, "Sunday is 0"}, "getDate": {1, 31, ""}, "getDayOfMonth": {0, 30, "getDate() counts from 1"},
	"getMonth": {0, 11, "January is 0"}, "getDayOfYear": {0, 365, "the first day is 0"},
}

// checkClock looks for comparisons of a part of a time with a number that it can never be.
func (c *expr) checkClock(part, literal celast.Expr, operator string) {
	if part.Kind() != celast.CallKind || literal.Kind() != celast.LiteralKind {
		return
	}
	call := part.AsCall()
	bounds, known := clock[call.FunctionName()]
	n, whole := literal.AsLiteral().Value().(int64)
	if !known || !whole || !call.IsMemberFunction() || c.typeOf(call.Target()).Kind() != types.TimestampKind {
		return
	}
	never := false
	switch operator {
	case operators.Equals, operators.NotEquals:
		never = n < bounds.low || n > bounds.high
	case operators.Greater:
		never = n >= bounds.high
	case operators.GreaterEquals:
		never = n > bounds.high
	case operators.Less:
		never = n <= bounds.low
	case operators.LessEquals:
		never = n < bounds.low
	}
	if never {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s() is a number from %d to %d, so comparing it with %s always has the same result",
			call.FunctionName(), bounds.low, bounds.high, c.text(literal)), bounds.remark)
	}
}

// checkComparisons looks for comparisons that are false for every call. CEL's checker refuses those
// between two known types; this covers enums and fields that can have several types.
func (c *expr) checkComparisons() {
	c.eachCall(func(e celast.Expr, name string) {
		call := e.AsCall()
		switch name {
		case operators.Equals, operators.NotEquals:
			a, b := call.Args()[0], call.Args()[1]
			c.checkEqual(a, b)
			c.checkEqual(b, a)
			c.checkClock(a, b, name)
			c.checkClock(b, a, name)
		case operators.In:
			if call.Args()[1].Kind() == celast.ListKind {
				for _, item := range call.Args()[1].AsList().Elements() {
					c.checkEqual(call.Args()[0], item)
					c.checkClock(call.Args()[0], item, operators.Equals)
				}
			}
		default:
			if mirrored[name] != "" {
				c.checkClock(call.Args()[0], call.Args()[1], name)
				c.checkClock(call.Args()[1], call.Args()[0], mirrored[name])
			}
		}
	})
}

func (c *expr) checkEqual(field, literal celast.Expr) {
	if literal.Kind() != celast.LiteralKind {
		return
	}
	f, ok := c.declaredField(selectedPath(field))
	if !ok || isCall(field, "orValue") && c.text(field.AsCall().Args()[0]) == c.text(literal) {
		return // the default for a missing field need not be one of its values
	}
	value := literal.AsLiteral()
	if len(f.JSONTypes) > 0 && !slices.ContainsFunc(f.JSONTypes, func(t string) bool { return isOfType(value, t) }) {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s is %s in every call, never equal to %s", c.text(field), oneOf(f.JSONTypes), c.text(literal)),
			"compare with a value of its type")
		return
	}
	if len(f.Enum) > 0 && !slices.ContainsFunc(f.Enum, func(v any) bool { return sameValue(value, v) }) {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s is one of %v in every call, never %s", c.text(field), f.Enum, c.text(literal)), "compare with one of its values")
	}
}

// selectedPath looks through functions that change a field's form but not its value.
func selectedPath(e celast.Expr) celast.Expr {
	switch {
	case isCall(e, "dyn") && len(e.AsCall().Args()) == 1:
		return selectedPath(e.AsCall().Args()[0])
	case isCall(e, "orValue") && e.AsCall().IsMemberFunction():
		return e.AsCall().Target()
	default:
		return e
	}
}

func isOfType(v ref.Val, jsonType string) bool {
	switch v.(type) {
	case types.String, types.Bytes:
		return jsonType == "string"
	case types.Int, types.Uint, types.Double:
		return jsonType == "integer" || jsonType == "number"
	case types.Bool:
		return jsonType == "boolean"
	case types.Null:
		return jsonType == "null"
	default:
		return true
	}
}

func sameValue(v ref.Val, want any) bool {
	switch w := want.(type) {
	case string, bool, int64, float64:
		return v.Equal(types.DefaultTypeAdapter.NativeToValue(w)) == types.True
	case nil:
		return v == types.NullValue
	default:
		return true
	}
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return "of type " + words[0]
	}
	return fmt.Sprintf("of one of the types %v", words)
}
