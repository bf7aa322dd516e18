package inbox

import (
	"context"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// explanation is how the policy of now judges a call, as far as a page shows
// it. Problem is set where it cannot be told.
type explanation struct {
	Problem           string                   `json:"-"`
	StandingApprovals []message.StandingStatus `json:"-"` // that the decision on record relies on

	Decision string   `json:"decision"`
	Mode     string   `json:"mode"`
	Rule     string   `json:"rule"`
	Source   string   `json:"source"`
	Step     string   `json:"step"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message"`
	NearMiss string   `json:"near_miss"`
	Trace    []traced `json:"trace"`
	Shell    []piece  `json:"shell"`
}

type traced struct {
	Rule     string    `json:"rule"`
	Source   string    `json:"source"`
	Behavior string    `json:"behavior"`
	Matched  bool      `json:"matched"`
	Failed   bool      `json:"failed"`
	Reached  bool      `json:"reached"`
	Because  *because  `json:"because"`
	All      []because `json:"conjuncts"`
}

type because struct {
	Expr     string         `json:"expr"`
	Value    *bool          `json:"value"`
	Error    string         `json:"error"`
	Operands map[string]any `json:"operands"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
}

type piece struct {
	Text    string `json:"text"`
	Covered bool   `json:"covered"`
	Why     string `json:"why"`
}

// explain asks the engine, which leaves out what rules hide.
func explain(ctx context.Context, client engine.Client, c *message.Call) *explanation {
	out, err := client.Explain(ctx, message.ExplainRequest{V: 1, Key: c.Key})
	switch {
	case err != nil:
		return &explanation{Problem: message.AsError("explain", err).What}
	case out.Withheld != "":
		return &explanation{Problem: "No explanation: " + out.Withheld}
	case len(out.Trace) == 0:
		return &explanation{Problem: "Not available: this server has no policy that explains itself."}
	}
	e := &explanation{StandingApprovals: out.StandingApprovals}
	if err := strictjson.UnmarshalOpen(out.Trace, e); err != nil {
		return &explanation{Problem: "The explanation cannot be read."}
	}
	return e
}
