package permission

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// PathKind is a Kind whose calls name files, so a deny or ask rule can be about files rather than a
// tool.
type PathKind interface {
	Kind
	// Files says what the calls do with the files that they name.
	Files() FileUse
	// CompilePath compiles the content of such a rule. With reading set, the rule applies to calls
	// that can show the file's content; otherwise to all calls that reach the file.
	CompilePath(content string, reading bool) (Pattern, error)
}

// FileUse says what the calls of a PathKind do with files.
type FileUse uint8

// The uses. A deny or ask rule about a tool that only reads files protects the files from every
// tool that can show their content.
const (
	FilesWritten FileUse = iota
	FilesShown
	FilesRead
)

// pathRule is a rule whose content is about the files of several tools.
type pathRule struct {
	*compiledRule
	anyTool bool
	named   []string // tools named by the rule
}

// addPathRule records a rule whose content protects files from other tools.
func (c *compiler) addPathRule(r *Rule, cr *compiledRule, tr *toolRules) {
	if _, ok := r.content(); !ok || r.Behavior != message.BehaviorDeny && r.Behavior != message.BehaviorAsk {
		return
	}
	if tr == nil {
		c.paths = append(c.paths, pathRule{compiledRule: cr, anyTool: true})
		return
	}
	if k, ok := tr.kind().(PathKind); ok && k.Files() == FilesRead && r.When == "" {
		c.paths = append(c.paths, pathRule{compiledRule: cr, named: c.toolsOf(r)})
	}
}

// spreadPathRules adds the rules about files to the tools that reach files.
func (c *compiler) spreadPathRules() {
	var tools []*toolRules
	for _, tr := range c.bundle.byTool {
		tools = append(tools, tr)
	}
	slices.SortFunc(tools, func(a, b *toolRules) int { return strings.Compare(a.name, b.name) })
	for _, p := range c.paths {
		var unseen []string
		for _, tr := range tools {
			k, ok := tr.kind().(PathKind)
			switch {
			case ok && (p.anyTool || k.Files() != FilesWritten && !slices.Contains(p.named, tr.name)):
				c.spreadPathRule(p, tr, k)
			case p.anyTool && !ok:
				unseen = append(unseen, tr.name)
			}
		}
		switch {
		case p.anyTool && len(unseen) == len(tools):
			c.addFault(p.rule, "rule_content", "is about files, but no declared tool has a kind that names files",
				"give the tools a kind in the tools file, such as bash or read, leave the content out, or use when")
		case len(unseen) > 0:
			c.addNotice(p.rule, AnyTool, "does not see the files of "+display.Quoted(strings.Join(unseen, ", "))+", which have no kind that names files")
		}
	}
}

func (c *compiler) spreadPathRule(p pathRule, tr *toolRules, k PathKind) {
	content, _ := p.rule.content()
	pattern, err := callSafely(func() (Pattern, error) { return k.CompilePath(content, !p.anyTool) })
	if err != nil {
		c.addFault(p.rule, "rule_content", "for tool "+display.Quoted(tr.name)+": "+err.Error(), "")
		return
	}
	cr := *p.compiledRule
	cr.pattern = pattern
	if !p.anyTool {
		cr.message, cr.protects = nil, true // its message and handling refer to another tool's arguments
	}
	tr.addRules(&cr)
}

// sessionPathPattern returns the pattern of a session's rule about another tool, if the rule
// protects files from this one.
func (e *evaluation) sessionPathPattern(r *message.PermissionRule) (Pattern, error) {
	other := e.bundle.byTool[r.ToolName]
	here, ok := e.tr.kind().(PathKind)
	if other == nil || !ok || here.Files() == FilesWritten || r.RuleContent == nil || *r.RuleContent == "" {
		return nil, nil
	}
	if k, ok := other.kind().(PathKind); !ok || k.Files() != FilesRead {
		return nil, nil
	}
	return callSafely(func() (Pattern, error) { return here.CompilePath(*r.RuleContent, true) })
}
