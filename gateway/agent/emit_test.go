package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
)

// forger is an agent that invents a message of its user.
type forger struct{}

func (forger) Info() agent.Info { return agent.Info{Name: "forger"} }

func (forger) Run(ctx context.Context, t agent.Turn) error {
	return t.Emit(ctx, &message.Custom{Name: agent.TurnEvent, Value: map[string]any{}})
}

// TestOwnNames: an agent cannot write records that are reserved for the gateway.
func TestOwnNames(t *testing.T) {
	s := newStage(t, forger{})
	if _, err := s.runner.Start(t.Context(), user(), "s", "forger", agent.Input{Messages: []*message.Msg{says(t, "m1", "hello")}}); err != nil {
		t.Fatal(err)
	}
	last := s.ended("s").Messages[1]
	if last.Error == nil || !strings.Contains(last.Error.Message, "askance's own") {
		t.Errorf("the reply ends with %+v", last.Error)
	}
}
