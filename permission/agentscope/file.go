package agentscope

import (
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// file is a tool that reads or writes the file of its argument file_path.
type file struct {
	Config
	kind   string
	writes bool
}

func (f file) Name() string { return f.name(f.kind) }

func (file) Prepare(permission.Call) any { return nil }

func (f file) ReadOnly(c permission.Call) bool {
	_, err := f.text(c, "file_path")
	return !f.writes && err == nil
}

func (f file) Check(c permission.Call) permission.ToolVerdict {
	path, err := f.text(c, "file_path")
	switch {
	case err != nil:
		return malformedVerdict(err)
	case path == "" || !f.writes:
		return permission.ToolVerdict{}
	}
	at := f.places(c)
	if at.isDangerous(path) {
		return immuneVerdict(StepDangerousPath, "it writes the sensitive file "+path)
	}
	if at.leadsToDanger(path) {
		return uncoveredVerdict("a link may lead to a sensitive file from " + path)
	}
	if editsFreely(c.Mode) && at.isInside(path) && at.provenInside(path) {
		return permission.ToolVerdict{Answer: permission.CheckAllow, Step: StepWorkingDirectory, Message: "the file is in a working directory"}
	}
	return permission.ToolVerdict{}
}

// Suggest offers a rule for the folder of the file.
func (f file) Suggest(c permission.Call) []message.PermissionRule {
	path, err := f.text(c, "file_path")
	if err != nil || path == "" {
		return nil
	}
	content := "**"
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		content = strings.TrimRight(path[:i], `/\`) + "/**"
	}
	return []message.PermissionRule{suggestRule(c, &content)}
}

// Compile reads the content of a rule. What is only read needs no rule that
// allows it, so that such a rule is as wide as upstream.
func (f file) Compile(content string, behavior message.Behavior) (permission.Pattern, error) {
	allows := behavior == message.BehaviorAllow
	raw := allows && !f.writes
	match := func(c permission.Call) (bool, error) {
		path, err := f.text(c, "file_path")
		switch {
		case err != nil || path == "":
			return false, err
		case raw || !matchName(content, path) && allows:
			return matchName(content, path), nil
		case allows:
			return f.places(c).isAllowed(content, path), nil
		default:
			return f.places(c).isNamed(content, path), nil
		}
	}
	return pathPattern{content: content, narrow: allows && !raw, match: match}, nil
}
