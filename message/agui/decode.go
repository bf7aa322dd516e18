package agui

import (
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/google/uuid"
)

// MaxFrameBytes is the longest event that AG-UI's own client takes.
const MaxFrameBytes = 10 << 20

// DeviationKind classifies what a tolerant reader passes over.
type DeviationKind string

// The kinds of deviations from AG-UI 1.0, with what becomes of them.
const (
	DeviationType    DeviationKind = "unknown_type"    // the event is an *Unknown
	DeviationMember  DeviationKind = "unknown_member"  // the member is dropped
	DeviationVariant DeviationKind = "unknown_variant" // the object is dropped, from where it can be missed
	DeviationNull    DeviationKind = "null"            // the member is absent
	DeviationRetired DeviationKind = "retired"         // read as what took its place
)

// Deviation is one point in which an input departs from AG-UI 1.0 and was read
// all the same.
type Deviation struct {
	Kind DeviationKind
	Path string // JSON pointer; "" is the whole input
	What string
}

// Decoder reads the events of one stream, or a run's input, as AG-UI's own
// client does in front of its sequence checks: what it takes is taken, what it
// mends is mended and reported, what makes a run fail there is an error here.
//
// The zero value is ready to use. A Decoder keeps the ids that it made for
// retired events, so each stream has its own; it is not safe for concurrent
// use.
type Decoder struct {
	// Strict refuses what the schema of 1.0 refuses: nulls, retired and unknown
	// types, unknown variants. Unknown members are dropped either way, as the
	// specification says.
	Strict bool
	// MaxBytes bounds an input; 0: [MaxFrameBytes].
	MaxBytes int
	// NewID makes ids for retired events, which had none; nil: random UUIDs.
	NewID func() string
	// OnDeviation is told of everything that was passed over, in inputs that
	// were read.
	OnDeviation func(Deviation)

	span, thought string // ids of the open THINKING span and message
}

// DecodeEvent reads one event by the schema of AG-UI 1.0, with a strict
// [Decoder]. Errors are *[message.Error]s whose cause names the place.
func DecodeEvent(data []byte) (Event, error) {
	d := Decoder{Strict: true}
	return d.Event(data)
}

// DecodeRunInput reads a run's input as a server must: unknown members are
// dropped, nulls of older clients are absent, all else that is wrong is an
// error, and then the request is refused with a status of 4xx.
func DecodeRunInput(data []byte) (*RunInput, error) {
	var d Decoder
	return d.RunInput(data)
}

// Event reads one event, which is one JSON object with a type. A type that 1.0
// does not have gives an *[Unknown].
func (d *Decoder) Event(data []byte) (Event, error) {
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

// RunInput reads a run's input.
func (d *Decoder) RunInput(data []byte) (*RunInput, error) {
	in := new(RunInput)
	err := d.read("decode run input", data, func(log *deviations) error {
		return readObject(data, "", log, in.fields)
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// read checks data as a whole, decodes it, and reports deviations of a success.
func (d *Decoder) read(op string, data []byte, decode func(*deviations) error) error {
	limit := d.MaxBytes
	if limit <= 0 {
		limit = MaxFrameBytes
	}
	log := &deviations{strict: d.Strict}
	err := strictjson.Check(data, strictjson.MaxBytes(limit))
	if err == nil {
		err = decode(log)
	}
	if err != nil {
		return message.DecodeError(op, err)
	}
	if d.OnDeviation != nil {
		for _, dev := range log.list {
			d.OnDeviation(dev)
		}
	}
	return nil
}

func (d *Decoder) event(data []byte, log *deviations) (Event, error) {
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
			log.note(DeviationType, "/type", "unknown event type "+kind)
			return &Unknown{Kind: EventType(kind), Raw: message.RawJSON(strings.Clone(string(data)))}, nil
		}
	}
	s.rest()
	return e, s.err
}

// other reads an event of a type that 1.0 does not have as its successor; nil
// if it has none.
func (d *Decoder) other(kind EventType, s *shape) Event {
	e, ok := d.retired(kind)
	if !ok {
		return nil
	}
	s.rescueNull("rawEvent")
	s.log.note(DeviationRetired, "/type", string(kind)+", read as "+string(e.Type()))
	retiredFields(e, s)
	return e
}

func (d *Decoder) newID() string {
	if d.NewID != nil {
		return d.NewID()
	}
	return uuid.NewString()
}
