package agui

import (
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/google/uuid"
)

// deviationType: the event has a type that AG-UI 1.0 does not have; it is an *Unknown.
const deviationType DeviationKind = "unknown_type"

// eventDecoder reads events as AG-UI's own client does, with the types from
// before 1.0. It keeps the ids that it made for those, so each stream has its own.
type eventDecoder struct {
	Decoder
	NewID func() string // makes ids for retired events; nil: random UUIDs

	span, thought string // ids of the open THINKING span and message
}

// DecodeEvent reads one event by the schema of AG-UI 1.0, with a strict
// [Decoder]. Errors are *[message.Error]s whose cause names the place.
func DecodeEvent(data []byte) (Event, error) {
	d := eventDecoder{Decoder: Decoder{Strict: true}}
	return d.Event(data)
}

// Event reads one event, which is one JSON object with a type. A type that 1.0
// does not have gives an *[Unknown].
func (d *eventDecoder) Event(data []byte) (Event, error) {
	var e Event
	err := d.read("decode AG-UI event", data, func(log *deviations) (err error) {
		e, err = d.event(data, log)
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (d *eventDecoder) event(data []byte, log *deviations) (Event, error) {
	members, err := strictjson.Members(data)
	if err != nil {
		return nil, err
	}
	s := shape{reading: true, members: members, seen: make([]bool, len(members)), log: log}
	var kind string
	s.text("type", &kind)
	if s.err == nil && kind == "" {
		s.fail("type", -1, strictjson.Wrong(strictjson.ErrType, "an empty type"))
	}
	if s.err != nil {
		return nil, s.err
	}
	e := newEvent(EventType(kind))
	switch {
	case e != nil:
		e.fields(&s)
	case log.strict:
		s.fail("type", -1, strictjson.Wrong(strictjson.ErrType, "unknown event type %.60q", kind))
	default:
		if e = d.other(EventType(kind), &s); e == nil {
			log.note(deviationType, "/type", "unknown event type "+kind)
			return &Unknown{Kind: EventType(kind), Raw: message.RawJSON(strings.Clone(string(data)))}, nil
		}
	}
	s.rest()
	return e, s.err
}

// other reads an event of a type that 1.0 does not have as its successor; nil
// if it has none.
func (d *eventDecoder) other(kind EventType, s *shape) Event {
	e, ok := d.retired(kind)
	if !ok {
		return nil
	}
	s.rescueNull("rawEvent")
	s.log.note(DeviationRetired, "/type", string(kind)+", read as "+string(e.Type()))
	retiredFields(e, s)
	return e
}

func (d *eventDecoder) newID() string {
	if d.NewID != nil {
		return d.NewID()
	}
	return uuid.NewString()
}

// retired translates the THINKING events of the time before 1.0. They had no
// ids, so the decoder makes some, one for the span and one for the message.
func (d *eventDecoder) retired(kind EventType) (Event, bool) {
	var e Event
	switch kind {
	case "THINKING_START":
		d.span = d.newID()
		e = &ReasoningStart{MessageID: d.span}
	case "THINKING_END":
		e = &ReasoningEnd{MessageID: d.take(&d.span)}
	case "THINKING_TEXT_MESSAGE_START":
		d.thought = d.newID()
		e = &ReasoningMessageStart{MessageID: d.thought}
	case "THINKING_TEXT_MESSAGE_CONTENT":
		if d.thought == "" {
			d.thought = d.newID()
		}
		e = &ReasoningMessageContent{MessageID: d.thought}
	case "THINKING_TEXT_MESSAGE_END":
		e = &ReasoningMessageEnd{MessageID: d.take(&d.thought)}
	}
	return e, e != nil
}

// take returns the id and forgets it. Without one it makes one up, which then
// names something that nobody opened and does not verify.
func (d *eventDecoder) take(id *string) string {
	t := *id
	*id = ""
	if t == "" {
		t = d.newID()
	}
	return t
}

// retiredFields reads what a THINKING event shares with its successor.
func retiredFields(e Event, s *shape) {
	if c, ok := e.(*ReasoningMessageContent); ok {
		s.text("delta", &c.Delta)
	}
	if m, ok := s.find("title"); ok && e.Type() == TypeReasoningStart {
		s.log.note(DeviationRetired, s.path+"/title", "a title, which nothing can carry: "+string(m.Value))
	}
	if t, ok := e.(interface{ tagged(*shape) }); ok {
		t.tagged(s)
	}
}

// Unknown is an event of a type that AG-UI 1.0 does not have. A consumer drops
// it; it cannot be written.
type Unknown struct {
	Base
	Kind EventType
	Raw  message.RawJSON // the whole event as it came
}

// Type returns the type that the event named.
func (e *Unknown) Type() EventType { return e.Kind }

func (e *Unknown) fields(s *shape) {
	s.fail("type", -1, strictjson.Wrong(strictjson.ErrType, "an event of unknown type %.60q cannot be sent", e.Kind))
}

func (e *Unknown) MarshalJSON() ([]byte, error) { return AppendJSON(nil, e) }

// newEvent is the discriminator table; nil for types that 1.0 does not have.
func newEvent(t EventType) Event {
	if build := makers[t]; build != nil {
		return build()
	}
	return nil
}

var makers = map[EventType]func() Event{
	TypeRunStarted:              func() Event { return new(RunStarted) },
	TypeRunFinished:             func() Event { return new(RunFinished) },
	TypeRunError:                func() Event { return new(RunError) },
	TypeStepStarted:             func() Event { return new(StepStarted) },
	TypeStepFinished:            func() Event { return new(StepFinished) },
	TypeTextMessageStart:        func() Event { return new(TextMessageStart) },
	TypeTextMessageContent:      func() Event { return new(TextMessageContent) },
	TypeTextMessageEnd:          func() Event { return new(TextMessageEnd) },
	TypeTextMessageChunk:        func() Event { return new(TextMessageChunk) },
	TypeToolCallStart:           func() Event { return new(ToolCallStart) },
	TypeToolCallArgs:            func() Event { return new(ToolCallArgs) },
	TypeToolCallEnd:             func() Event { return new(ToolCallEnd) },
	TypeToolCallResult:          func() Event { return new(ToolCallResult) },
	TypeToolCallChunk:           func() Event { return new(ToolCallChunk) },
	TypeStateSnapshot:           func() Event { return new(StateSnapshot) },
	TypeStateDelta:              func() Event { return new(StateDelta) },
	TypeMessagesSnapshot:        func() Event { return new(MessagesSnapshot) },
	TypeActivitySnapshot:        func() Event { return new(ActivitySnapshot) },
	TypeActivityDelta:           func() Event { return new(ActivityDelta) },
	TypeRaw:                     func() Event { return new(Raw) },
	TypeCustom:                  func() Event { return new(Custom) },
	TypeReasoningStart:          func() Event { return new(ReasoningStart) },
	TypeReasoningEnd:            func() Event { return new(ReasoningEnd) },
	TypeReasoningMessageStart:   func() Event { return new(ReasoningMessageStart) },
	TypeReasoningMessageContent: func() Event { return new(ReasoningMessageContent) },
	TypeReasoningMessageEnd:     func() Event { return new(ReasoningMessageEnd) },
	TypeReasoningMessageChunk:   func() Event { return new(ReasoningMessageChunk) },
	TypeReasoningEncryptedValue: func() Event { return new(ReasoningEncryptedValue) },
	TypeSubagentStarted:         func() Event { return new(SubagentStarted) },
	TypeSubagentFinished:        func() Event { return new(SubagentFinished) },
	TypeSubagentError:           func() Event { return new(SubagentError) },
}
