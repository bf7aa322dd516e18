package agui

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Importer turns the AG-UI events of a stream into AgentScope events: those
// that a [Mapper] wrote become what they were, ids and times included, and so
// do those of other agents as far as AgentScope has words. A run is a reply; a
// run behind one that ended with questions or calls of the client goes on with
// that reply.
//
// The zero value is ready to use. Each stream has its own Importer; it is not
// safe for concurrent use.
type Importer struct {
	// Codec makes the ids and times that events lack.
	Codec message.Codec
	// Agent names the agent where the stream does not; "": "assistant".
	Agent string
	// OnLoss, if set, is told of everything that an event says and AgentScope
	// has no word for.
	OnLoss func(e Event, loss Loss)

	split  Chunks
	order  Verifier
	thread string
	reply  message.ReplyID
	waits  bool // the reply goes on in the next run

	counted bool            // this run's model calls had their counters
	steps   map[step]bool   // open steps that are calls of the model
	blocks  map[item]string // by message, the block that it is
	foreign map[string]bool // open text messages that are not the assistant's
	calls   map[string]*importedCall
	asked   []string // calls of this run that have no result, in order
}

// importedCall is a call that was read.
type importedCall struct{ name, input string }

// Import returns the AgentScope events that e stands for. The error is the
// *[OrderError] of a stream that a client would not accept; it stays.
func (im *Importer) Import(e Event) ([]message.Event, error) {
	if im.steps == nil {
		im.steps, im.blocks = map[step]bool{}, map[item]string{}
		im.foreign, im.calls = map[string]bool{}, map[string]*importedCall{}
	}
	events, err := im.split.Expand(e)
	if err != nil {
		return nil, err
	}
	var out []message.Event
	for _, e := range events {
		if err := im.order.Check(e); err != nil {
			return nil, err
		}
		out = append(out, im.event(e)...)
	}
	return out, nil
}

func (im *Importer) lose(e Event, l Loss) {
	if im.OnLoss != nil {
		im.OnLoss(e, l)
	}
}

func (im *Importer) event(e Event) []message.Event {
	switch e := e.(type) {
	case *RunStarted:
		return im.runStarted(e)
	case *RunFinished:
		return im.runFinished(e)
	case *RunError:
		return im.runError(e)
	case *StepStarted, *StepFinished:
		return im.step(e)
	case *TextMessageStart, *TextMessageContent, *TextMessageEnd:
		return im.text(e)
	case *ReasoningStart, *ReasoningEnd, *ReasoningMessageStart, *ReasoningMessageContent, *ReasoningMessageEnd:
		return im.reasoning(e)
	case *ToolCallStart, *ToolCallArgs, *ToolCallEnd:
		return im.call(e)
	case *ToolCallResult:
		return im.result(e)
	case *ActivitySnapshot:
		return im.activity(e)
	case *Custom:
		return im.custom(e)
	case *Raw:
		return im.raw(e)
	case *Unknown:
		im.lose(e, LossAsEvent)
		return []message.Event{&message.Custom{EventHeader: im.made(e), Name: reservedName + "." + string(e.Kind), Value: im.whole(e.Raw)}}
	default:
		return im.asEvent(e)
	}
}

// origin is what a Mapper noted beside an event.
type origin struct {
	own    map[string]any // under [sourceName]
	others map[string]any // the event's own metadata
}

func originOf(e Event) (o origin) {
	raw := e.Common().Metadata
	if raw == nil {
		return o
	}
	all, err := strictjson.Object(raw, strictjson.MaxBytes(len(raw)), strictjson.KeepBigIntegers())
	if err != nil {
		return o
	}
	o.own, _ = all[sourceName].(map[string]any)
	delete(all, sourceName)
	o.others = all
	return o
}

func (o origin) text(name string) string {
	s, _ := o.own[name].(string)
	return s
}

func (o origin) number(name string) int64 {
	n, _ := o.own[name].(int64)
	return n
}

// header is that of the event which e was made from.
func (im *Importer) header(e Event) (message.EventHeader, origin) {
	h, o := im.made(e), originOf(e)
	if id := o.text("eventId"); id != "" {
		h.ID = id
	}
	h.Metadata = o.others
	return h, o
}

// made is the header of an event that has no counterpart of its own in the
// stream: a fresh id at the time of e.
func (im *Importer) made(e Event) message.EventHeader {
	h := im.Codec.NewHeader(im.reply)
	if at := e.Common().Timestamp; at != nil {
		h.CreatedAt = message.Timestamp(time.UnixMilli(*at).UTC())
	}
	return h
}

func (im *Importer) whole(raw message.RawJSON) map[string]any {
	v, err := strictjson.Object(raw, strictjson.MaxBytes(len(raw)), strictjson.KeepBigIntegers())
	if err != nil {
		return map[string]any{}
	}
	return v
}

// asEvent keeps an event for which AgentScope has no word as a CUSTOM one.
func (im *Importer) asEvent(e Event) []message.Event {
	im.lose(e, LossAsEvent)
	raw, err := AppendJSON(nil, e)
	if err != nil {
		return nil
	}
	return []message.Event{&message.Custom{EventHeader: im.made(e), Name: reservedName + "." + string(e.Type()), Value: im.whole(raw)}}
}

// custom events of other agents may have values that are no objects.
func (im *Importer) custom(e *Custom) []message.Event {
	h, _ := im.header(e)
	name := strings.TrimPrefix(e.Name, sourceName+".")
	value := im.whole(e.Value)
	if strictjson.KindOf(e.Value) != "object" {
		value = im.whole(message.RawJSON(`{"value":` + string(e.Value) + `}`))
	}
	return []message.Event{&message.Custom{EventHeader: h, Name: name, Value: value}}
}

func (im *Importer) raw(e *Raw) []message.Event {
	if e.Source != nil && *e.Source == sourceName {
		if back, err := im.Codec.DecodeEvent(e.Event); err == nil {
			return []message.Event{back}
		}
	}
	return im.asEvent(e)
}
