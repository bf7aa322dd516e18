package blocktest

import (
	"fmt"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

// Checker checks that frames come in an order that clients can read: a turn is message_start,
// blocks, message_delta, message_stop; one block is open at a time; indices run 0, 1, … in
// each turn; deltas match their block; blocks that are sent whole have none; file_processing
// comes first; a call's id is used once per turn, before its result; a result is announced
// only for an approval that was asked. Frames outside turns (connected, error, …) may come at
// any time. The zero value expects a message_start.
type Checker struct {
	in    bool // whether a turn is open
	delta bool // whether its message_delta has come
	next  int
	open  blockstream.ContentBlock
	got   int // number of deltas of the open block
	calls map[message.CallID]int
}

// Frame checks the next frame.
func (c *Checker) Frame(f blockstream.Frame) error {
	if why := c.wrong(f); why != "" {
		return message.Errorf(message.CodeInvalid, "check frames", "%s: %s", blockstream.FrameTypeOf(f), why)
	}
	return nil
}

// Done reports whether every turn and block is closed.
func (c *Checker) Done() bool { return !c.in }

func (c *Checker) wrong(f blockstream.Frame) string {
	switch f := f.(type) {
	case *blockstream.MessageStart:
		if c.in {
			return "the turn before is open"
		}
		*c = Checker{in: true, calls: map[message.CallID]int{}}
		return ""
	case *blockstream.MessageDelta:
		if !c.in || c.delta || c.open != nil {
			return "not at the end of a turn"
		}
		c.delta = true
		return ""
	case *blockstream.MessageStop:
		if !c.delta {
			return "before message_delta"
		}
		c.in, c.delta = false, false
		return ""
	case *blockstream.BlockStart:
		return c.start(f)
	case *blockstream.BlockDelta:
		if c.open == nil || f.Index != c.next-1 {
			return fmt.Sprintf("block %d is not open", f.Index)
		}
		c.got++
		return fits(c.open, f.Delta, c.got)
	case *blockstream.BlockStop:
		if c.open == nil || f.Index != c.next-1 {
			return fmt.Sprintf("block %d is not open", f.Index)
		}
		if f.Final && blockstream.BlockTypeOf(c.open) != blockstream.BlockText {
			return "is_final of a block that is not text"
		}
		c.open = nil
		return ""
	case *blockstream.Connected, *blockstream.AuthOK, *blockstream.Subscribed, *blockstream.Pong, *blockstream.Error:
		return ""
	case *blockstream.Header:
	}
	return "the frame is nil"
}

func (c *Checker) start(f *blockstream.BlockStart) string {
	switch {
	case !c.in || c.delta:
		return "outside a turn"
	case c.open != nil:
		return fmt.Sprintf("block %d is open", c.next-1)
	case f.Index != c.next:
		return fmt.Sprintf("index %d, want %d", f.Index, c.next)
	case f.Block == nil:
		return "the block is nil"
	}
	c.open, c.got = f.Block, 0
	c.next++
	switch b := f.Block.(type) {
	case *blockstream.FileProcessing:
		if f.Index != 0 {
			return "file_processing is not the first block"
		}
	case *blockstream.ToolUse:
		if c.calls[b.ID] > 0 {
			return fmt.Sprintf("a second call, or one after its result, with the id %.60q", string(b.ID))
		}
		c.calls[b.ID] = 1
	case *blockstream.ToolResult:
		if c.calls[b.ToolUseID] > 1 {
			return fmt.Sprintf("a second result of %.60q", string(b.ToolUseID))
		}
		c.calls[b.ToolUseID] = 2
	default: // no further rules
	}
	return ""
}

// fits returns what is wrong with the n-th delta of a block, or "".
func fits(b blockstream.ContentBlock, d blockstream.Delta, n int) string {
	ok := false
	switch b.(type) {
	case *blockstream.Text:
		_, ok = d.(*blockstream.TextDelta)
	case *blockstream.Thinking:
		_, ok = d.(*blockstream.ThinkingDelta)
	case *blockstream.FileProcessing:
		_, ok = d.(*blockstream.FileDelta)
	case *blockstream.ApprovalRequest:
		_, ok = d.(*blockstream.ApprovalDelta)
		ok = ok && n == 1
	case *blockstream.ApprovalResult:
		_, ok = d.(*blockstream.DecisionsDelta)
		ok = ok && n == 1
	case *blockstream.ToolUse, *blockstream.ToolResult: // sent whole
	}
	if !ok {
		return fmt.Sprintf("%T for a %s block", d, blockstream.BlockTypeOf(b))
	}
	return ""
}
