package message

import (
	"fmt"

	"github.com/askance-dev/askance/message/internal/weburl"
)

func (c Codec) applyCall(m *Msg, e Event) {
	switch e := e.(type) {
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
	default: // handled elsewhere
	}
}

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

func (c Codec) applyResult(m *Msg, e Event) (err error) {
	switch e := e.(type) {
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
	default: // handled elsewhere
	}
	return err
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
