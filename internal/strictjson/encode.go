package strictjson

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marshal encodes v: struct members in field order, map members sorted, nil
// slices as [], nil maps as {}, no HTML escapes, no white space. The same
// value always gives the same bytes. Text that is not UTF-8 and numbers that
// are not finite are refused.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v, encodeOptions)
	if err != nil {
		return nil, errorOf("encode", err)
	}
	return b, nil
}

// Raw strings are kept so that a value which is only passed through keeps its
// spelling; white space between tokens is removed all the same.
var encodeOptions = json.JoinOptions(
	json.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(encodeNumber),
		json.MarshalToFunc(encodeFloat),
	)),
)

func encodeNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	return enc.WriteValue(jsontext.Value(n))
}

// encodeFloat writes large whole numbers with an exponent, because plain digits
// would come back as an integer that int64 cannot hold, and zero without sign,
// which would come back as the integer 0.
func encodeFloat(enc *jsontext.Encoder, f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("%v is no JSON number", f)
	}
	if f == 0 {
		return enc.WriteToken(jsontext.Int(0))
	}
	if math.Abs(f) < 1<<63 {
		return enc.WriteToken(jsontext.Float(f))
	}
	return enc.WriteValue(strconv.AppendFloat(nil, f, 'e', -1, 64))
}
