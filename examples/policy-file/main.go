// Command policy-file loads a rule file and prints its decisions about a few calls.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"time"

	"github.com/askance-dev/askance/permission"
)

//go:embed policy.yaml
var policy []byte

const schema = `{
  "type": "object", "required": ["order", "cents"], "additionalProperties": false,
  "properties": {"order": {"type": "string", "maxLength": 20}, "cents": {"type": "integer", "minimum": 1}}
}`

func main() {
	s, err := permission.CompileSchema([]byte(schema))
	if err != nil {
		log.Fatal(err)
	}
	tools := []permission.Tool{{Name: "refund", Schema: s}}
	bundle, err := permission.Load([]permission.File{{Name: "policy.yaml", Data: policy}}, permission.Options{Tools: tools})
	if err != nil {
		log.Fatal(err) // names file, line and column of every fault
	}
	for _, input := range []string{
		`{"order":"A-1","cents":900}`,
		`{"order":"A-1","cents":19900}`,
		`{"order":"A-1","cents":250000}`,
		`{"order":"A-1","cents":"900"}`, // a wrong type never falls through to allow
	} {
		d := bundle.Decide(context.Background(), permission.Request{Tool: "refund", Input: []byte(input), Now: time.Now()})
		fmt.Printf("%-5s %-13s %s\n", d.Behavior, d.Rule, input)
	}
}
