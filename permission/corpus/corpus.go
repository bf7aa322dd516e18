// Package corpus checks a policy against many calls at once: those recorded in a journal or a
// file, or those of a policy's tests.
//
//	calls, err := corpus.Read(file)                       // or FromJournal, FromTests
//	report := corpus.Replay(ctx, calls, candidate)        // against what was recorded
//	report = corpus.Diff(ctx, calls, present, candidate)  // of two policies
//	fmt.Println(len(report.Changes), "of", report.Calls, "verdicts change")
//
// A verdict changes when its behavior does. Another rule with the same behavior is
// counted, but is not a change.
//
// # What a replay cannot know
//
// A journal has the call, who made it, the calls around it and what was decided, but not the
// working directory, the mode or the symbolic links of that time; the caller of Replay
// supplies those. Every budget has room, because the remaining amount is also unknown.
// Policies that read more than the corpus has (what a runtime declared about a tool, the
// number of calls of a run) can fail closed where the engine did not.
package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
	"github.com/askance-dev/askance/toolcall"
)

// MaxLine is the largest accepted length of a line, in bytes.
const MaxLine = 1 << 20

// Call is one call of a corpus.
type Call struct {
	Name    string
	Request permission.Request
	// Recorded is the recorded decision; nil if unknown.
	Recorded *Verdict
}

// Verdict is the part of a decision that can be compared.
type Verdict struct {
	Behavior message.Behavior `json:"behavior"`
	Rule     string           `json:"rule"`
	Bundle   string           `json:"bundle,omitzero"`
}

// ErrLine marks a line of a file that is not a call.
var ErrLine = errors.New("not a recorded call")

type line struct {
	Name        string            `json:"name"`
	Tool        string            `json:"tool"`
	Args        json.RawMessage   `json:"args"`
	Caller      permission.Caller `json:"caller"`
	Mode        permission.Mode   `json:"mode"`
	Now         time.Time         `json:"now"`
	Cwd         string            `json:"cwd"`
	WorkingDirs []string          `json:"working_dirs"`
	Behavior    message.Behavior  `json:"behavior"`
	Rule        string            `json:"rule"`
}

// Read reads a file of calls, one JSON object per line, in which only tool is required:
//
//	{"name": "…", "tool": "refund", "args": {"cents": 900}, "caller": {"user": "ann"}, "mode": "default",
//	 "now": "2026-11-21T12:00:00Z", "cwd": "/work", "working_dirs": ["/work"], "behavior": "allow", "rule": "small"}
//
// behavior and rule are the recorded decision. Empty lines are skipped. An error names the line and
// wraps ErrLine.
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

// ReadCall parses one call.
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
		Caller: l.Caller,
	}}
	if l.Behavior != "" {
		c.Recorded = &Verdict{Behavior: l.Behavior, Rule: l.Rule}
	}
	return c, nil
}

// FromTests returns the calls of the policies' tests, without their expectations.
func FromTests(policies ...permission.Policy) []Call {
	var out []Call
	for _, p := range policies {
		for _, t := range p.Tests {
			if slices.ContainsFunc(out, func(c Call) bool { return reflect.DeepEqual(c.Request, t.Call) }) { //nolint:govet // errors in requests are values: equal fields mean the same error
				continue // in both policies
			}
			out = append(out, Call{Name: t.Name, Request: t.Call})
		}
	}
	return out
}

// FromJournal returns the decided calls of a journal, in the order in which they were proposed.
// Rules that an approver allowed to be remembered join the policy for later calls of the same
// session.
func FromJournal(calls []*toolcall.Call) []Call {
	sorted := slices.SortedStableFunc(slices.Values(calls), func(a, b *toolcall.Call) int { return cmp.Compare(a.First, b.First) })
	var out []Call
	for _, c := range sorted {
		if c.Decision == nil {
			continue
		}
		r := permission.RequestOf(c)
		r.Now, r.SessionRules = c.ProposedAt.UTC(), rememberedRules(sorted, c)
		out = append(out, Call{Name: string(c.Session) + "/" + string(c.Reply) + "/" + string(c.Call), Request: r, Recorded: recordedVerdict(c.Decision)})
	}
	return out
}

// recordedVerdict is the policy's decision. If a standing approval answered the approval request,
// the policy had asked.
func recordedVerdict(d *toolcall.Decision) *Verdict {
	v := &Verdict{Behavior: d.Behavior, Rule: d.Rule, Bundle: d.Bundle}
	if d.Standing != "" {
		v.Behavior = message.BehaviorAsk
	}
	return v
}

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

// Report is what a comparison found.
type Report struct {
	// Before and After are the content hashes of the policies; Before is empty if calls were
	// compared with the recorded decisions.
	Before string `json:"before,omitzero"`
	After  string `json:"after"`
	Calls  int    `json:"calls"`
	// Unknown counts the calls without a recorded decision.
	Unknown int `json:"unknown"`
	// OtherRule counts the calls with the same verdict from another rule.
	OtherRule int `json:"other_rule"`
	// Looser and Tighter count the changes by direction.
	Looser  int       `json:"looser"`
	Tighter int       `json:"tighter"`
	Changes []*Change `json:"changes"`
}

// Change is a call whose verdict changes.
type Change struct {
	Name   string  `json:"name"`
	Tool   string  `json:"tool"`
	Args   string  `json:"args"`
	Before Verdict `json:"before"`
	After  Verdict `json:"after"`
	// Looser is true if the new verdict allows more than the old one.
	Looser bool `json:"looser"`
	// Why explains the new verdict, one line per reason.
	Why []string `json:"why"`
}

// Replay compares a candidate with the recorded decisions.
func Replay(ctx context.Context, calls []Call, candidate *permission.Bundle) *Report {
	r := &Report{After: candidate.Hash(), Changes: []*Change{}}
	for _, c := range calls {
		r.Calls++
		if c.Recorded == nil {
			r.Unknown++
			continue
		}
		r.compare(ctx, c, *c.Recorded, candidate)
	}
	return r
}

// Diff compares two policies.
func Diff(ctx context.Context, calls []Call, before, after *permission.Bundle) *Report {
	r := &Report{Before: before.Hash(), After: after.Hash(), Changes: []*Change{}}
	for _, c := range calls {
		r.Calls++
		r.compare(ctx, c, verdict(before.Decide(ctx, c.Request)), after)
	}
	return r
}

func verdict(d permission.Decision) Verdict {
	return Verdict{Behavior: d.Behavior, Rule: d.Rule, Bundle: d.Bundle}
}

func (r *Report) compare(ctx context.Context, c Call, before Verdict, candidate *permission.Bundle) {
	after := verdict(candidate.Decide(ctx, c.Request))
	switch {
	case before.Behavior == after.Behavior && before.Rule == after.Rule:
		return
	case before.Behavior == after.Behavior:
		r.OtherRule++
		return
	}
	change := &Change{Name: c.Name, Tool: c.Request.Tool, Args: string(c.Request.Input), Before: before, After: after,
		Looser: strictness[after.Behavior] < strictness[before.Behavior]}
	if change.Looser {
		r.Looser++
	} else {
		r.Tighter++
	}
	x := candidate.Explain(ctx, c.Request)
	change.Why = append(change.Why, x.Reason)
	for _, t := range x.Trace {
		if t.Rule == before.Rule && t.Rule != after.Rule {
			change.Why = append(change.Why, suite.RuleText(t))
		}
	}
	r.Changes = append(r.Changes, change)
}

// strictness orders behaviors; an unknown one is the strictest.
var strictness = map[message.Behavior]int{message.BehaviorAllow: -3, message.BehaviorAsk: -2, message.BehaviorDeny: -1}
