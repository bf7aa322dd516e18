package toolcall

import (
	"slices"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
)

// A path is read in each valid spelling, and refused in any other.
func TestReadPath(t *testing.T) {
	base := &RecordBase{Record: &EventRecord{Call: &Call{State: asking}}}
	short := []Step{{"approve", asking, allowed}, {"start", allowed, allowed}, {"new\n", allowed, "x"}}
	for path, want := range map[string][]Step{
		`null`: nil,
		`[]`:   {},
		`[["approve","allowed"],["start"],["new\n","x"]]`:                               short,
		" [ [\"approve\" , \"allowed\"],\n[\"start\"],[\"new\\u000a\",\"\\u0078\"] ] ":  short,
		`[{"cause":"approve","from":"pending","to":"allowed"},["start"],["new\n","x"]]`: {{"approve", pending, allowed}, short[1], short[2]},
		`[ ["approve","allowed"], {"cause":"start","to":"x"}]`:                          {short[0], {"start", allowed, "x"}},
		`[["a","b","c","d"],["e"],["f"],["g"],["h"]]`:                                   nil,
	} {
		rec := &EventRecord{}
		err := rec.readPath(strictjson.Encoded(path), base)
		if refused := want == nil && path != "null"; refused != (err != nil) || !refused && !slices.Equal(rec.Path, want) {
			t.Errorf("%s: %+v, %v, want %+v", path, rec.Path, err, want)
		}
	}
	for _, path := range []string{`[[]]`, `[["a",1]]`, `[["a","b","c"]]`, `[["a",]]`, `[["a"],]`, `["a"]`, `[1]`, `[null]`, `[{"cause":1}]`, `[{"other":"a"}]`, `[["a"]`, `[["a"]]x`, `[["\ud800"]]`} {
		if err := (&EventRecord{}).readPath(strictjson.Encoded(path), base); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}
