// Package terms parses the limits of a standing approval as people write them, on a
// command line or in the inbox.
package terms

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Scope parses the scope of a standing approval; "" is the session.
func Scope(text string) (toolcall.StandingScope, error) {
	s := cmp.Or(toolcall.StandingScope(text), toolcall.ScopeSession)
	if !s.Valid() {
		return "", fmt.Errorf("is %q, use %s", text, spelling.OrList(toolcall.Scopes()))
	}
	return s, nil
}

// Until parses an end: a time, or a duration from now. "" means none, the zero time.
func Until(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := permission.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d).UTC().Round(0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("is %q, write a duration such as 2h or 7d, or a time such as 2026-01-31T18:00:00Z", text)
	}
	return at.UTC(), nil
}

// Uses parses a number of later calls. "" is 0: as many as the policy permits.
func Uses(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > toolcall.MaxStandingUses {
		return 0, fmt.Errorf("is %q, write a number from 1 to %d, or nothing", text, toolcall.MaxStandingUses)
	}
	return n, nil
}

// Budget parses the limit for the sum over later calls, such as args.cents=10000. ""
// means none, nil.
func Budget(text string) (*toolcall.Budget, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // documented: no budget
	}
	path, limit, ok := strings.Cut(text, "=")
	path, limit = strings.TrimSpace(path), strings.TrimSpace(limit)
	if !ok || path == "" || limit == "" {
		return nil, fmt.Errorf("is %q, write it as args.cents=10000", text)
	}
	return &toolcall.Budget{Path: path, Limit: limit}, nil
}

// Allow returns a rule that allows a tool: every call of it, if content is empty.
func Allow(tool, content string) message.PermissionRule {
	r := message.PermissionRule{ToolName: tool, Behavior: message.BehaviorAllow}
	if content != "" {
		r.RuleContent = &content
	}
	return r
}
