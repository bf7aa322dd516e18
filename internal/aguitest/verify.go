package aguitest

import (
	"fmt"

	"github.com/askance-dev/askance/message/agui"
)

// Verifier checks the order of a stream's events, which have no chunks. The zero value applies
// the rules that the 1.0 client enforces; Strict adds the further rules of the
// specification. Each stream needs its own Verifier; it is not safe for concurrent use.
type Verifier struct {
	// Strict adds the rules from [RuleIDs] to [RuleTruncated]. A result for a call of an
	// earlier run of the thread needs [Verifier.Seed].
	Strict bool

	err     error
	first   bool // whether an event was seen
	started *agui.RunStarted
	phase   phase

	open      map[item]bool
	steps     map[step]bool
	owners    map[item]owner
	subagents map[string]bool // true while active

	calls      map[string]bool // of the whole stream; true once complete
	texts      map[string]bool // used message ids
	interrupts map[string]bool
}

// phase is the phase of the current run.
type phase uint8

const (
	phaseNone phase = iota // before the first run
	phaseActive
	phaseFinished
	phaseFailed
)

// item is something that an id identifies. Ids are unique within a kind.
type item struct {
	kind itemKind
	id   string
}

type itemKind string

const (
	itemText     itemKind = "text message"
	itemCall     itemKind = "tool call"
	itemActivity itemKind = "activity"
	itemSpan     itemKind = "reasoning span"
	itemThought  itemKind = "reasoning message"
)

// step includes its owner, because a subagent may have a step with the same name.
type step struct {
	owner owner
	name  string
}

// Seed adds the conversation so far, from the run's input.
func (v *Verifier) Seed(history []agui.Message) {
	v.init()
	v.recordOwners(history, false)
}

// Check checks the next event. The error is an *[OrderError]; later calls return it again,
// because the client's run has failed.
func (v *Verifier) Check(e agui.Event) error {
	if v.err != nil {
		return v.err
	}
	v.init()
	v.err = v.check(e)
	return v.err
}

// Close checks that the stream may end here: after RUN_FINISHED or RUN_ERROR.
func (v *Verifier) Close() error {
	if v.err == nil && v.phase != phaseFinished && v.phase != phaseFailed {
		v.err = &OrderError{Rule: RuleTruncated, What: "the stream ends without RUN_FINISHED or RUN_ERROR"}
	}
	return v.err
}

func (v *Verifier) init() {
	if v.open == nil {
		v.reset()
		v.calls, v.texts, v.interrupts = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
}

// reset begins a run with nothing open.
func (v *Verifier) reset() {
	v.open, v.steps = map[item]bool{}, map[step]bool{}
	v.owners, v.subagents = map[item]owner{}, map[string]bool{}
}

func (v *Verifier) check(e agui.Event) error {
	if err := v.run(e); err != nil {
		return err
	}
	switch e := e.(type) {
	case *agui.RunStarted:
		return v.begin(e)
	case *agui.RunFinished:
		return v.finish(e)
	case *agui.RunError:
		v.phase = phaseFailed
	case *agui.StepStarted, *agui.StepFinished:
		return v.step(e)
	case *agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError:
		return v.subagent(e)
	case *agui.MessagesSnapshot:
		v.recordOwners(e.Messages, true)
	case *agui.TextMessageChunk, *agui.ToolCallChunk, *agui.ReasoningMessageChunk:
		return orderError(RuleChunk, e, "a chunk replaces the events of an item")
	default:
		return v.item(e)
	}
	return nil
}

// run checks which events may come in the current phase.
func (v *Verifier) run(e agui.Event) error {
	_, starts := e.(*agui.RunStarted)
	_, fails := e.(*agui.RunError)
	switch {
	case !v.first && !starts && !fails:
		return orderError(RuleFirst, e, "the first event is neither RUN_STARTED nor RUN_ERROR")
	case starts && v.phase == phaseActive:
		return orderError(RuleActive, e, "a run is still active")
	case !starts && v.phase == phaseFailed, !starts && !fails && v.phase == phaseFinished:
		return orderError(RuleEnded, e, "the run has ended")
	}
	v.first = true
	return nil
}

func (v *Verifier) begin(e *agui.RunStarted) error {
	if v.Strict && v.started != nil && v.started.ThreadID != e.ThreadID {
		return orderError(RuleThread, e, "thread %.60q in a stream of thread %.60q", e.ThreadID, v.started.ThreadID)
	}
	if v.phase != phaseNone {
		v.reset()
	}
	v.started, v.phase = e, phaseActive
	if e.Input != nil {
		v.recordOwners(e.Input.Messages, false)
	}
	return nil
}

func (v *Verifier) finish(e *agui.RunFinished) error {
	for s := range v.steps {
		return orderError(RuleOpen, e, "step %.60q of %s is open", s.name, s.owner)
	}
	for i := range v.open {
		return orderError(RuleOpen, e, "%s %.60q is open", i.kind, i.id)
	}
	for id, active := range v.subagents {
		if active {
			return orderError(RuleOpen, e, "subagent %.60q is active", id)
		}
	}
	v.phase = phaseFinished
	if !v.Strict {
		return nil
	}
	if e.ThreadID != v.started.ThreadID || e.RunID != v.started.RunID {
		return orderError(RuleIDs, e, "run %.60q of thread %.60q is not the one that was started", e.RunID, e.ThreadID)
	}
	if e.Outcome == nil {
		return nil
	}
	for _, i := range e.Outcome.Interrupts {
		if v.interrupts[i.ID] {
			return orderError(RuleInterrupt, e, "interrupt id %.60q was used before", i.ID)
		}
		v.interrupts[i.ID] = true
	}
	return nil
}

func (v *Verifier) step(e agui.Event) error {
	at := step{owner: ownerOf(tagOf(e))}
	if s, ok := e.(*agui.StepFinished); ok {
		at.name = s.StepName
		if !v.steps[at] {
			return orderError(RuleStep, e, "step %.60q of %s is not open", at.name, at.owner)
		}
		delete(v.steps, at)
		return nil
	}
	if s, ok := e.(*agui.StepStarted); ok {
		at.name = s.StepName
	}
	if v.steps[at] {
		return orderError(RuleStep, e, "step %.60q of %s is already open", at.name, at.owner)
	}
	v.steps[at] = true
	return nil
}

func (v *Verifier) subagent(e agui.Event) error {
	var id string
	switch e := e.(type) {
	case *agui.SubagentStarted:
		if _, known := v.subagents[e.SubagentRunID]; known {
			return orderError(RuleSubagent, e, "%.60q was started before", e.SubagentRunID)
		}
		if p := e.ParentSubagentRunID; p != nil {
			if _, known := v.subagents[*p]; !known {
				return orderError(RuleSubagent, e, "its parent %.60q was not started", *p)
			}
		}
		v.subagents[e.SubagentRunID] = true
		return nil
	case *agui.SubagentFinished:
		id = e.SubagentRunID
	case *agui.SubagentError:
		id = e.SubagentRunID
	default:
	}
	if !v.subagents[id] {
		return orderError(RuleSubagent, e, "%.60q is not active", id)
	}
	v.subagents[id] = false
	return nil
}

// item checks the events of messages, calls, activities and reasoning.
func (v *Verifier) item(e agui.Event) error {
	switch e := e.(type) {
	case *agui.TextMessageStart:
		return v.startMessage(e, RuleText, item{itemText, e.MessageID})
	case *agui.TextMessageContent:
		return v.continueItem(e, RuleText, item{itemText, e.MessageID}, false)
	case *agui.TextMessageEnd:
		return v.continueItem(e, RuleText, item{itemText, e.MessageID}, true)
	case *agui.ToolCallStart:
		return v.startCall(e)
	case *agui.ToolCallArgs:
		return v.continueItem(e, RuleCall, item{itemCall, e.ToolCallID}, false)
	case *agui.ToolCallEnd:
		v.calls[e.ToolCallID] = true
		return v.continueItem(e, RuleCall, item{itemCall, e.ToolCallID}, true)
	case *agui.ToolCallResult:
		return v.result(e)
	case *agui.ReasoningStart:
		return v.start(e, RuleReasoning, item{itemSpan, e.MessageID})
	case *agui.ReasoningEnd:
		return v.continueItem(e, RuleReasoning, item{itemSpan, e.MessageID}, true)
	case *agui.ReasoningMessageStart:
		return v.startMessage(e, RuleReasoning, item{itemThought, e.MessageID})
	case *agui.ReasoningMessageContent:
		return v.continueItem(e, RuleReasoning, item{itemThought, e.MessageID}, false)
	case *agui.ReasoningMessageEnd:
		return v.continueItem(e, RuleReasoning, item{itemThought, e.MessageID}, true)
	default:
		return v.checkOwnerOnly(e)
	}
}

// checkOwnerOnly checks events that open and close nothing but have an owner.
func (v *Verifier) checkOwnerOnly(e agui.Event) error {
	switch e := e.(type) {
	case *agui.ActivitySnapshot:
		at := item{itemActivity, e.MessageID}
		if _, known := v.owners[at]; !known || e.Replace == nil || *e.Replace {
			v.owners[at] = ownerOf(e.SubagentRunID)
		}
	case *agui.ActivityDelta:
		return v.checkOwner(e, item{itemActivity, e.MessageID})
	case *agui.ReasoningEncryptedValue:
		if e.Subtype == agui.EncryptedToolCall {
			return v.checkOwner(e, item{itemCall, e.EntityID})
		}
		if _, text := v.owners[item{itemText, e.EntityID}]; text {
			return v.checkOwner(e, item{itemText, e.EntityID})
		}
		return v.checkOwner(e, item{itemThought, e.EntityID})
	default: // state, raw and custom events have no item
	}
	return nil
}

// ownerKey returns the item under which an owner is recorded: a reasoning span and a reasoning
// message with the same id have the same owner.
func ownerKey(at item) item {
	if at.kind == itemSpan {
		at.kind = itemThought
	}
	return at
}

// checkOwner checks that a tagged event does not contradict the recorded owner.
func (v *Verifier) checkOwner(e agui.Event, at item) error {
	tag := ownerOf(tagOf(e))
	if have, known := v.owners[ownerKey(at)]; known && tag.tagged && tag != have {
		return orderError(RuleOwner, e, "%s continues %s %.60q of %s", tag, at.kind, at.id, have)
	}
	return nil
}

func (v *Verifier) start(e agui.Event, rule Rule, at item) error {
	if v.open[at] {
		return orderError(rule, e, "%s %.60q is already open", at.kind, at.id)
	}
	if err := v.checkOwner(e, at); err != nil {
		return err
	}
	v.open[at] = true
	if _, known := v.owners[ownerKey(at)]; !known {
		v.owners[ownerKey(at)] = ownerOf(tagOf(e))
	}
	return nil
}

func (v *Verifier) continueItem(e agui.Event, rule Rule, at item, last bool) error {
	if !v.open[at] {
		return orderError(rule, e, "%s %.60q is not open", at.kind, at.id)
	}
	if last {
		delete(v.open, at)
	}
	return v.checkOwner(e, at)
}

func (v *Verifier) startMessage(e agui.Event, rule Rule, at item) error {
	if err := v.start(e, rule, at); err != nil {
		return err
	}
	return v.checkFreshID(e, at.id)
}

// checkFreshID checks that a message id has not been used.
func (v *Verifier) checkFreshID(e agui.Event, id string) error {
	if v.Strict && v.texts[id] {
		return orderError(RuleMessage, e, "message id %.60q was used before", id)
	}
	v.texts[id] = true
	return nil
}

// startCall also checks a call against its parent message: a call has the owner of the
// message that contains it.
func (v *Verifier) startCall(e *agui.ToolCallStart) error {
	at, tag := item{itemCall, e.ToolCallID}, ownerOf(e.SubagentRunID)
	have, known := v.owners[at]
	parent, inherits := owner{}, false
	if e.ParentMessageID != nil {
		parent, inherits = v.owners[item{itemText, *e.ParentMessageID}]
	}
	if inherits && tag.tagged && tag != parent {
		return orderError(RuleOwner, e, "%s calls within a message of %s", tag, parent)
	}
	if err := v.start(e, RuleCall, at); err != nil {
		return err
	}
	if inherits && !tag.tagged {
		if known && have != parent {
			return orderError(RuleOwner, e, "a call of %s within a message of %s", have, parent)
		}
		v.owners[at] = parent
	}
	v.calls[e.ToolCallID] = false
	return nil
}

func (v *Verifier) result(e *agui.ToolCallResult) error {
	v.owners[item{itemText, e.MessageID}] = ownerOf(e.SubagentRunID)
	if complete, known := v.calls[e.ToolCallID]; v.Strict && !complete {
		return orderError(RuleResult, e, "call %.60q does not have complete arguments (known: %t)", e.ToolCallID, known)
	}
	return v.checkFreshID(e, e.MessageID)
}

// recordOwners records the owners of a history's messages. A snapshot overrides recorded
// owners, an echoed input does not.
func (v *Verifier) recordOwners(history []agui.Message, authority bool) {
	set := func(at item, o owner) {
		if _, known := v.owners[at]; authority || !known {
			v.owners[at] = o
		}
	}
	for _, m := range history {
		kind, o := itemText, ownerOf(m.SubagentRunID)
		switch m.Role {
		case agui.RoleReasoning:
			kind = itemThought
		case agui.RoleActivity:
			kind = itemActivity
		default:
		}
		set(item{kind, m.ID}, o)
		v.texts[m.ID] = true
		for _, c := range m.ToolCalls {
			set(item{itemCall, c.ID}, o)
			v.calls[c.ID] = true
		}
	}
}

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
	Event agui.EventType // "" at the end of the stream
	What  string
}

// Error names the event, the fault and the rule.
func (e *OrderError) Error() string {
	return fmt.Sprintf("check AG-UI stream: %s: %s (rule %s)", e.Event, e.What, e.Rule)
}

func orderError(rule Rule, e agui.Event, format string, args ...any) error {
	return &OrderError{Rule: rule, Event: agui.TypeOf(e), What: fmt.Sprintf(format, args...)}
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
