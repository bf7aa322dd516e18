package agui

import "fmt"

// Rule names a rule about the order of events.
type Rule string

// The rules. Those of the first group are enforced by the 1.0 client: breaking
// one makes its run fail. Those of the second stand in the specification alone.
const (
	RuleFirst     Rule = "first"        // RUN_STARTED or RUN_ERROR comes first
	RuleActive    Rule = "active"       // no RUN_STARTED while a run is active
	RuleEnded     Rule = "ended"        // after RUN_ERROR only RUN_STARTED; after RUN_FINISHED also RUN_ERROR
	RuleText      Rule = "text"         // START on a message that is not open; CONTENT and END on one that is
	RuleCall      Rule = "call"         // the same for tool calls
	RuleReasoning Rule = "reasoning"    // the same for reasoning spans and messages, which are apart
	RuleStep      Rule = "step"         // the same for steps, by owner and name
	RuleOpen      Rule = "open"         // nothing is open at RUN_FINISHED
	RuleSubagent  Rule = "subagent"     // started once, with a known parent; ended while active
	RuleOwner     Rule = "owner"        // an event's subagentRunId is that of the item it goes on with
	RuleChunk     Rule = "chunk"        // a first chunk names its item, a later one does not contradict it
	RuleIDs       Rule = "ids"          // RUN_FINISHED names the run and thread of RUN_STARTED
	RuleThread    Rule = "thread"       // all runs of a stream are of one thread
	RuleInterrupt Rule = "interrupt-id" // interrupt ids are unique in a thread
	RuleMessage   Rule = "message-id"   // message ids are unique in a thread
	RuleResult    Rule = "result"       // a result is of a call that exists and is complete
	RuleTruncated Rule = "truncated"    // a stream ends with RUN_FINISHED or RUN_ERROR
)

// OrderError says which rule an event broke. The stream is of no use from there
// on.
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

// owner is whose work an item is: a subagent's, or, untagged, the agent's own.
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

// tagOf is the subagentRunId of an event that may have one.
func tagOf(e Event) *string {
	if t, ok := e.(interface{ tag() *string }); ok {
		return t.tag()
	}
	return nil
}

func (t *Tagged) tag() *string { return t.SubagentRunID }
