package agui

// Verifier checks the order of a stream's events, which have no chunks. The zero value applies
// the rules that the 1.0 client enforces; Strict adds the further rules of the
// specification. Each stream needs its own Verifier; it is not safe for concurrent use.
type Verifier struct {
	// Strict adds the rules from [RuleIDs] to [RuleTruncated]. A result for a call of an
	// earlier run of the thread needs [Verifier.Seed].
	Strict bool

	err     error
	first   bool // whether an event was seen
	started *RunStarted
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
func (v *Verifier) Seed(history []Message) {
	v.init()
	v.recordOwners(history, false)
}

// Check checks the next event. The error is an *[OrderError]; later calls return it again,
// because the client's run has failed.
func (v *Verifier) Check(e Event) error {
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

func (v *Verifier) check(e Event) error {
	if err := v.run(e); err != nil {
		return err
	}
	switch e := e.(type) {
	case *RunStarted:
		return v.begin(e)
	case *RunFinished:
		return v.finish(e)
	case *RunError:
		v.phase = phaseFailed
	case *StepStarted, *StepFinished:
		return v.step(e)
	case *SubagentStarted, *SubagentFinished, *SubagentError:
		return v.subagent(e)
	case *MessagesSnapshot:
		v.recordOwners(e.Messages, true)
	case *TextMessageChunk, *ToolCallChunk, *ReasoningMessageChunk:
		return orderError(RuleChunk, e, "a chunk replaces the events of an item")
	default:
		return v.item(e)
	}
	return nil
}

// run checks which events may come in the current phase.
func (v *Verifier) run(e Event) error {
	_, starts := e.(*RunStarted)
	_, fails := e.(*RunError)
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

func (v *Verifier) begin(e *RunStarted) error {
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

func (v *Verifier) finish(e *RunFinished) error {
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

func (v *Verifier) step(e Event) error {
	at := step{owner: ownerOf(tagOf(e))}
	if s, ok := e.(*StepFinished); ok {
		at.name = s.StepName
		if !v.steps[at] {
			return orderError(RuleStep, e, "step %.60q of %s is not open", at.name, at.owner)
		}
		delete(v.steps, at)
		return nil
	}
	if s, ok := e.(*StepStarted); ok {
		at.name = s.StepName
	}
	if v.steps[at] {
		return orderError(RuleStep, e, "step %.60q of %s is already open", at.name, at.owner)
	}
	v.steps[at] = true
	return nil
}

func (v *Verifier) subagent(e Event) error {
	var id string
	switch e := e.(type) {
	case *SubagentStarted:
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
	case *SubagentFinished:
		id = e.SubagentRunID
	case *SubagentError:
		id = e.SubagentRunID
	default:
	}
	if !v.subagents[id] {
		return orderError(RuleSubagent, e, "%.60q is not active", id)
	}
	v.subagents[id] = false
	return nil
}
