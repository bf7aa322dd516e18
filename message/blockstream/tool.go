package blockstream

import (
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// call is a tool call of the turn.
type call struct {
	name  string
	input strings.Builder
	bare  bool // only its result is known, so there is nothing to show
	shown bool // whether its tool_use was sent
	over  bool // whether its tool_result was sent
	// result is set while the tool runs.
	result *output
}

// output collects a result. It keeps what a frame shows and counts the rest.
type output struct {
	name  string
	shown strings.Builder
	chars int
	open  bool // whether the last line has text and no end
	apart bool // whether data came since the last text
	data  []DataPart
}

// maxParts bounds the data parts that an artifact lists.
const maxParts = 32

// add appends text, on a new line after data: it keeps the first characters and counts all.
func (o *output) add(text string) {
	if text == "" {
		return
	}
	if o.apart && o.open {
		text = "\n" + text
	}
	o.apart, o.open = false, !strings.HasSuffix(text, "\n")
	if room := MaxContent - o.chars; room > 0 {
		o.shown.WriteString(first(text, room))
	}
	o.chars += utf8.RuneCountInString(text)
}

// MaxContent is how many characters (Unicode code points) of a tool's output a frame
// contains. The whole output is kept elsewhere; see [ToolResult.Artifact].
const MaxContent = 500

// Cut returns the first MaxContent characters of s and reports whether anything was cut. It
// never splits a character, and the text does not show the cut.
func Cut(s string) (string, bool) {
	shown := first(s, MaxContent)
	return shown, len(shown) < len(s)
}

func first(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func (o *output) part(mediaType, url string) {
	o.apart = true
	if len(o.data) < maxParts {
		o.data = append(o.data, DataPart{mediaType, url})
	}
}

// toolCall maps the events with which a model makes a call. The tool_use is sent when the call
// begins, not before: an approval request about the call comes first, and makes one of the
// published clients drop every block that does not have its result yet.
func (m *Mapper) toolCall(e message.Event) {
	t := m.enter(e)
	if t == nil {
		return
	}
	switch e := e.(type) {
	case *message.ToolCallStart:
		if c := t.calls[e.ToolCallID]; c != nil {
			m.skip(e, "the turn already has a call with that id")
			return
		}
		t.add(e.ToolCallID, &call{name: e.ToolCallName})
	case *message.ToolCallDelta:
		c := t.calls[e.ToolCallID]
		if c == nil || c.bare || c.shown {
			m.skip(e, "the turn has no such call, or it was already shown")
			return
		}
		if c.input.Len() <= maxInput { // one delta beyond the limit suffices
			c.input.WriteString(e.Delta)
		}
	case *message.ToolCallEnd: // shown when the call begins
	case *message.RequireExternalExecution:
		for i := range e.ToolCalls {
			t.replaceCall(&e.ToolCalls[i])
			m.showCall(e.ToolCalls[i].ID)
		}
	default: // handled elsewhere
	}
}

func (t *turn) add(id message.CallID, c *call) {
	t.calls[id] = c
	t.order = append(t.order, id)
}

// replaceCall takes a call from an event that contains it whole. The call's own events may
// be missing, because a runtime need not stream what it proposes, and a person may have
// changed the call since.
func (t *turn) replaceCall(b *message.ToolCallBlock) {
	c := t.calls[b.ID]
	if c == nil {
		c = &call{}
		t.add(b.ID, c)
	}
	if !c.shown && !c.over {
		c.name, c.bare = b.Name, false
		c.input.Reset()
		c.input.WriteString(b.Input)
	}
}

// showCall shows a call, unless it was shown or there is nothing to show.
func (w *turnWriter) showCall(id message.CallID) {
	if c := w.turn.calls[id]; !c.shown && !c.over && !c.bare {
		w.use(id, c)
	}
}

// showRemainingCalls shows the calls that never began, before the turn ends.
func (w *turnWriter) showRemainingCalls() {
	for _, id := range w.turn.order {
		w.showCall(id)
	}
}

// use sends the tool_use. Arguments that are not a JSON object are shown as text in the
// label instead.
func (w *turnWriter) use(id message.CallID, c *call) {
	input := c.input.String()
	b := &ToolUse{ID: id, Name: c.name, Label: c.name}
	if isObject(input) {
		b.Input = message.RawJSON(input)
	} else {
		shown, _ := Cut(input)
		b.Label += ": " + shown
	}
	c.shown = true
	c.input.Reset()
	w.block(b)
}

// toolResult maps the events of a result: one block at its end.
func (m *Mapper) toolResult(e message.Event) {
	t := m.enter(e)
	if t == nil {
		return
	}
	switch e := e.(type) {
	case *message.ToolResultStart:
		m.resultStart(t, e)
	case *message.ToolResultTextDelta:
		if o := m.running(t, e, e.ToolCallID); o != nil {
			o.add(e.Delta)
		}
	case *message.ToolResultDataDelta:
		if o := m.running(t, e, e.ToolCallID); o != nil {
			o.part(e.MediaType, deref(e.URL))
		}
	case *message.ToolResultEnd:
		if o := m.running(t, e, e.ToolCallID); o != nil {
			m.result(t, e.ToolCallID, o, e.State)
		}
	case *message.ExternalExecutionResult:
		for i := range e.ExecutionResults {
			m.showWholeResult(t, e, &e.ExecutionResults[i])
		}
	default: // handled elsewhere
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// resultStart records that a call runs.
func (m *Mapper) resultStart(t *turn, e *message.ToolResultStart) {
	c := t.calls[e.ToolCallID]
	if c == nil {
		c = &call{name: e.ToolCallName, bare: true}
		t.add(e.ToolCallID, c)
	}
	if c.result != nil || c.over {
		m.skip(e, "the call already has a result")
		return
	}
	c.result = &output{name: e.ToolCallName}
	if m.requests.pending[callKey{t.reply, e.ToolCallID}] == nil { // otherwise it ends without a response, which is announced first
		m.showCall(e.ToolCallID)
	}
}

// running returns the result that a delta or an end is about.
func (w *turnWriter) running(t *turn, e message.Event, id message.CallID) *output {
	if c := t.calls[id]; c != nil && c.result != nil && !c.over {
		return c.result
	}
	w.skip(e, "the turn has no such running call")
	return nil
}

// showWholeResult shows a result that came in one piece, unless the call's own result events
// have begun, which then contain it.
func (m *Mapper) showWholeResult(t *turn, e message.Event, r *message.ToolResultBlock) {
	c := t.calls[r.ID]
	if c != nil && (c.result != nil || c.over) {
		m.skip(e, "the call already has a result")
		return
	}
	if c == nil {
		t.add(r.ID, &call{name: r.Name, bare: true})
	}
	o := &output{name: r.Name}
	o.add(r.Output.String())
	for _, b := range r.Output.Blocks {
		if d, ok := b.(*message.DataBlock); ok {
			switch src := d.Source.(type) {
			case *message.Base64Source:
				o.part(src.MediaType, "")
			case *message.URLSource:
				o.part(src.MediaType, src.URL)
			}
		}
	}
	m.result(t, r.ID, o, r.State)
}

// result sends the tool_result, after the tool_use that it belongs to.
func (m *Mapper) result(t *turn, id message.CallID, o *output, state message.ToolResultState) {
	m.showCall(id)
	c := t.calls[id]
	c.over, c.result = true, nil
	b := &ToolResult{ToolUseID: id, Name: o.name, Status: ResultError, Content: o.shown.String()}
	if state == message.ToolResultSuccess {
		b.Status = ResultSuccess
	}
	b.Artifact = o.reference(t.reply, id, state)
	m.block(b)
}

type outputReference struct {
	Type       string          `json:"type"`
	MessageID  message.ReplyID `json:"message_id"`
	ToolUseID  message.CallID  `json:"tool_use_id"`
	State      string          `json:"state"`
	Characters int             `json:"characters"`
	Truncated  bool            `json:"truncated"`
	Data       []DataPart      `json:"data"`
}

// reference returns the artifact of a result that the frame does not hold completely: where
// the rest belongs, how long it is, and what data came with it. It is nil if the frame holds
// everything.
func (o *output) reference(reply message.ReplyID, id message.CallID, state message.ToolResultState) message.RawJSON {
	if o.chars <= MaxContent && len(o.data) == 0 {
		return nil
	}
	raw, err := format.Append(nil, &outputReference{
		Type: "tool_output", MessageID: reply, ToolUseID: id, State: string(state),
		Characters: o.chars, Truncated: o.chars > MaxContent, Data: o.data,
	})
	if err != nil {
		return nil // text that is not UTF-8 cannot be encoded in JSON
	}
	return raw
}

// failure describes why a turn failed. The code is the only documented one.
func failure(info *message.ErrorInfo) *Extras {
	x := &Extras{Subtype: SubtypeError, Code: CodeLLM, CanRetry: true, ErrorType: ErrorTerminal}
	if info == nil {
		return x
	}
	switch info.Type {
	case message.ErrorAuthentication, message.ErrorPermission, message.ErrorInvalidRequest, message.ErrorSetup:
		x.CanRetry = false
	}
	if text, err := strictjson.AppendString([]byte(`{"error":`), info.Message); err == nil {
		x.Details = append(text, '}')
	}
	return x
}
