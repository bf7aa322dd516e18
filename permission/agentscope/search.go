package agentscope

import (
	"errors"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// search is a tool that looks for files or text below its argument path, or
// below the current folder.
type search struct {
	Config
	kind string
}

func (s search) Name() string { return s.name(s.kind) }

func (search) Prepare(permission.Call) any { return nil }

func (s search) ReadOnly(c permission.Call) bool {
	return s.wellFormed(c) == nil
}

func (s search) Check(c permission.Call) permission.ToolVerdict {
	if err := s.wellFormed(c); err != nil {
		return malformedVerdict(err)
	}
	return permission.ToolVerdict{}
}

func (s search) wellFormed(c permission.Call) error {
	_, badPath := s.path(c)
	_, badPattern := s.text(c, "pattern")
	return errors.Join(badPath, badPattern)
}

// path is the folder as it is given.
func (s search) path(c permission.Call) (string, error) { return s.text(c, "path") }

// folder is where the call searches.
func (s search) folder(c permission.Call) (string, error) {
	path, err := s.path(c)
	if path == "" {
		path = c.Cwd
	}
	return path, err
}

// Suggest offers a rule for the folder.
func (s search) Suggest(c permission.Call) []message.PermissionRule {
	folder, err := s.folder(c)
	if err != nil {
		return nil
	}
	content := strings.TrimRight(s.places(c).absolute(folder), `/\`) + "/**"
	return []message.PermissionRule{suggestRule(c, &content)}
}

// Compile reads the content of a rule. Searching needs no rule that allows it,
// so that such a rule is as wide as upstream.
func (s search) Compile(content string, behavior message.Behavior) (permission.Pattern, error) {
	match := func(c permission.Call) (bool, error) {
		folder, badPath := s.folder(c)
		looked, badPattern := s.text(c, "pattern")
		if err := errors.Join(badPath, badPattern); err != nil {
			return false, err
		}
		raw, at := s.matchText(content, c, folder, looked), s.places(c)
		if raw || behavior == message.BehaviorAllow {
			return raw, nil
		}
		// What Glob looks for may name the folder, too.
		return at.isNamed(content, folder) || s.kind == Glob && looked != "" && at.isNamed(content, pathBelow(folder, looked)), nil
	}
	return pathPattern{content: content, match: match}, nil
}

// matchText is upstream's: it matches the given path, then for Glob what it looks
// for; for Grep the folder.
func (s search) matchText(content string, c permission.Call, folder, looked string) bool {
	if s.kind == Grep {
		return matchName(content, folder)
	}
	given, _ := s.path(c) // folder has been read from it
	return given != "" && matchName(content, given) || looked != "" && matchName(content, looked)
}

func pathBelow(folder, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return folder + "/" + name
}
