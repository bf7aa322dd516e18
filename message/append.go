package message

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// The reasons why Append refuses an event. The error is an [*Error] with CodeInvalid that
// wraps one of these.
var (
	ErrNoReply   = errors.New("the event belongs to no reply") // CUSTOM: filter it out
	ErrNotBase64 = errors.New("not base64")
	ErrURLSource = errors.New("cannot append bytes to a data block with a url source")
	ErrOverflow  = errors.New("token counters overflow")
)

// Append is Codec.Append with the zero Codec.
func Append(m *Msg, e Event) error { return Codec{}.Append(m, e) }

// Append applies one event to the message that it builds. The rules are AgentScope's,
// including the odd ones:
//
//   - an event of another reply, or about a missing block, is skipped (see Codec.OnSkip);
//   - blocks are found by type and id, and the first one is used, so a second START with the
//     same id makes a block that never gets a delta;
//   - deltas after END are applied, and another END updates finished_at;
//   - REQUIRE_USER_CONFIRM and REQUIRE_EXTERNAL_EXECUTION move a call from any state,
//     USER_CONFIRM_RESULT only one that is asking;
//   - the role rule is not checked.
//
// On error the message is unchanged. Append copies what it needs from the event; the two
// share nothing afterwards.
func (c Codec) Append(m *Msg, e Event) error {
	if m == nil || e == nil {
		return Errorf(CodeInvalid, "append event", "there is no message or no event")
	}
	if e.Type() == EventCustom {
		return Errorf(CodeInvalid, "append event", "%s %s: %w: leave CUSTOM events out of a replay", e.Type(), e.Header().ID, ErrNoReply)
	}
	if string(e.ReplyID()) != m.ID && e.Type().Known() {
		c.skip(e, fmt.Sprintf("it belongs to reply %q, the message is %q", e.ReplyID(), m.ID))
		return nil
	}
	if err := c.apply(m, e); err != nil {
		return Errorf(CodeInvalid, "append event", "%s %s: %w", e.Type(), e.Header().ID, err)
	}
	return nil
}

func (c Codec) skip(e Event, why string) {
	if c.OnSkip != nil {
		c.OnSkip(e, why)
	}
}

func (c Codec) apply(m *Msg, e Event) error {
	switch e := e.(type) {
	case *ReplyStart, *ModelCallStart, *ExceedMaxIters, *UserInterrupt, *Custom:
		return nil // these do not affect the message
	case *UnknownEvent:
		c.skip(e, "its type is unknown")
		return nil
	case *ReplyEnd:
		endReply(m, e)
		return nil
	case *ModelCallEnd:
		return addUsage(m, e)
	case *TextBlockStart, *TextBlockDelta, *TextBlockEnd,
		*ThinkingBlockStart, *ThinkingBlockDelta, *ThinkingBlockEnd, *HintBlockEvent:
		c.applyBlock(m, e)
		return nil
	case *DataBlockStart, *DataBlockDelta, *DataBlockEnd:
		return c.applyData(m, e)
	case *ToolCallStart, *ToolCallDelta, *ToolCallEnd,
		*RequireUserConfirm, *UserConfirmResult, *RequireExternalExecution:
		c.applyCall(m, e)
		return nil
	case *ToolResultStart, *ToolResultTextDelta, *ToolResultDataDelta, *ToolResultEnd, *ExternalExecutionResult:
		return c.applyResult(m, e)
	default:
		return fmt.Errorf("%T is not an event of this package", e)
	}
}

// stamp returns the created_at of a block that an event makes.
func (c Codec) stamp(e Event) string {
	if at := e.Header().CreatedAt; at != "" && !c.ReplayStamps {
		return at
	}
	return c.now()
}

// blockID returns the id of a block that an event makes without naming it. An event makes at
// most one such block, so its own id can be used.
func (c Codec) blockID(e Event) string {
	if id := e.Header().ID; id != "" && !c.ReplayStamps {
		return id
	}
	return c.newID()
}

// endTime returns the finished_at that an event sets.
func endTime(e Event) *string { return new(e.Header().CreatedAt) }

// endReply may run several times; the last end counts, and replaces the error of an earlier
// one.
func endReply(m *Msg, e *ReplyEnd) {
	m.FinishedAt = endTime(e)
	reason := cmp.Or(e.FinishedReason, FinishedCompleted)
	m.FinishedReason = &reason
	m.Error = clonePtr(e.Error)
}

// addUsage adds all four counters or none of them.
func addUsage(m *Msg, e *ModelCallEnd) error {
	var sum Usage
	if m.Usage != nil {
		sum = *m.Usage
	}
	for _, c := range []struct {
		total *int64
		more  int64
	}{
		{&sum.InputTokens, e.InputTokens},
		{&sum.OutputTokens, e.OutputTokens},
		{&sum.CacheInputTokens, e.CacheInputTokens},
		{&sum.CacheCreationInputTokens, e.CacheCreationInputTokens},
	} {
		if (c.more > 0 && *c.total > math.MaxInt64-c.more) || (c.more < 0 && *c.total < math.MinInt64-c.more) {
			return ErrOverflow
		}
		*c.total += c.more
	}
	m.Usage = &sum
	return nil
}
