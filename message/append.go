package message

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/askance-dev/askance/message/internal/weburl"
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

func (c Codec) apply(m *Msg, e Event) (err error) {
	switch e := e.(type) {
	case *ReplyStart, *ModelCallStart, *ExceedMaxIters, *UserInterrupt, *Custom: // these do not affect the message
	case *UnknownEvent:
		c.skip(e, "its type is unknown")
	case *ReplyEnd:
		endReply(m, e)
	case *ModelCallEnd:
		err = addUsage(m, e)
	case *TextBlockStart:
		m.Content = append(m.Content, &TextBlock{ID: e.BlockID, CreatedAt: c.stamp(e)})
	case *TextBlockDelta:
		with(c, m, e, e.BlockID, func(b *TextBlock) { b.Text += e.Delta })
	case *TextBlockEnd:
		with(c, m, e, e.BlockID, func(b *TextBlock) { b.FinishedAt = endTime(e) })
	case *ThinkingBlockStart:
		m.Content = append(m.Content, &ThinkingBlock{ID: e.BlockID, CreatedAt: c.stamp(e)})
	case *ThinkingBlockDelta:
		with(c, m, e, e.BlockID, func(b *ThinkingBlock) { b.Thinking += e.Delta })
	case *ThinkingBlockEnd:
		with(c, m, e, e.BlockID, func(b *ThinkingBlock) { b.FinishedAt = endTime(e) })
	case *HintBlockEvent:
		at := c.stamp(e)
		m.Content = append(m.Content, &HintBlock{
			Hint: e.Hint.Clone(), ID: e.BlockID, Source: clonePtr(e.Source), CreatedAt: at, FinishedAt: &at,
		})
	case *DataBlockStart:
		m.Content = append(m.Content, &DataBlock{
			ID: e.BlockID, Source: &Base64Source{MediaType: e.MediaType}, CreatedAt: c.stamp(e),
		})
	case *DataBlockDelta:
		with(c, m, e, e.BlockID, func(b *DataBlock) { err = appendData(b, e.Data) })
	case *DataBlockEnd:
		with(c, m, e, e.BlockID, func(b *DataBlock) { b.FinishedAt = endTime(e) })
	case *ToolCallStart:
		m.Content = append(m.Content, &ToolCallBlock{
			ID: e.ToolCallID, Name: e.ToolCallName, State: ToolCallPending, CreatedAt: c.stamp(e),
		})
	case *ToolCallDelta:
		with(c, m, e, string(e.ToolCallID), func(b *ToolCallBlock) { b.Input += e.Delta })
	case *ToolCallEnd:
		with(c, m, e, string(e.ToolCallID), func(b *ToolCallBlock) { b.FinishedAt = endTime(e) })
	case *RequireUserConfirm:
		for _, call := range e.ToolCalls {
			with(c, m, e, string(call.ID), func(b *ToolCallBlock) {
				b.State, b.SuggestedRules = ToolCallAsking, cloneRules(call.SuggestedRules)
			})
		}
	case *UserConfirmResult:
		for _, r := range e.ConfirmResults {
			with(c, m, e, string(r.ToolCall.ID), func(b *ToolCallBlock) { c.answer(b, e, r.Confirmed) })
		}
	case *RequireExternalExecution:
		for _, call := range e.ToolCalls {
			with(c, m, e, string(call.ID), func(b *ToolCallBlock) { b.State = ToolCallSubmitted })
		}
	case *ToolResultStart:
		m.Content = append(m.Content, &ToolResultBlock{
			ID: e.ToolCallID, Name: e.ToolCallName, Output: List(), State: ToolResultRunning, CreatedAt: c.stamp(e),
		})
	case *ToolResultTextDelta:
		with(c, m, e, string(e.ToolCallID), func(b *ToolResultBlock) { c.appendText(b, e) })
	case *ToolResultDataDelta:
		with(c, m, e, string(e.ToolCallID), func(b *ToolResultBlock) { err = c.appendBlock(b, e) })
	case *ToolResultEnd:
		if !e.State.Valid() {
			return fmt.Errorf("%w: state %q is not one of %s", ErrInvalid, e.State, e.State.words())
		}
		with(c, m, e, string(e.ToolCallID), func(b *ToolResultBlock) {
			b.State, b.Metadata, b.FinishedAt = e.State, cloneMap(e.Metadata), endTime(e)
			if call := m.ToolCall(e.ToolCallID); call != nil {
				call.State = ToolCallFinished
			}
		})
	case *ExternalExecutionResult:
		c.appendResults(m, e)
	default:
		err = fmt.Errorf("%T is not an event of this package", e)
	}
	return err
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

// appendData appends the bytes of a base64 text to a block.
func appendData(b *DataBlock, chunk string) error {
	if chunk == "" {
		return nil
	}
	src, ok := b.Source.(*Base64Source)
	if !ok {
		return fmt.Errorf("data block %q: %w", b.ID, ErrURLSource)
	}
	joined, err := joinBase64(src.Data, chunk)
	if err != nil {
		return fmt.Errorf("data block %q: %w", b.ID, err)
	}
	src.Data = joined
	return nil
}

// with calls f with the first block of its type with that id, or reports that there is none.
func with[B Block](c Codec, m *Msg, e Event, id string, f func(B)) {
	for _, b := range m.Content {
		if t, ok := b.(B); ok && b.BlockID() == id {
			f(t)
			return
		}
	}
	var none B
	c.skip(e, fmt.Sprintf("the message has no %s block %q", none.Type(), id))
}

// joinBase64 decodes two base64 texts, each with its own padding, and encodes their bytes
// as one.
func joinBase64(a, b string) (string, error) {
	bytes, err := decodeBase64(nil, a)
	if err != nil {
		return "", fmt.Errorf("the existing data is %w", err)
	}
	if bytes, err = decodeBase64(bytes, b); err != nil {
		return "", fmt.Errorf("the chunk is %w", err)
	}
	return base64.StdEncoding.EncodeToString(bytes), nil
}

// decodeBase64 appends the bytes of s as Python's lenient decoder reads them: ASCII
// characters outside the standard alphabet (including line ends, - and _) are dropped,
// everything after complete padding is ignored, and missing padding or text that is not
// ASCII is an error.
func decodeBase64(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return nil, fmt.Errorf("%w: byte %d is not ASCII", ErrNotBase64, i)
		}
	}
	kept, pads := make([]byte, 0, len(s)), 0 // the characters of the alphabet, and the padding right after them
	for i := range len(s) {
		switch ends := len(kept) % 4; {
		case strings.IndexByte(alphabet, s[i]) >= 0:
			kept, pads = append(kept, s[i]), 0
		case s[i] == '=' && ends >= 2:
			if pads++; ends+pads == 4 {
				return base64.RawStdEncoding.AppendDecode(dst, kept)
			}
		}
	}
	switch len(kept) % 4 {
	case 0:
		return base64.RawStdEncoding.AppendDecode(dst, kept)
	case 1:
		return nil, fmt.Errorf("%w: one character is left over", ErrNotBase64)
	default:
		return nil, fmt.Errorf("%w: the padding is missing", ErrNotBase64)
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// answer moves a call that is asking. An answer to any other call is stale: an interrupt
// came first, or the same answer came twice.
func (c Codec) answer(b *ToolCallBlock, e Event, confirmed bool) {
	switch {
	case b.State != ToolCallAsking:
		c.skip(e, "call "+string(b.ID)+" is "+string(b.State)+", not asking")
	case confirmed:
		b.State = ToolCallAllowed
	default:
		b.State = ToolCallFinished
	}
}

// appendText appends to the output's last block if that is text.
func (c Codec) appendText(b *ToolResultBlock, e *ToolResultTextDelta) {
	blocks := c.outputList(b, e)
	if n := len(blocks); n > 0 {
		if last, ok := blocks[n-1].(*TextBlock); ok {
			last.Text += e.Delta
			b.Output = List(blocks...)
			return
		}
	}
	b.Output = List(append(blocks, &TextBlock{Text: e.Delta, ID: c.blockID(e), CreatedAt: c.stamp(e)})...)
}

// appendBlock always makes a new block, even if one with that id exists.
func (c Codec) appendBlock(b *ToolResultBlock, e *ToolResultDataDelta) error {
	if err := e.verify(); err != nil {
		return err
	}
	var src Source
	if e.Data != nil {
		src = &Base64Source{Data: *e.Data, MediaType: e.MediaType}
	} else {
		u, err := weburl.Normalize(*e.URL)
		if err != nil {
			return err
		}
		src = &URLSource{URL: u, MediaType: e.MediaType}
	}
	block := &DataBlock{ID: e.BlockID, Source: src, CreatedAt: c.stamp(e)}
	b.Output = List(append(c.outputList(b, e), block)...)
	return nil
}

// outputList returns the output as a list. A string, even an empty one, becomes one text
// block.
func (c Codec) outputList(b *ToolResultBlock, e Event) []Block {
	if b.Output.IsList() {
		return b.Output.Blocks
	}
	return []Block{&TextBlock{Text: b.Output.Text, ID: c.blockID(e), CreatedAt: c.stamp(e)}}
}

// appendResults adds every result whose call had none before this event; two new ones for
// the same call are both kept.
func (c Codec) appendResults(m *Msg, e *ExternalExecutionResult) {
	had := map[CallID]bool{}
	for _, b := range BlocksOf[*ToolResultBlock](m) {
		had[b.ID] = true
	}
	for i := range e.ExecutionResults {
		r := &e.ExecutionResults[i]
		if had[r.ID] {
			c.skip(e, "call "+string(r.ID)+" already has a result")
			continue
		}
		b := r.clone()
		if b.FinishedAt == nil {
			b.FinishedAt = endTime(e)
		}
		m.Content = append(m.Content, b)
	}
}
