package strictjson_test

import (
	stdjson "encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
)

// own encodes itself, correctly or not.
type own string

func (o own) MarshalJSON() ([]byte, error) { return []byte(o), nil }

// fixed has members whose names the inlined map can repeat.
type fixed struct {
	A    any            `json:"a"`
	B    any            `json:"b,omitzero"`
	More map[string]any `json:",inline"`
}

// texts are pieces of valid and invalid JSON.
var texts = []string{`1`, `"x"`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, "\"\xff\"", `"\ud800"`, `[1,]`, `{"a":1}{}`, ` {"a" : [1, 2]} `, `nul`, `1e999`, `-0`, `[[[[]]]]`, ``}

func anyValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 7
		if depth == 0 {
			most = 4
		}
		name := rapid.SampledFrom([]string{"a", "b", "\xff", "ÿ", "�"})
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.Float64().Draw(t, "number")
		case 1:
			return name.Draw(t, "text") + rapid.String().Draw(t, "more")
		case 2:
			return stdjson.RawMessage(rapid.SampledFrom(texts).Draw(t, "raw"))
		case 3:
			return own(rapid.SampledFrom(texts).Draw(t, "own"))
		case 4:
			return stdjson.Number(rapid.SampledFrom(texts).Draw(t, "digits"))
		case 5:
			return rapid.SliceOfN(anyValue(depth-1), 0, 3).Draw(t, "list")
		case 6:
			return rapid.MapOfN(name, anyValue(depth-1), 0, 3).Draw(t, "map")
		default:
			return fixed{anyValue(depth-1).Draw(t, "a"), anyValue(depth-1).Draw(t, "b"), rapid.MapOfN(name, anyValue(depth-1), 0, 2).Draw(t, "rest")}
		}
	})
}

// The output of Marshal needs no checks except for its limits.
func TestMarshalledValuesAreAcceptable(t *testing.T) {
	wrote := 0
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		b, err := strictjson.Marshal(v)
		if err != nil {
			return
		}
		wrote++
		if err := strictjson.Check(b); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
	})
	if wrote == 0 {
		t.Error("nothing was encoded")
	}
}
