package chatstream

import (
	"errors"
	"fmt"

	"github.com/askance-dev/askance/message"
)

// maxCalls bounds the tool calls of one turn.
const maxCalls = message.MaxCallsPerTurn

// Turn translates one completion into AgentScope's events, in the order of
// AgentScope's own loop: MODEL_CALL_START, the text, the calls, their ends,
// MODEL_CALL_END. It is not safe for concurrent use.
type Turn struct {
	codec message.Codec
	reply message.ReplyID

	begun  bool
	ended  bool
	text   string // id of the text block that is being written; "" if none
	calls  []message.ToolCallBlock
	usage  Usage
	finish string
}

// NewTurn begins a turn of a reply. The codec makes the events' ids and times.
func NewTurn(codec message.Codec, reply message.ReplyID) *Turn {
	return &Turn{codec: codec, reply: reply}
}

// Calls are the tool calls as far as they have been read, in the model's order.
func (t *Turn) Calls() []message.ToolCallBlock { return t.calls }

// FinishReason is the model's word on why it stopped; "" before it came.
func (t *Turn) FinishReason() string { return t.finish }

func (t *Turn) header() message.EventHeader { return t.codec.NewHeader(t.reply) }

// Add translates one chunk. After an error the turn must not be used.
func (t *Turn) Add(c *Chunk) ([]message.Event, error) {
	if t.ended {
		return nil, errors.New("model stream: a chunk after the end of the turn")
	}
	var out []message.Event
	if !t.begun {
		t.begun = true
		out = append(out, &message.ModelCallStart{EventHeader: t.header(), ModelName: c.Model})
	}
	if c.Usage != nil {
		t.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			return nil, fmt.Errorf("model stream: chunk %s has a choice %d, want only choice 0", c.ID, choice.Index)
		}
		if choice.FinishReason != nil {
			t.finish = *choice.FinishReason
		}
		out = append(out, t.content(choice.Delta)...)
		for _, d := range choice.Delta.ToolCalls {
			events, err := t.call(d)
			if err != nil {
				return nil, fmt.Errorf("model stream: chunk %s: %w", c.ID, err)
			}
			out = append(out, events...)
		}
	}
	return out, nil
}

// content appends text. A refusal is text, too: it is what the model said.
func (t *Turn) content(d Delta) []message.Event {
	var out []message.Event
	for _, piece := range []*string{d.Content, d.Refusal} {
		if piece == nil || *piece == "" {
			continue
		}
		if t.text == "" {
			h := t.header()
			t.text = h.ID
			out = append(out, &message.TextBlockStart{EventHeader: h, BlockID: t.text})
		}
		out = append(out, &message.TextBlockDelta{EventHeader: t.header(), BlockID: t.text, Delta: *piece})
	}
	return out
}

func (t *Turn) endText() []message.Event {
	if t.text == "" {
		return nil
	}
	id := t.text
	t.text = ""
	return []message.Event{&message.TextBlockEnd{EventHeader: t.header(), BlockID: id}}
}

// call appends a piece to a call, or begins one.
func (t *Turn) call(d CallDelta) ([]message.Event, error) {
	out := t.endText()
	switch {
	case d.Index < 0 || d.Index > len(t.calls) || d.Index >= maxCalls:
		return nil, fmt.Errorf("tool call %d comes after %d others, at most %d are read", d.Index, len(t.calls), maxCalls)
	case d.Index == len(t.calls):
		if d.ID == "" || d.Function.Name == "" {
			return nil, fmt.Errorf("tool call %d begins without id or name", d.Index)
		}
		if d.Type != "" && d.Type != "function" {
			return nil, fmt.Errorf("tool call %d is of type %.40q, want function", d.Index, d.Type)
		}
		t.calls = append(t.calls, message.ToolCallBlock{ID: message.CallID(d.ID), Name: d.Function.Name, State: message.ToolCallPending})
		out = append(out, &message.ToolCallStart{EventHeader: t.header(), ToolCallID: message.CallID(d.ID), ToolCallName: d.Function.Name})
	case d.ID != "" && d.ID != string(t.calls[d.Index].ID):
		return nil, fmt.Errorf("tool call %d changes its id from %s to %s", d.Index, t.calls[d.Index].ID, d.ID)
	}
	c := &t.calls[d.Index]
	if d.Function.Arguments != "" {
		if len(c.Input)+len(d.Function.Arguments) > message.MaxInputBytes {
			return nil, fmt.Errorf("the arguments of tool call %s are over the limit of %d bytes", c.ID, message.MaxInputBytes)
		}
		c.Input += d.Function.Arguments
		out = append(out, &message.ToolCallDelta{EventHeader: t.header(), ToolCallID: c.ID, Delta: d.Function.Arguments})
	}
	return out, nil
}

// End closes what is open. It fails if there was no chunk, or if the model did
// not say why it stopped: such a completion was cut off, and its calls must not
// be proposed.
func (t *Turn) End() ([]message.Event, error) {
	switch {
	case t.ended:
		return nil, errors.New("model stream: the turn was ended before")
	case t.finish == "":
		return nil, errors.New("model stream: the completion breaks off without a finish_reason")
	}
	t.ended = true
	out := t.endText()
	for _, c := range t.calls {
		out = append(out, &message.ToolCallEnd{EventHeader: t.header(), ToolCallID: c.ID})
	}
	end := &message.ModelCallEnd{
		EventHeader: t.header(), InputTokens: t.usage.PromptTokens, OutputTokens: t.usage.CompletionTokens,
		FinishedReason: message.ModelCompleted,
	}
	if d := t.usage.PromptDetails; d != nil {
		end.CacheInputTokens = d.CachedTokens
	}
	return append(out, end), nil
}
