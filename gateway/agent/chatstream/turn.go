package chatstream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxCalls bounds the tool calls of one turn.
const maxCalls = toolcall.MaxCallsPerTurn

// Turn translates one completion into AgentScope's events, in the order of
// AgentScope's own loop: MODEL_CALL_START, the thinking, the text, the calls,
// their ends, MODEL_CALL_END. It is not safe for concurrent use.
type Turn struct {
	codec message.Codec
	reply message.ReplyID
	taken map[message.CallID]bool

	begun    bool
	ended    bool
	text     string // id of the text block that is being written; "" if none
	thinking string // the same for the thinking block
	calls    []message.ToolCallBlock
	ids      []string // of the calls, as the model gave them
	usage    Usage
	finish   string
}

// NewTurn begins a turn of a reply. The codec makes the events' ids and times. taken are the ids
// of calls that the reply already has: a model that reuses one means another call.
func NewTurn(codec message.Codec, reply message.ReplyID, taken ...message.CallID) *Turn {
	t := &Turn{codec: codec, reply: reply, taken: map[message.CallID]bool{}}
	for _, id := range taken {
		t.taken[id] = true
	}
	return t
}

// Calls returns the tool calls that have been read so far, in the model's order.
func (t *Turn) Calls() []message.ToolCallBlock { return t.calls }

// FinishReason returns the model's reason for stopping, or "" before it came.
func (t *Turn) FinishReason() string { return t.finish }

// Complete reports whether the model finished; only then may its calls be proposed.
func (t *Turn) Complete() bool { return t.finish == "stop" || t.finish == "tool_calls" }

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

// content appends thinking and text. A refusal is also text, because it is what the model said.
func (t *Turn) content(d Delta) []message.Event {
	var out []message.Event
	if piece := d.thinking(); piece != "" {
		out = append(out, t.endText()...)
		if t.thinking == "" {
			h := t.header()
			t.thinking = h.ID
			out = append(out, &message.ThinkingBlockStart{EventHeader: h, BlockID: t.thinking})
		}
		out = append(out, &message.ThinkingBlockDelta{EventHeader: t.header(), BlockID: t.thinking, Delta: piece})
	}
	for _, piece := range []*string{d.Content, d.Refusal} {
		if piece == nil || *piece == "" {
			continue
		}
		out = append(out, t.endThinking()...)
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

func (t *Turn) endThinking() []message.Event {
	if t.thinking == "" {
		return nil
	}
	id := t.thinking
	t.thinking = ""
	return []message.Event{&message.ThinkingBlockEnd{EventHeader: t.header(), BlockID: id}}
}

// call appends a piece to a call, or begins one.
func (t *Turn) call(d CallDelta) ([]message.Event, error) {
	out := append(t.endThinking(), t.endText()...)
	switch {
	case d.Index < 0 || d.Index > len(t.calls) || d.Index >= maxCalls:
		return nil, fmt.Errorf("tool call %d comes after %d others, at most %d are read", d.Index, len(t.calls), maxCalls)
	case d.Index == len(t.calls):
		begin, err := t.begin(d)
		if err != nil {
			return nil, err
		}
		out = append(out, begin)
	case d.ID != "" && d.ID != t.ids[d.Index]:
		return nil, fmt.Errorf("tool call %d changes its id from %.40q to %.40q", d.Index, t.ids[d.Index], d.ID)
	}
	c := &t.calls[d.Index]
	if d.Function.Arguments != "" {
		if len(c.Input)+len(d.Function.Arguments) > toolcall.MaxInputBytes {
			return nil, fmt.Errorf("the arguments of tool call %s are over the limit of %d bytes", c.ID, toolcall.MaxInputBytes)
		}
		c.Input += d.Function.Arguments
		out = append(out, &message.ToolCallDelta{EventHeader: t.header(), ToolCallID: c.ID, Delta: d.Function.Arguments})
	}
	return out, nil
}

func (t *Turn) begin(d CallDelta) (message.Event, error) {
	if d.Function.Name == "" {
		return nil, fmt.Errorf("tool call %d begins without a name", d.Index)
	}
	if d.Type != "" && d.Type != "function" {
		return nil, fmt.Errorf("tool call %d is of type %.40q, want function", d.Index, d.Type)
	}
	id := t.free(d.ID)
	t.ids = append(t.ids, d.ID)
	t.calls = append(t.calls, message.ToolCallBlock{ID: id, Name: d.Function.Name, State: message.ToolCallPending})
	return &message.ToolCallStart{EventHeader: t.header(), ToolCallID: id, ToolCallName: d.Function.Name}, nil
}

// free returns an id that the reply does not have yet, the model's own if possible.
func (t *Turn) free(given string) message.CallID {
	id := message.CallID(given)
	if id == "" {
		id = message.CallID("call_" + t.header().ID)
	}
	for n, base := 2, id; t.taken[id]; n++ {
		id = message.CallID(fmt.Sprintf("%s_%d", base, n))
	}
	t.taken[id] = true
	return id
}

// End ends the open blocks, and the calls if they are Complete. It fails if there was no chunk,
// or if the model gave no reason for stopping: such a completion was cut off.
func (t *Turn) End() ([]message.Event, error) {
	switch {
	case t.ended:
		return nil, errors.New("model stream: the turn was ended before")
	case t.finish == "":
		return nil, errors.New("model stream: the completion breaks off without a finish_reason")
	}
	t.ended = true
	out := append(t.endThinking(), t.endText()...)
	if t.Complete() {
		for _, c := range t.calls {
			out = append(out, &message.ToolCallEnd{EventHeader: t.header(), ToolCallID: c.ID})
		}
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

// Arguments returns a call's arguments in the form that every server accepts, a JSON object.
// Input that is not an object is put into one.
func Arguments(input string) string {
	if _, err := strictjson.Object([]byte(input)); err == nil {
		return input
	}
	out, err := strictjson.Marshal(map[string]string{"malformed_arguments": strings.ToValidUTF8(input, "\ufffd")})
	if err != nil { // cannot happen with valid text
		return "{}"
	}
	return string(out)
}
