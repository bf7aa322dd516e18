package gateway

import (
	"context"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// Space is one space of calls as the gateway sees it: what it needs of an
// engine and its journal. All functions may be called from many goroutines.
type Space struct {
	ID message.SpaceID
	// As gives the engine to an authenticated principal. Engine.As is one.
	As func(message.Principal) engine.Client
	// Watch delivers every record that is written from now on to sink, in order
	// and from one goroutine, first calling sink.CaughtUp once it is listening.
	// It returns when ctx ends or the journal cannot go on.
	Watch func(ctx context.Context, sink message.Sink) error
	// Progress calls f, from one goroutine, for progress lines of running calls
	// until stop is called. Best effort. nil: there are none.
	Progress func(f func(message.ProgressRequest)) (stop func())
	// Tools are the engine's tools, for their schemas and descriptions.
	Tools []engine.Tool
}
