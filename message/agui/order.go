package agui

import "fmt"

// Rule names a rule about the order of events.
type Rule string

// The rules. The 1.0 client enforces the first group: breaking one makes its run fail. The
// second group (from RuleIDs on) is only in the specification.
const (
	RuleFirst     Rule = "first"        // RUN_STARTED or RUN_ERROR comes first
	RuleActive    Rule = "active"       // no RUN_STARTED while a run is active
	RuleEnded     Rule = "ended"        // after RUN_ERROR only RUN_STARTED; after RUN_FINISHED also RUN_ERROR
	RuleText      Rule = "text"         // START on a message that is not open; CONTENT and END on one that is
	RuleCall      Rule = "call"         // the same for tool calls
	RuleReasoning Rule = "reasoning"    // the same for reasoning spans and for reasoning messages
	RuleStep      Rule = "step"         // the same for steps, by owner and name
	RuleOpen      Rule = "open"         // nothing is open at RUN_FINISHED
	RuleSubagent  Rule = "subagent"     // started once, with a known parent; ended while active
	RuleOwner     Rule = "owner"        // an event's subagentRunId is that of the item it continues
	RuleChunk     Rule = "chunk"        // no chunk events: servers send separate start, content and end events
	RuleIDs       Rule = "ids"          // RUN_FINISHED names the run and thread of RUN_STARTED
	RuleThread    Rule = "thread"       // all runs of a stream belong to one thread
	RuleInterrupt Rule = "interrupt-id" // interrupt ids are unique in a thread
	RuleMessage   Rule = "message-id"   // message ids are unique in a thread
	RuleResult    Rule = "result"       // a result belongs to a call that exists and is complete
	RuleTruncated Rule = "truncated"    // a stream ends with RUN_FINISHED or RUN_ERROR
)

// OrderError says which rule an event broke. The rest of the stream cannot be used.
type OrderError struct {
	Rule  Rule
	Event EventType // "" at the end of the stream
	What  string
}

// Error names the event, the fault and the rule.
func (e *OrderError) Error() string {
	return fmt.Sprintf("check AG-UI stream: %s: %s (rule %s)", e.Event, e.What, e.Rule)
}

func orderError(rule Rule, e Event, format string, args ...any) error {
	return &OrderError{Rule: rule, Event: TypeOf(e), What: fmt.Sprintf(format, args...)}
}

// owner says whose work an item is: a subagent's or, if untagged, the agent's own.
type owner struct {
	tagged bool
	id     string
}

func ownerOf(tag *string) owner {
	if tag == nil {
		return owner{}
	}
	return owner{true, *tag}
}

func (o owner) String() string {
	if !o.tagged {
		return "the agent itself"
	}
	return fmt.Sprintf("subagent %.60q", o.id)
}

// tagOf returns the subagentRunId of an event, if it has one.
func tagOf(e Event) *string {
	if t, ok := e.(interface{ tag() *string }); ok {
		return t.tag()
	}
	return nil
}

func (t *Tagged) tag() *string { return t.SubagentRunID }

// valueOr returns the value of an optional member, or what its absence means.
func valueOr[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}
