package inbox

import (
	"context"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// explanation is how the policy of now judges a call, as far as a page shows
// it. Problem is set where it cannot be told.
type explanation struct {
	Problem string `json:"-"`

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

// explain asks the policy. What rules hide it would show: such calls are not
// explained here.
func explain(ctx context.Context, p *gateway.Peer, c *message.Call) *explanation {
	switch {
	case p.Space.Explain == nil:
		return &explanation{Problem: "Not available here: this server does not have the policy at hand."}
	case c.Hides():
		return &explanation{Problem: "Rules hide a part of this call's arguments, and an explanation would show it."}
	}
	raw, err := p.Space.Explain(ctx, c)
	if err != nil {
		return &explanation{Problem: message.AsError("explain", err).What}
	}
	out := new(explanation)
	if err := strictjson.UnmarshalOpen(raw, out); err != nil {
		return &explanation{Problem: "The explanation cannot be read."}
	}
	return out
}
