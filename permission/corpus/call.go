package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// MaxLine is the longest accepted line of a file, in bytes.
const MaxLine = 1 << 20

// Call is one call of a corpus.
type Call struct {
	Name    string
	Request permission.Request
	// Recorded is what was decided about it; nil: not known.
	Recorded *Verdict
}

// Verdict is as much of a decision as can be compared.
type Verdict struct {
	Behavior message.Behavior `json:"behavior"`
	Rule     string           `json:"rule"`
	Bundle   string           `json:"bundle,omitzero"`
}

// ErrLine marks a line of a file that is no call.
var ErrLine = errors.New("not a recorded call")

// line is a call as files have it: one JSON object a line.
type line struct {
	Name        string           `json:"name"`
	Tool        string           `json:"tool"`
	Args        json.RawMessage  `json:"args"`
	Caller      caller           `json:"caller"`
	Mode        permission.Mode  `json:"mode"`
	Now         time.Time        `json:"now"`
	Cwd         string           `json:"cwd"`
	WorkingDirs []string         `json:"working_dirs"`
	Behavior    message.Behavior `json:"behavior"`
	Rule        string           `json:"rule"`
}

type caller struct {
	Agent       string            `json:"agent"`
	User        string            `json:"user"`
	Space       toolcall.SpaceID  `json:"space"`
	Session     message.SessionID `json:"session"`
	Reply       message.ReplyID   `json:"reply"`
	Roles       []string          `json:"roles"`
	Tenant      string            `json:"tenant"`
	RunID       string            `json:"run_id"`
	ParentAgent string            `json:"parent_agent"`
}

// Read reads a file of calls, one JSON object a line, in which only tool is
// required:
//
//	{"name": "…", "tool": "refund", "args": {"cents": 900}, "caller": {"user": "ann"}, "mode": "default",
//	 "now": "2026-11-21T12:00:00Z", "cwd": "/work", "working_dirs": ["/work"], "behavior": "allow", "rule": "small"}
//
// behavior and rule are what was decided. Empty lines are passed over. An error
// names the line and wraps ErrLine.
func Read(r io.Reader) ([]Call, error) {
	var out []Call
	s := bufio.NewScanner(r)
	s.Buffer(nil, MaxLine)
	n := 0
	for s.Scan() {
		n++
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		c, err := ReadCall(s.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		c.Name = cmp.Or(c.Name, fmt.Sprintf("line %d", n))
		out = append(out, c)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("after line %d: %w", n, err)
	}
	return out, nil
}

// ReadCall reads one call.
func ReadCall(data []byte) (Call, error) {
	var l line
	if err := strictjson.Unmarshal(data, &l, strictjson.MaxBytes(MaxLine)); err != nil {
		return Call{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	switch {
	case l.Tool == "":
		return Call{}, fmt.Errorf("%w: tool is missing", ErrLine)
	case l.Behavior != "" && !l.Behavior.Valid():
		return Call{}, fmt.Errorf("%w: behavior is %.40q, want allow, deny or ask", ErrLine, string(l.Behavior))
	case l.Mode != "":
		if _, err := permission.ParseMode(string(l.Mode)); err != nil {
			return Call{}, fmt.Errorf("%w: %w", ErrLine, err)
		}
	}
	if len(l.Args) == 0 {
		l.Args = json.RawMessage("{}")
	}
	c := Call{Name: l.Name, Request: permission.Request{
		Tool: l.Tool, Input: l.Args, Mode: l.Mode, Now: l.Now, Cwd: l.Cwd, WorkingDirs: l.WorkingDirs,
		Caller: permission.Caller(l.Caller),
	}}
	if l.Behavior != "" {
		c.Recorded = &Verdict{Behavior: l.Behavior, Rule: l.Rule}
	}
	return c, nil
}

// FromTests are the calls of the tests of a policy, without what they
// expect.
func FromTests(policies ...permission.Policy) []Call {
	var out []Call
	seen := map[string]bool{}
	for _, p := range policies {
		for _, t := range p.Tests {
			req := t.Call.Request()
			key, err := strictjson.Marshal([]any{req.Tool, string(req.Input), req.Mode, req.Caller, req.Now, req.Cwd, req.WorkingDirs})
			if err == nil && seen[string(key)] {
				continue // both policies have the test
			}
			seen[string(key)] = true
			out = append(out, Call{Name: t.Name, Request: req})
		}
	}
	return out
}

// FromJournal are the calls of a journal that were decided, in the order in
// which they were proposed. Rules that an approver let remember join
// the policy for later calls of the same session.
func FromJournal(calls []*toolcall.Call) []Call {
	sorted := slices.SortedStableFunc(slices.Values(calls), func(a, b *toolcall.Call) int { return cmp.Compare(a.First, b.First) })
	var out []Call
	for _, c := range sorted {
		if c.Decision == nil {
			continue
		}
		out = append(out, Call{
			Name: string(c.Session) + "/" + string(c.Reply) + "/" + string(c.Call),
			Request: permission.Request{
				Tool: c.Tool, Input: []byte(c.Input), Now: c.ProposedAt.UTC(), SessionRules: rememberedRules(sorted, c),
				Caller: permission.Caller{Agent: c.Agent, User: c.Runtime, Space: c.Space, Session: c.Session, Reply: c.Reply},
			},
			Recorded: recordedVerdict(c.Decision),
		})
	}
	return out
}

// recordedVerdict is what the policy said. Where a rule that was remembered on terms
// answered its approval request, it had asked.
func recordedVerdict(d *toolcall.Decision) *Verdict {
	v := &Verdict{Behavior: d.Behavior, Rule: d.Rule, Bundle: d.Bundle}
	if d.Standing != "" {
		v.Behavior = message.BehaviorAsk
	}
	return v
}

// rememberedRules are the rules that the session had when a call was proposed.
func rememberedRules(calls []*toolcall.Call, at *toolcall.Call) []message.PermissionRule {
	var out []message.PermissionRule
	for _, c := range calls {
		if c.Session != at.Session || len(c.Remember) == 0 || len(c.Votes) == 0 {
			continue
		}
		if answered := c.Votes[len(c.Votes)-1].At; !answered.IsZero() && answered.Before(at.ProposedAt) {
			out = append(out, c.Remember...)
		}
	}
	return out
}
