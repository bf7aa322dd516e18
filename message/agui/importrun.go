package agui

import (
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// runStarted begins a reply, or goes on with the one that waits.
func (im *Importer) runStarted(e *RunStarted) []message.Event {
	_, o := im.header(e)
	waited := im.waits && im.thread == e.ThreadID
	im.thread, im.waits, im.counted, im.asked = e.ThreadID, false, false, nil
	clear(im.steps)
	clear(im.foreign)
	named := o.text("replyId")
	switch {
	case named != "":
		im.reply = message.ReplyID(named)
		if _, starts := o.own["sessionId"]; !starts {
			return nil // a Mapper's run that goes on with a reply
		}
	case waited:
		return nil
	default:
		im.reply = message.ReplyID(e.RunID)
	}
	h, _ := im.header(e)
	s := &message.ReplyStart{EventHeader: h, Session: message.SessionID(e.ThreadID), Name: im.Agent, Role: message.RoleAssistant}
	if s.Name == "" {
		s.Name = "assistant"
	}
	if named != "" {
		s.Session, s.Name, s.Role = message.SessionID(o.text("sessionId")), o.text("name"), message.MsgRole(o.text("role"))
	}
	if !s.Role.Valid() {
		s.Role = message.RoleAssistant
	}
	return []message.Event{s}
}

// step reads the steps that are calls of the model.
func (im *Importer) step(e Event) []message.Event {
	h, o := im.header(e)
	at := step{owner: ownerOf(tagOf(e))}
	switch e := e.(type) {
	case *StepStarted:
		at.name = e.StepName
		if model, ok := o.own["modelName"].(string); ok {
			im.steps[at] = true
			return []message.Event{&message.ModelCallStart{EventHeader: h, ModelName: model}}
		}
	case *StepFinished:
		at.name = e.StepName
		if !im.steps[at] {
			break
		}
		delete(im.steps, at)
		if _, ended := o.own["inputTokens"]; !ended {
			return nil // closed with the run
		}
		im.counted = true
		end := &message.ModelCallEnd{
			EventHeader: h, InputTokens: o.number("inputTokens"), OutputTokens: o.number("outputTokens"),
			CacheInputTokens: o.number("cacheInputTokens"), CacheCreationInputTokens: o.number("cacheCreationInputTokens"),
			FinishedReason: message.ModelFinishedReason(o.text("finishedReason")),
		}
		if !end.FinishedReason.Valid() {
			end.FinishedReason = message.ModelCompleted
		}
		return []message.Event{end}
	default:
	}
	return im.asEvent(e)
}

// usage gives the tokens of a run whose model calls were not told one by one.
func (im *Importer) usage(e Event, usage []TokenUsage) (out []message.Event) {
	if im.counted {
		return nil
	}
	for _, u := range usage {
		if u.Provider != nil || u.TotalTokens != nil || u.ReasoningTokens != nil {
			im.lose(e, LossUsage)
		}
		model := ""
		if u.Model != nil {
			model = *u.Model
		}
		out = append(out,
			&message.ModelCallStart{EventHeader: im.made(e), ModelName: model},
			&message.ModelCallEnd{
				EventHeader: im.made(e), InputTokens: count(u.InputTokens), OutputTokens: count(u.OutputTokens),
				CacheInputTokens: count(u.CachedInputTokens), CacheCreationInputTokens: count(u.CacheWriteInputTokens),
				FinishedReason: message.ModelCompleted,
			})
	}
	return out
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func (im *Importer) runFinished(e *RunFinished) []message.Event {
	out := im.usage(e, e.Usage)
	if e.Result != nil {
		im.lose(e, LossAsEvent)
		out = append(out, &message.Custom{EventHeader: im.made(e), Name: reservedName + ".result", Value: im.whole(message.RawJSON(`{"result":` + string(e.Result) + `}`))})
	}
	switch {
	case e.Outcome != nil && e.Outcome.Type == OutcomeInterrupt:
		im.waits = true
		return append(out, im.interrupts(e)...)
	case e.Outcome != nil && e.Outcome.Type == OutcomeCancelled:
		return append(out, im.end(e, message.FinishedInterrupted, nil))
	}
	pending := im.asked
	if e.Outcome != nil && len(e.Outcome.PendingToolCallIDs) > 0 {
		pending = e.Outcome.PendingToolCallIDs
	}
	if len(pending) == 0 {
		return append(out, im.end(e, message.FinishedCompleted, nil))
	}
	im.waits = true
	for _, id := range pending {
		out = append(out, im.external(e, id))
	}
	return out
}

// end is the end of the reply. A Mapper notes the reason where AG-UI has a
// coarser word.
func (im *Importer) end(e Event, reason message.FinishedReason, info *message.ErrorInfo) message.Event {
	h, o := im.header(e)
	if said := message.FinishedReason(o.text("finishedReason")); said.Valid() && said != message.FinishedCompleted {
		reason = said
	}
	r := &message.ReplyEnd{EventHeader: h, Session: message.SessionID(im.thread), FinishedReason: reason}
	if s, ok := o.own["sessionId"].(string); ok {
		r.Session = message.SessionID(s)
	}
	if reason == message.FinishedError {
		r.Error = info
	}
	return r
}

func (im *Importer) runError(e *RunError) []message.Event {
	out := im.usage(e, e.Usage)
	code := ""
	if e.Code != nil {
		code = *e.Code
	}
	info := &message.ErrorInfo{Type: message.ErrorType(code), Message: e.Message}
	if !info.Type.Valid() {
		info.Type = message.ErrorUnknown
	}
	reason := message.FinishedError
	switch code {
	case CodeCancelled:
		reason = message.FinishedInterrupted
	case CodeExceedMaxIters:
		reason = message.FinishedExceedMaxIters
	}
	return append(out, im.end(e, reason, info))
}

// interrupts asks one question an event, as AgentScope does.
func (im *Importer) interrupts(e *RunFinished) (out []message.Event) {
	for _, i := range e.Outcome.Interrupts {
		switch {
		case i.ToolCallID != nil && i.Reason == ReasonExternal:
			out = append(out, im.external(e, *i.ToolCallID))
		case i.ToolCallID != nil && i.Reason == ReasonToolCall:
			h := im.made(e)
			h.ID = i.ID
			out = append(out, &message.RequireUserConfirm{EventHeader: h, ToolCalls: []message.ToolCallBlock{im.askedAbout(e, i)}})
		default:
			im.lose(e, LossAsEvent)
			raw, err := appendWith(nil, "encode AG-UI interrupt", i.fields)
			if err == nil {
				out = append(out, &message.Custom{EventHeader: im.made(e), Name: reservedName + ".interrupt", Value: im.whole(raw)})
			}
		}
	}
	return out
}

// askedAbout is the call of an interrupt: as its metadata says, else as it was
// streamed.
func (im *Importer) askedAbout(e Event, i Interrupt) message.ToolCallBlock {
	b := im.block(e, *i.ToolCallID, message.ToolCallAsking)
	var meta struct {
		Askance *struct {
			ToolName       string                   `json:"toolName"`
			Arguments      string                   `json:"arguments"`
			SuggestedRules []message.PermissionRule `json:"suggestedRules"`
		} `json:"askance"`
	}
	if strictjson.UnmarshalOpen(i.Metadata, &meta) == nil && meta.Askance != nil {
		b.Name, b.Input, b.SuggestedRules = meta.Askance.ToolName, meta.Askance.Arguments, meta.Askance.SuggestedRules
	}
	return b
}

func (im *Importer) external(e Event, id string) message.Event {
	return &message.RequireExternalExecution{
		EventHeader: im.made(e), ToolCalls: []message.ToolCallBlock{im.block(e, id, message.ToolCallSubmitted)},
	}
}

func (im *Importer) block(e Event, id string, state message.ToolCallState) message.ToolCallBlock {
	b := message.ToolCallBlock{ID: im.callID(id), State: state, CreatedAt: im.made(e).CreatedAt}
	if c := im.calls[id]; c != nil {
		b.Name, b.Input = c.name, c.input
	}
	return b
}

// settle takes a call off the list of those without a result.
func (im *Importer) settle(id string) {
	im.asked = slices.DeleteFunc(im.asked, func(o string) bool { return o == id })
}
