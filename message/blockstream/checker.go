package blockstream

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// Checker checks that frames come in an order that clients can read: a turn is
// message_start, blocks, message_delta, message_stop; one block is open at a
// time; indices run 0, 1, … in each turn; deltas fit their block; blocks that
// are sent whole have none; file_processing stands first; a call's id is used
// once a turn, and its result comes after it; a result is announced for an
// approval that was asked. Frames outside turns (connected, error, …) may come
// at any time. The zero value expects a message_start.
type Checker struct {
	in    bool // a turn is open
	delta bool // its message_delta came
	next  int
	open  ContentBlock
	got   int // deltas of the open block
	calls map[message.CallID]int
}

// Frame checks the next frame.
func (c *Checker) Frame(f Frame) error {
	if why := c.wrong(f); why != "" {
		return message.Errorf(message.CodeInvalid, "check frames", "%s: %s", f.Type(), why)
	}
	return nil
}

// Done reports whether every turn and block is closed.
func (c *Checker) Done() bool { return !c.in }

func (c *Checker) wrong(f Frame) string {
	switch f := f.(type) {
	case *MessageStart:
		if c.in {
			return "the turn before is open"
		}
		*c = Checker{in: true, calls: map[message.CallID]int{}}
		return ""
	case *MessageDelta:
		if !c.in || c.delta || c.open != nil {
			return "not at the end of a turn"
		}
		c.delta = true
		return ""
	case *MessageStop:
		if !c.delta {
			return "before message_delta"
		}
		c.in, c.delta = false, false
		return ""
	case *BlockStart:
		return c.start(f)
	case *BlockDelta:
		if c.open == nil || f.Index != c.next-1 {
			return fmt.Sprintf("block %d is not open", f.Index)
		}
		c.got++
		return fits(c.open, f.Delta, c.got)
	case *BlockStop:
		if c.open == nil || f.Index != c.next-1 {
			return fmt.Sprintf("block %d is not open", f.Index)
		}
		if f.Final && c.open.Type() != BlockText {
			return "is_final of a block that is no text"
		}
		c.open = nil
		return ""
	case *Connected, *AuthOK, *Subscribed, *Ping, *Pong, *Error, *UnknownFrame:
		return ""
	}
	return "there is no frame"
}

func (c *Checker) start(f *BlockStart) string {
	switch {
	case !c.in || c.delta:
		return "outside a turn"
	case c.open != nil:
		return fmt.Sprintf("block %d is open", c.next-1)
	case f.Index != c.next:
		return fmt.Sprintf("index %d, want %d", f.Index, c.next)
	case f.Block == nil:
		return "there is no block"
	}
	c.open, c.got = f.Block, 0
	c.next++
	switch b := f.Block.(type) {
	case *FileProcessing:
		if f.Index != 0 {
			return "file_processing is not the first block"
		}
	case *ToolUse:
		if c.calls[b.ID] > 0 {
			return fmt.Sprintf("a second call, or one after its result, with the id %.60q", string(b.ID))
		}
		c.calls[b.ID] = 1
	case *ToolResult:
		if c.calls[b.ToolUseID] > 1 {
			return fmt.Sprintf("a second result of %.60q", string(b.ToolUseID))
		}
		c.calls[b.ToolUseID] = 2
	default: // no rules of their own
	}
	return ""
}

// fits says what is wrong with the n-th delta of a block.
func fits(b ContentBlock, d Delta, n int) string {
	ok := false
	switch b.(type) {
	case *Text:
		_, ok = d.(*TextDelta)
	case *Thinking:
		_, ok = d.(*ThinkingDelta)
	case *FileProcessing:
		_, ok = d.(*FileDelta)
	case *ApprovalRequest:
		_, ok = d.(*ApprovalDelta)
		ok = ok && n == 1
	case *ApprovalResult:
		_, ok = d.(*DecisionsDelta)
		ok = ok && n == 1
	case *UnknownBlock:
		ok = true
	case *ToolUse, *ToolResult: // sent whole
	}
	if !ok {
		return fmt.Sprintf("%T for a %s block", d, b.Type())
	}
	return ""
}
