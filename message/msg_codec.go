package message

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/google/uuid"
)

// Codec reads AgentScope's JSON, makes messages and applies events to them. The package's
// functions use the zero value; fields change individual points. A Codec is a value without
// state and may be used from several goroutines if its functions may.
type Codec struct {
	// Now is the clock for times that the input lacks; nil means time.Now.
	Now func() time.Time
	// NewID makes ids that the input lacks; nil means 32 random hex digits.
	NewID func() string
	// MaxBytes bounds what Decode accepts; 0 means 1 MiB.
	MaxBytes int
	// RefuseUnknown refuses blocks and events of unknown type, as upstream does,
	// instead of keeping them as UnknownBlock and UnknownEvent.
	RefuseUnknown bool
	// ReplayStamps makes Append take a new block's created_at from Now and its id from NewID,
	// as upstream does. Otherwise both come from the event, so everyone who replays the same
	// events gets the same message.
	ReplayStamps bool
	// OnSkip, if set, is called for every event that Append leaves out, entirely or in
	// part, because the message has no place for it.
	OnSkip func(e Event, why string)
}

// DecodeMsg decodes a message, fills in the defaults and checks the role rule.
func (c Codec) DecodeMsg(data []byte) (*Msg, error) {
	return checkAndDecode(c, "decode message", data, func(data []byte) (*Msg, error) {
		m := new(Msg)
		return m, c.decodeInto(data, m)
	})
}

// DecodeBlock decodes one content block by its type.
func (c Codec) DecodeBlock(data []byte) (Block, error) {
	return checkAndDecode(c, "decode block", data, func(data []byte) (Block, error) { return readBlock(c.reader(), data) })
}

// DecodeEvent decodes one event by its type.
func (c Codec) DecodeEvent(data []byte) (Event, error) {
	return checkAndDecode(c, "decode event", data, c.decodeEvent)
}

// DecodeMsg is Codec.DecodeMsg with the zero Codec.
func DecodeMsg(data []byte) (*Msg, error) { return Codec{}.DecodeMsg(data) }

// DecodeEvent is Codec.DecodeEvent with the zero Codec.
func DecodeEvent(data []byte) (Event, error) { return Codec{}.DecodeEvent(data) }

// timestampLayout is ISO 8601 without a zone, like Python's isoformat.
const timestampLayout = "2006-01-02T15:04:05.000000"

// Timestamp formats a time as AgentScope does: ISO 8601 in t's location, without a zone, in
// microseconds, without the fraction if it is 0.
func Timestamp(t time.Time) string {
	return strings.TrimSuffix(t.Format(timestampLayout), ".000000")
}

func (c Codec) now() string {
	if c.Now == nil {
		return Timestamp(time.Now())
	}
	return Timestamp(c.Now())
}

func (c Codec) newID() string {
	if c.NewID == nil {
		return strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	return c.NewID()
}

// checkAndDecode checks data as a whole before it decodes it.
func checkAndDecode[T any](c Codec, op string, data []byte, decode func([]byte) (T, error)) (T, error) {
	var none T
	if err := strictjson.Check(data, strictjson.MaxBytes(c.MaxBytes)); err != nil {
		return none, DecodeError(op, err)
	}
	v, err := decode(data)
	if err != nil {
		return none, DecodeError(op, err)
	}
	return v, nil
}

// DecodeError converts a codec's error to the type that leaves its package: too_large for
// anything over a limit, otherwise invalid.
func DecodeError(op string, err error) *Error {
	if errors.Is(err, strictjson.ErrTooLarge) {
		return Errorf(CodeTooLarge, op, "%w", err)
	}
	return Errorf(CodeInvalid, op, "%w", err)
}

// unmarshal implements UnmarshalJSON of the types of this package: with the zero Codec, but
// without its size limit, because the document around the value was already measured.
func unmarshal(data []byte, v any) error {
	if err := strictjson.Check(data, strictjson.MaxBytes(math.MaxInt)); err != nil {
		return err
	}
	return Codec{}.decodeInto(data, v)
}

// RawJSON is a JSON value as unparsed bytes.
type RawJSON = json.RawMessage
