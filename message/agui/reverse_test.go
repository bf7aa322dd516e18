package agui_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fixed returns a codec whose ids and times are the same in every run.
func fixed() message.Codec {
	n := 0
	return message.Codec{
		Now:   func() time.Time { return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC) },
		NewID: func() string { n++; return fmt.Sprintf("new-%d", n) },
	}
}

// reverser turns the AG-UI events of a Mapper back into the AgentScope events that it read. It
// shows that they contain everything except the losses.
type reverser struct {
	codec   message.Codec
	order   aguitest.Verifier
	reply   message.ReplyID
	session message.SessionID
	blocks  map[string]string // the id of the block or call, by kind and AG-UI id
	names   map[string]string // the tool of a call, by AG-UI id
}

func newReverser() *reverser {
	return &reverser{codec: fixed(), blocks: map[string]string{}, names: map[string]string{}}
}

// noted is what a Mapper adds to an event in its metadata.
type noted struct {
	EventID        string `json:"eventId"`
	ReplyID        string `json:"replyId"`
	SessionID      string `json:"sessionId"`
	Name           string `json:"name"`
	Role           string `json:"role"`
	BlockID        string `json:"blockId"`
	ToolCallID     string `json:"toolCallId"`
	ModelName      string `json:"modelName"`
	State          string `json:"state"`
	FinishedReason string `json:"finishedReason"`
	InputTokens    *int64 `json:"inputTokens"`
	OutputTokens   int64  `json:"outputTokens"`
	CacheInput     int64  `json:"cacheInputTokens"`
	CacheCreation  int64  `json:"cacheCreationInputTokens"`
}

// header returns the header of the event from which e was made.
func (r *reverser) header(e agui.Event) (h message.EventHeader, n noted) {
	h = r.fresh(e)
	if e.Common().Metadata == nil {
		return h, n
	}
	all := map[string]any{}
	var own struct {
		Noted noted `json:"agentscope"`
	}
	decode(e.Common().Metadata, &all)
	decode(e.Common().Metadata, &own)
	delete(all, "agentscope")
	if h.Metadata = all; own.Noted.EventID != "" {
		h.ID = own.Noted.EventID
	}
	return h, own.Noted
}

func decode(raw []byte, v any) {
	if err := json.Unmarshal(raw, v); err != nil {
		panic(err)
	}
}

// fresh returns a header for one of several events that are made from e.
func (r *reverser) fresh(e agui.Event) message.EventHeader {
	h := r.codec.NewHeader(r.reply)
	if at := e.Common().Timestamp; at != nil {
		h.CreatedAt = message.Timestamp(time.UnixMilli(*at).UTC())
	}
	return h
}

// begin returns the block that an item represents.
func (r *reverser) begin(kind, id string, n noted) string {
	block := n.BlockID
	if block == "" {
		block = id
	}
	r.blocks[kind+id] = block
	return block
}

func (r *reverser) reverse(e agui.Event) []message.Event {
	h, n := r.header(e)
	switch e := e.(type) {
	case *agui.RunStarted:
		r.reply = message.ReplyID(n.ReplyID)
		if n.SessionID == "" {
			return nil // the run continues with the reply
		}
		h.Reply, r.session = r.reply, message.SessionID(n.SessionID)
		return []message.Event{&message.ReplyStart{EventHeader: h, Session: r.session, Name: n.Name, Role: message.MsgRole(n.Role)}}
	case *agui.StepStarted:
		return []message.Event{&message.ModelCallStart{EventHeader: h, ModelName: n.ModelName}}
	case *agui.StepFinished:
		if n.InputTokens == nil {
			return nil // closed with the run
		}
		return []message.Event{&message.ModelCallEnd{
			EventHeader: h, InputTokens: *n.InputTokens, OutputTokens: n.OutputTokens,
			CacheInputTokens: n.CacheInput, CacheCreationInputTokens: n.CacheCreation, FinishedReason: message.ModelFinishedReason(n.FinishedReason),
		}}
	case *agui.TextMessageStart:
		return []message.Event{&message.TextBlockStart{EventHeader: h, BlockID: r.begin("text", e.MessageID, n)}}
	case *agui.TextMessageContent:
		return []message.Event{&message.TextBlockDelta{EventHeader: h, BlockID: r.blocks["text"+e.MessageID], Delta: e.Delta}}
	case *agui.TextMessageEnd:
		return []message.Event{&message.TextBlockEnd{EventHeader: h, BlockID: r.blocks["text"+e.MessageID]}}
	case *agui.ReasoningMessageStart:
		return []message.Event{&message.ThinkingBlockStart{EventHeader: h, BlockID: r.begin("thought", e.MessageID, n)}}
	case *agui.ReasoningMessageContent:
		return []message.Event{&message.ThinkingBlockDelta{EventHeader: h, BlockID: r.blocks["thought"+e.MessageID], Delta: e.Delta}}
	case *agui.ReasoningMessageEnd:
		return []message.Event{&message.ThinkingBlockEnd{EventHeader: h, BlockID: r.blocks["thought"+e.MessageID]}}
	case *agui.ToolCallStart:
		r.names[e.ToolCallID] = e.ToolCallName
		return []message.Event{&message.ToolCallStart{EventHeader: h, ToolCallID: message.CallID(e.ToolCallID), ToolCallName: e.ToolCallName}}
	case *agui.ToolCallArgs:
		return []message.Event{&message.ToolCallDelta{EventHeader: h, ToolCallID: message.CallID(e.ToolCallID), Delta: e.Delta}}
	case *agui.ToolCallEnd:
		return []message.Event{&message.ToolCallEnd{EventHeader: h, ToolCallID: message.CallID(e.ToolCallID)}}
	case *agui.ToolCallResult:
		return r.result(e, h, n)
	case *agui.ActivitySnapshot:
		return r.activity(e, h, n)
	case *agui.RunFinished:
		return r.finish(e, h, n)
	case *agui.RunError:
		return []message.Event{&message.ReplyEnd{EventHeader: h, Session: r.session, FinishedReason: message.FinishedError, Error: &message.ErrorInfo{Type: message.ErrorType(*e.Code), Message: e.Message}}}
	default:
		return nil
	}
}

// result returns the result as AgentScope streams it: start, pieces, end.
func (r *reverser) result(e *agui.ToolCallResult, h message.EventHeader, n noted) []message.Event {
	id := message.CallID(e.ToolCallID)
	out := []message.Event{&message.ToolResultStart{EventHeader: r.fresh(e), ToolCallID: id, ToolCallName: r.names[e.ToolCallID]}}
	parts := e.Content.Parts
	if parts == nil && e.Content.Text != "" {
		parts = []agui.Part{{Type: agui.PartText, Text: e.Content.Text}}
	}
	for _, p := range parts {
		if p.Type == agui.PartText {
			out = append(out, &message.ToolResultTextDelta{EventHeader: r.fresh(e), ToolCallID: id, Delta: p.Text})
			continue
		}
		out = append(out, &message.ToolResultDataDelta{EventHeader: r.fresh(e), ToolCallID: id, BlockID: *p.ID, MediaType: *p.Source.MimeType, Data: &p.Source.Value})
	}
	return append(out, &message.ToolResultEnd{EventHeader: h, ToolCallID: id, State: message.ToolResultState(n.State)})
}

func (r *reverser) activity(e *agui.ActivitySnapshot, h message.EventHeader, n noted) []message.Event {
	id := r.begin("activity", e.MessageID, n)
	switch e.ActivityType {
	case agui.ActivityData:
		var c struct{ MediaType, Data string }
		decode(e.Content, &c)
		return []message.Event{
			&message.DataBlockStart{EventHeader: r.fresh(e), BlockID: id, MediaType: c.MediaType},
			&message.DataBlockDelta{EventHeader: r.fresh(e), BlockID: id, MediaType: c.MediaType, Data: c.Data},
			&message.DataBlockEnd{EventHeader: h, BlockID: id},
		}
	case agui.ActivityHint: // its content has the members of a HINT_BLOCK
		raw := fmt.Sprintf(`{"type":%q,"block_id":%q,"reply_id":"",%s`, message.EventHintBlock, id, strings.TrimPrefix(string(e.Content), "{"))
		back, err := r.codec.DecodeEvent([]byte(raw))
		if err != nil {
			panic(err)
		}
		hint := back.(*message.HintBlockEvent)
		hint.EventHeader = h
		return []message.Event{hint}
	default:
		return nil
	}
}

// finish returns the end of the reply, or the approval requests that it waits for.
func (r *reverser) finish(e *agui.RunFinished, h message.EventHeader, n noted) (out []message.Event) {
	end := &message.ReplyEnd{EventHeader: h, Session: r.session, FinishedReason: message.FinishedCompleted}
	if n.FinishedReason != "" {
		end.FinishedReason = message.FinishedReason(n.FinishedReason)
	}
	if e.Outcome.Type != agui.OutcomeInterrupt {
		return []message.Event{end}
	}
	for _, i := range e.Outcome.Interrupts {
		var meta struct {
			Askance struct{ ToolName, Arguments string }
		}
		decode(i.Metadata, &meta)
		at := r.fresh(e)
		block := message.ToolCallBlock{ID: message.CallID(*i.ToolCallID), State: message.ToolCallAsking, CreatedAt: at.CreatedAt, Name: meta.Askance.ToolName, Input: meta.Askance.Arguments}
		at.ID = i.ID
		out = append(out, &message.RequireUserConfirm{EventHeader: at, ToolCalls: []message.ToolCallBlock{block}})
	}
	return out
}

// A reply that is sent as AG-UI and converted back builds the same message, except for the table
// of losses: the places of results and media, and the ids and boundaries of a result's text.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawReply(t)
		run := agui.Run{ThreadID: "t", RunID: "run", Peer: agui.Peer10}
		m := agui.NewMapper(run, agui.Mapping{})
		r := newReverser()
		var back []message.Event
		carry := func(out []agui.Event) {
			for _, e := range out {
				raw, err := agui.AppendJSON(nil, e)
				if err != nil {
					t.Fatal(err)
				}
				if e, err = aguitest.DecodeEvent(raw); err != nil {
					t.Fatal(err)
				}
				if err := r.order.Check(e); err != nil {
					t.Fatalf("%v at %s", err, raw)
				}
				back = append(back, r.reverse(e)...)
			}
		}
		for _, e := range events {
			if _, answered := e.(*message.UserConfirmResult); answered {
				carry(m.Park())
				run.RunID += "+"
				m = m.Next(run)
			}
			carry(m.Map(e))
		}
		if d := cmp.Diff(built(t, events), built(t, back)); d != "" {
			t.Fatalf("(-sent +came back)\n%s", d)
		}
		ids := map[string]bool{}
		for _, e := range back {
			ids[e.Header().ID] = true
		}
		for _, e := range events {
			switch e.(type) {
			case *message.TextBlockStart, *message.ToolCallDelta, *message.ToolResultEnd, *message.ModelCallEnd, *message.ReplyEnd:
				if !ids[e.Header().ID] {
					t.Fatalf("the id of %s %s did not come back", e.Type(), e.Header().ID)
				}
			default:
			}
		}
	})
}

// built returns the message that a list of events builds, as text that does not depend on the
// losses.
func built(t *rapid.T, events []message.Event) []string {
	m := &message.Msg{ID: "r", Role: message.RoleAssistant}
	codec := fixed()
	for _, e := range events {
		if err := codec.Append(m, e); err != nil {
			t.Fatalf("%v of %s", err, e.Type())
		}
	}
	var out []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, fmt.Sprint("text ", b.ID, b.Text, *b.FinishedAt))
		case *message.ThinkingBlock:
			out = append(out, fmt.Sprint("thinking ", b.ID, b.Thinking, *b.FinishedAt))
		case *message.DataBlock:
			raw, _ := b.Source.MarshalJSON()
			out = append(out, fmt.Sprint("data ", b.ID, string(raw)))
		case *message.HintBlock:
			out = append(out, fmt.Sprint("hint ", b.ID, b.Hint.String(), b.Source == nil))
		case *message.ToolCallBlock:
			out = append(out, fmt.Sprint("call ", b.ID, b.Name, b.Input, b.State))
		case *message.ToolResultBlock:
			media := slices.DeleteFunc(slices.Clone(b.Output.Blocks), func(b message.Block) bool { return b.Type() == message.BlockText })
			out = append(out, fmt.Sprint("result ", b.ID, b.Name, b.Output.String(), len(media), b.State, b.Metadata["k"]))
		default:
			t.Fatalf("a %T", b)
		}
	}
	slices.Sort(out)
	if m.Usage != nil {
		out = append(out, fmt.Sprintf("%+v", *m.Usage))
	}
	return append(out, string(*m.FinishedReason), *m.FinishedAt, fmt.Sprint(m.Error))
}

// drawReply draws a reply as a runtime streams it: rounds of the model, calls that are allowed or
// are asked about and answered in a later run, and an end.
func drawReply(t *rapid.T) (out []message.Event) {
	n := 0
	h := func() message.EventHeader {
		n++
		return message.EventHeader{ID: fmt.Sprintf("e%d", n), CreatedAt: fmt.Sprintf("2026-03-01T09:00:00.%03d000", n), Reply: "r"}
	}
	text := rapid.SampledFrom([]string{"", "x", "é\u2028\n", `{"a":1}`})
	add := func(events ...message.Event) { out = append(out, events...) }
	add(&message.ReplyStart{EventHeader: h(), Session: "s", Name: "bot", Role: message.RoleAssistant})
	for round := range rapid.IntRange(0, 3).Draw(t, "rounds") {
		id := func(kind string) string { return fmt.Sprintf("%s%d", kind, round) }
		add(&message.ModelCallStart{EventHeader: h(), ModelName: "big"})
		if rapid.Bool().Draw(t, "thinks") {
			add(&message.ThinkingBlockStart{EventHeader: h(), BlockID: id("b")}, &message.ThinkingBlockDelta{EventHeader: h(), BlockID: id("b"), Delta: text.Draw(t, "thought")}, &message.ThinkingBlockEnd{EventHeader: h(), BlockID: id("b")})
		}
		if rapid.Bool().Draw(t, "says") { // the thinking block has the same id, which AgentScope allows
			add(&message.TextBlockStart{EventHeader: h(), BlockID: id("b")}, &message.TextBlockDelta{EventHeader: h(), BlockID: id("b"), Delta: text.Draw(t, "text")}, &message.TextBlockEnd{EventHeader: h(), BlockID: id("b")})
		}
		if rapid.Bool().Draw(t, "shows") {
			add(&message.DataBlockStart{EventHeader: h(), BlockID: id("d"), MediaType: "image/png"}, &message.DataBlockDelta{EventHeader: h(), BlockID: id("d"), Data: "aGk=", MediaType: "image/png"}, &message.DataBlockDelta{EventHeader: h(), BlockID: id("d"), Data: "IQ==", MediaType: "image/png"}, &message.DataBlockEnd{EventHeader: h(), BlockID: id("d")})
		}
		if rapid.Bool().Draw(t, "hints") {
			add(&message.HintBlockEvent{EventHeader: h(), BlockID: id("h"), Hint: message.Content{Text: text.Draw(t, "hint")}, Source: rapid.SampledFrom([]*string{nil, new("team")}).Draw(t, "source")})
		}
		calls := rapid.IntRange(0, 2).Draw(t, "calls")
		for i := range calls {
			call := message.CallID(fmt.Sprintf("c%d-%d", round, i))
			add(&message.ToolCallStart{EventHeader: h(), ToolCallID: call, ToolCallName: "n"}, &message.ToolCallDelta{EventHeader: h(), ToolCallID: call, Delta: `{"a":`}, &message.ToolCallDelta{EventHeader: h(), ToolCallID: call, Delta: `1}`}, &message.ToolCallEnd{EventHeader: h(), ToolCallID: call})
		}
		add(&message.ModelCallEnd{EventHeader: h(), InputTokens: 10, OutputTokens: 2, CacheInputTokens: 20, FinishedReason: message.ModelCompleted})
		for i := range calls {
			call := message.CallID(fmt.Sprintf("c%d-%d", round, i))
			if rapid.Bool().Draw(t, "asks") {
				block := message.ToolCallBlock{ID: call, Name: "n", Input: `{"a":1}`, State: message.ToolCallAsking}
				add(&message.RequireUserConfirm{EventHeader: h(), ToolCalls: []message.ToolCallBlock{block}}, &message.UserConfirmResult{EventHeader: h(), ConfirmResults: []message.ConfirmResult{{Confirmed: true, ToolCall: block}}})
			}
			end := h()
			end.Metadata = map[string]any{"k": text.Draw(t, "metadata")}
			add(&message.ToolResultStart{EventHeader: h(), ToolCallID: call, ToolCallName: "n"}, &message.ToolResultTextDelta{EventHeader: h(), ToolCallID: call, Delta: text.Draw(t, "output")}, &message.ToolResultTextDelta{EventHeader: h(), ToolCallID: call, Delta: "y"})
			if rapid.Bool().Draw(t, "media") {
				add(&message.ToolResultDataDelta{EventHeader: h(), ToolCallID: call, BlockID: "m", MediaType: "image/png", Data: new("AA==")})
			}
			add(&message.ToolResultEnd{EventHeader: end, ToolCallID: call, State: rapid.SampledFrom([]message.ToolResultState{message.ToolResultSuccess, message.ToolResultDenied, message.ToolResultError}).Draw(t, "state")})
		}
	}
	end := &message.ReplyEnd{EventHeader: h(), Session: "s", FinishedReason: rapid.SampledFrom([]message.FinishedReason{message.FinishedCompleted, message.FinishedInterrupted, message.FinishedExceedMaxIters, message.FinishedError}).Draw(t, "reason")}
	if end.FinishedReason == message.FinishedError {
		end.Error = &message.ErrorInfo{Type: message.ErrorUpstream, Message: "down"}
	}
	add(end)
	return out
}
