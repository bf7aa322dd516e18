package agui

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// MaxFrameBytes is the longest input or event that AG-UI's own client takes.
const MaxFrameBytes = 10 << 20

// DeviationKind classifies what a tolerant reader passes over.
type DeviationKind string

// The kinds of deviations from AG-UI 1.0, and what the reader does about each.
const (
	DeviationMember  DeviationKind = "unknown_member"  // the member is dropped
	DeviationVariant DeviationKind = "unknown_variant" // the object is dropped, where the rest can do without it
	DeviationNull    DeviationKind = "null"            // the member is absent
	DeviationRetired DeviationKind = "retired"         // read as its successor
)

// Deviation is one point in which an input departs from AG-UI 1.0 and was read
// all the same.
type Deviation struct {
	Kind DeviationKind
	Path string // JSON pointer; "" is the whole input
	What string
}

// Decoder reads inputs and events as AG-UI's own client does before its
// sequence checks. It accepts what the client accepts, repairs and reports what
// the client repairs, and refuses what makes a run fail there.
//
// The zero value is ready to use.
type Decoder struct {
	// Strict refuses what the schema of 1.0 refuses: nulls, retired and unknown
	// variants. Unknown members are dropped either way, as the specification
	// says.
	Strict bool
	// OnDeviation, if set, receives each deviation of an input that was read.
	OnDeviation func(Deviation)
}

// DecodeRunInput reads a run's input as a server must. It drops unknown members
// and takes the nulls of older clients as absent. Everything else that is wrong
// is an error, and the server refuses the request with a status of 4xx.
func DecodeRunInput(data []byte) (*RunInput, error) {
	in := new(RunInput)
	var d Decoder
	if err := d.Decode(data, in); err != nil {
		return nil, err
	}
	return in, nil
}

// Decode reads one JSON object into v. The object must be what v is: an event
// has the type of v. Errors are *[message.Error]s whose cause names the place;
// after an error v has no defined content.
func (d *Decoder) Decode(data []byte, v Object) error {
	log := &deviations{strict: d.Strict}
	err := strictjson.Check(data, strictjson.MaxBytes(MaxFrameBytes))
	if err == nil {
		err = readObject(data, "", log, func(s *shape) { transfer(v, s) })
	}
	if err != nil {
		return message.DecodeError("decode "+describe(v), err)
	}
	if d.OnDeviation != nil {
		for _, dev := range log.list {
			d.OnDeviation(dev)
		}
	}
	return nil
}
