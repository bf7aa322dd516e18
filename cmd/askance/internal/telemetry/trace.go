// Package telemetry makes OpenTelemetry traces of calls and sends them to an OTLP
// receiver. It is off unless the variables of OpenTelemetry name one.
//
// The spans of a call are derived from its records, and their ids from the ids of the call:
// engines and workers that never met make one connected trace, even after a restart.
// The journal keeps the trace of the proposal, and nothing else about traces. Spans
// have the ids of calls, tools, rules, verdicts and workers; never arguments or results.
package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The spans of a call.
const (
	spanCall    = "call"
	spanPropose = "propose"
	spanDecide  = "decide"
	spanWait    = "wait for approval"
	spanQueued  = "queued"
	spanRun     = "run"
	spanResult  = "result"
	spanExecute = "execute"
)

// Tracer makes spans. A nil Tracer makes none. Its methods may be called from many goroutines.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Close sends the spans that have ended and stops, within five seconds.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

const closeTime = 5 * time.Second

// NewTrace returns a trace for a call that was proposed without one.
func (t *Tracer) NewTrace(key toolcall.Key) toolcall.Trace {
	h := hash(key, "trace", 0)
	id := wanted{trace: trace.TraceID(h[:16]), span: spanID(key, spanCall, 0)}
	// The sampler decides; a span that never ends is not sent.
	_, span := t.tracer.Start(context.WithValue(context.Background(), wantedKey{}, id), spanCall)
	return format(span.SpanContext())
}

// Observe makes the spans that a record ends.
func (t *Tracer) Observe(w engine.Written) {
	c := w.Record.Call
	if c == nil || w.Record.Note != nil {
		return
	}
	in, ok := parse(c.Trace)
	if !ok {
		return
	}
	r := &recorded{t: t, c: c, in: in, at: w.Record.At, end: w.Record.At.Add(w.Took)}
	for _, s := range w.Record.Path {
		r.step(toolcall.Cause(s.Cause), w)
	}
	if c.State == message.ToolCallFinished {
		r.root()
	}
}

type recorded struct {
	t       *Tracer
	c       *toolcall.Call
	in      trace.SpanContext // of the proposal
	at, end time.Time         // of the record, and when it was durable
	edited  bool
}

func (r *recorded) step(cause toolcall.Cause, w engine.Written) {
	c := r.c
	r.edited = r.edited || cause == toolcall.CauseEdit
	verdict := attribute.String("askance.verdict", string(cause.Verdict(r.edited)))
	switch cause {
	case toolcall.CausePropose:
		r.child(spanPropose, 0, c.ProposedAt, r.end, nil, attribute.String("askance.runtime", c.Runtime))
	case toolcall.CauseAllow, toolcall.CauseAsk, toolcall.CauseDeny, toolcall.CauseRefuse:
		if !r.edited {
			r.child(spanDecide, 0, c.ProposedAt, r.at, nil, verdict)
			return
		}
		if cause == toolcall.CauseAllow {
			r.waited(w, verdict)
		}
	case toolcall.CauseApprove, toolcall.CauseReject, toolcall.CauseRespond, toolcall.CauseExpire:
		r.waited(w, verdict)
	case toolcall.CauseStart:
		if !c.Attempt.OfferedAt.IsZero() {
			r.child(spanQueued, c.Attempt.Number, c.Attempt.OfferedAt, c.Attempt.StartedAt, nil)
		}
	case toolcall.CauseLose:
		r.child(spanRun, c.Attempt.Number, c.Attempt.StartedAt, r.at, errLost)
	case toolcall.CauseResult:
		r.child(spanRun, c.Attempt.Number, c.Attempt.StartedAt, r.at, outcome(c))
		r.child(spanResult, c.Attempt.Number, r.at, r.end, nil)
	default:
	}
}

func (r *recorded) waited(w engine.Written, verdict attribute.KeyValue) {
	asked := w.AskedAt
	if asked.IsZero() {
		asked = r.c.ProposedAt
	}
	r.child(spanWait, r.c.Records, asked, r.at, nil, verdict)
}

// status says in a word why a span failed, because error texts can repeat arguments.
type status string

const (
	errLost   status = "lost"
	errFailed status = "error"
)

func (s status) Error() string { return string(s) }

func outcome(c *toolcall.Call) error {
	if c.Result == nil || c.Result.State == message.ToolResultSuccess {
		return nil
	}
	return errFailed
}

// child makes a span below that of the call.
func (r *recorded) child(name string, n int, from, to time.Time, failed error, more ...attribute.KeyValue) {
	if from.IsZero() {
		from = r.at
	}
	above := r.in.WithSpanID(spanID(r.c.Key, spanCall, 0))
	r.t.span(above, wanted{above.TraceID(), spanID(r.c.Key, name, n)}, name, from, to, failed, append(r.attributes(n), more...))
}

// root makes the span of the whole call.
func (r *recorded) root() {
	own := spanID(r.c.Key, spanCall, 0)
	above := r.in
	if above.SpanID() == own { // this span begins the trace
		above = trace.SpanContext{}
	}
	more := []attribute.KeyValue{attribute.String("askance.cause", r.c.Cause)}
	if r.c.Decision != nil {
		more = append(more, attribute.String("askance.verdict", string(r.c.Decision.Behavior)))
	}
	r.t.span(above, wanted{r.in.TraceID(), own}, spanCall+" "+r.c.Tool, r.c.ProposedAt, r.end, outcome(r.c), append(r.attributes(0), more...))
}

func (r *recorded) attributes(attempt int) []attribute.KeyValue {
	out := keyAttributes(r.c.Key, r.c.Tool)
	if d := r.c.Decision; d != nil {
		out = append(out, attribute.String("askance.rule", d.Rule))
	}
	if attempt > 0 && r.c.Attempt.Worker != "" {
		out = append(out, attribute.Int("askance.attempt", r.c.Attempt.Number), attribute.String("askance.worker", r.c.Attempt.Worker))
	}
	return out
}

func keyAttributes(k toolcall.Key, tool string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("askance.space", string(k.Space)), attribute.String("askance.session_id", string(k.Session)),
		attribute.String("askance.reply_id", string(k.Reply)), attribute.String("askance.tool_call_id", string(k.Call)), attribute.String("askance.tool", tool),
	}
}

func (t *Tracer) span(above trace.SpanContext, id wanted, name string, from, to time.Time, failed error, at []attribute.KeyValue) {
	ctx := trace.ContextWithRemoteSpanContext(context.WithValue(context.Background(), wantedKey{}, id), above)
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(at...))
	if failed != nil {
		span.SetStatus(codes.Error, failed.Error())
	}
	span.End(trace.WithTimestamp(to))
}

// Handler makes a span for each run of a worker, and passes its trace to the tool. A nil
// Tracer returns the handler unchanged.
func (t *Tracer) Handler(h executor.Handler) executor.Handler {
	if t == nil {
		return h
	}
	return func(ctx context.Context, task executor.Task) (executor.Output, error) {
		in, ok := parse(task.Trace)
		if !ok {
			return h(ctx, task)
		}
		above := in.WithSpanID(spanID(task.Call, spanRun, task.Attempt))
		at := append(keyAttributes(task.Call, task.Tool), attribute.Int("askance.attempt", task.Attempt))
		ctx, span := t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, above), spanExecute+" "+task.Tool, trace.WithAttributes(at...))
		task.Trace = format(span.SpanContext())
		out, err := h(ctx, task)
		if err != nil {
			span.SetStatus(codes.Error, string(errFailed))
		}
		span.End()
		return out, err
	}
}

// parse parses a trace; false if it is invalid or not sampled.
func parse(t toolcall.Trace) (trace.SpanContext, bool) {
	if t.ID() == "" {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(t.ID())
	if err != nil {
		return trace.SpanContext{}, false
	}
	span, err := trace.SpanIDFromHex(string(t[36:52]))
	if err != nil {
		return trace.SpanContext{}, false
	}
	sampled := t[54] == '1' || t[54] == '3' || t[54] == '5' || t[54] == '7' || t[54] == '9' || t[54] == 'b' || t[54] == 'd' || t[54] == 'f'
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true}), sampled
}

func format(c trace.SpanContext) toolcall.Trace {
	return toolcall.Trace(fmt.Sprintf("00-%s-%s-%02x", c.TraceID(), c.SpanID(), byte(c.TraceFlags()&trace.FlagsSampled)))
}

// hash returns the bits of an id that is derived from a call, a name and a number.
func hash(key toolcall.Key, name string, n int) [sha256.Size]byte {
	b := []byte("askance trace 1")
	for _, part := range []string{string(key.Space), string(key.Session), string(key.Reply), string(key.Call), name} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(n)))
}

func spanID(key toolcall.Key, name string, n int) trace.SpanID {
	h := hash(key, name, n)
	return trace.SpanID(h[:8])
}

// wanted has the ids of a span, which are derived from its call.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

type wantedKey struct{}
