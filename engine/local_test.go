package engine_test

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// local is an engine.Executor of plain functions.
type local map[string]func(context.Context, message.Invocation) (string, error)

func (l local) Has(tool string) bool { return l[tool] != nil }

func (l local) Run(ctx context.Context, inv message.Invocation, progress func(string)) message.ToolResultBlock {
	out, err := l[inv.Call.Tool](ctx, inv)
	r := message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultSuccess, Output: message.Content{Text: out}}
	switch {
	case ctx.Err() != nil:
		r.State = message.ToolResultInterrupted
	case err != nil:
		r.State, r.Output.Text = message.ToolResultError, err.Error()
	}
	return r
}
