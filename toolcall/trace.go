package toolcall

import (
	"context"
	"strings"
)

// Trace is a position in a distributed trace, in the form of the traceparent header of W3C
// Trace Context: version, trace, span and flags in lower-case hexadecimal. The zero value
// means none.
type Trace string

// TraceHeader is the header that contains a Trace over HTTP and NATS.
const TraceHeader = "traceparent"

// ParseTrace parses a traceparent. An unusable one becomes "", as W3C Trace Context demands:
// a trace never prevents a request from being served.
func ParseTrace(header string) Trace {
	if len(header) < 55 || strings.HasPrefix(header, "ff") || strings.HasPrefix(header, "00") && len(header) > 55 || len(header) > 55 && header[55] != '-' {
		return ""
	}
	header = "00" + header[2:55]
	for i, c := range header {
		switch {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return ""
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return ""
		}
	}
	if strings.Trim(header[3:35], "0") == "" || strings.Trim(header[36:52], "0") == "" {
		return ""
	}
	return Trace(header)
}

// ID is the trace's id, or "".
func (t Trace) ID() string {
	if len(t) != 55 {
		return ""
	}
	return string(t[3:35])
}

type traceKey struct{}

// WithTrace returns a context with a position in a trace, for requests made with it.
func WithTrace(ctx context.Context, t Trace) context.Context {
	if t == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the context's position in a trace.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
