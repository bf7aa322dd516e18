package agui

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// MaxFrameBytes is the longest event that AG-UI's own client takes.
const MaxFrameBytes = 10 << 20

// DeviationKind classifies what a tolerant reader passes over.
type DeviationKind string

// The kinds of deviations from AG-UI 1.0, with what becomes of them.
const (
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

// Decoder reads a run's input. It accepts what clients before and after 1.0 send
// and reports each deviation. The zero value is ready to use.
type Decoder struct {
	// Strict refuses what the schema of 1.0 refuses: nulls, retired and unknown
	// types, unknown variants. Unknown members are dropped either way, as the
	// specification says.
	Strict bool
	// MaxBytes bounds an input; 0: [MaxFrameBytes].
	MaxBytes int
	// OnDeviation is told of everything that was passed over, in inputs that
	// were read.
	OnDeviation func(Deviation)
}

// DecodeRunInput reads a run's input as a server must: unknown members are
// dropped, nulls of older clients are absent, all else that is wrong is an
// error, and then the request is refused with a status of 4xx.
func DecodeRunInput(data []byte) (*RunInput, error) {
	var d Decoder
	return d.RunInput(data)
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
