package toolcall

import (
	"bytes"
	"errors"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// errReadsOtherwise indicates a defect of this program, not of the record.
var errReadsOtherwise = errors.New("the stored form reads as another event record")

// EncodeAndRead encodes an event record like [EncodeStored], and returns the record that
// readers will get. The next record of the call builds on that one, because f may change.
// After an error nothing may be written.
//
// Invariant: read has the same JSON form as f, except for the sequence of its call.
func EncodeAndRead(f *EventRecord, base *RecordBase) (body []byte, read *EventRecord, err error) {
	if body, err = EncodeStored(f, base); err == nil {
		read, err = readBack(body, f, base)
	}
	switch {
	case errors.Is(err, errReadsOtherwise):
		return nil, nil, &message.Error{Code: message.CodeInternal, Op: "append", What: "nothing was written: the event record would be read differently", Hint: "report this defect of askance; restart the engine", Err: err}
	case err != nil:
		return nil, nil, &message.Error{Code: message.CodeInvalid, Op: "append", What: "the event record has no JSON form that can be read back", Hint: "use valid UTF-8, finite numbers and at most 64 levels", Err: err}
	}
	return body, read, nil
}

func readBack(body []byte, f *EventRecord, base *RecordBase) (*EventRecord, error) {
	s, err := DecodeStored(body)
	if err != nil {
		return nil, err
	}
	read, err := s.Expand(base)
	if err != nil {
		return nil, errors.Join(errReadsOtherwise, err)
	}
	want := *f
	if f.Call != nil && f.Call.Seq != 0 {
		want.Call = f.Call.Clone()
		want.Call.Seq = 0
	}
	if reflect.DeepEqual(read, &want) {
		return read, nil
	}
	have, err := strictjson.Marshal(read) // equal values may differ in memory
	if err != nil {
		return nil, err
	}
	expected, err := strictjson.Marshal(&want)
	if err == nil && !bytes.Equal(have, expected) {
		err = errReadsOtherwise
	}
	return read, err
}
