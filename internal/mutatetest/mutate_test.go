package mutatetest_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/mutatetest"
	"github.com/askance-dev/askance/internal/strictjson"
)

func TestEach(t *testing.T) {
	const doc = `{"a":1,"b":["x",true],"c":"{\"d\":\"e\"}"}`
	seen := map[string]string{}
	for what, b := range mutatetest.Each([]byte(doc)) {
		if string(b) == doc {
			t.Errorf("%s changes nothing", what)
		}
		if strictjson.Check(b) != nil && !strings.Contains(what, " twice") {
			t.Errorf("%s is not JSON: %s", what, b)
		}
		seen[what] = string(b)
	}
	for what, want := range map[string]string{
		"/a left out":     `{"b":["x",true],"c":"{\"d\":\"e\"}"}`,
		"/a twice":        `{"a":1,"a":1,"b":["x",true],"c":"{\"d\":\"e\"}"}`,
		"/a is 2":         `{"a":2,"b":["x",true],"c":"{\"d\":\"e\"}"}`,
		"/b moved up":     `{"b":["x",true],"a":1,"c":"{\"d\":\"e\"}"}`,
		"/b/1 moved up":   `{"a":1,"b":[true,"x"],"c":"{\"d\":\"e\"}"}`,
		"/b/1 is false":   `{"a":1,"b":["x",false],"c":"{\"d\":\"e\"}"}`,
		"/c›/d left out":  `{"a":1,"b":["x",true],"c":"{}"}`,
		"/c›/d is \"ex\"": `{"a":1,"b":["x",true],"c":"{\"d\":\"ex\"}"}`,
		" with one more":  `{"a":1,"b":["x",true],"c":"{\"d\":\"e\"}","one_more":1}`,
	} {
		if seen[what] != want {
			t.Errorf("%s returns %s, want %s", what, seen[what], want)
		}
	}
}
