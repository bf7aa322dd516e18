package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	described "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
)

// The official exporter brings gRPC and its gateway into the binary; this one sends the
// same message with net/http.

// Open returns a Tracer configured by the OTEL_… variables; nil if they name no receiver.
func Open(version string, log *slog.Logger) (*Tracer, error) {
	endpoint, on, err := endpointOf()
	if err != nil || !on {
		return nil, err
	}
	e := &exporter{url: endpoint, headers: http.Header{}, client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: refuseRedirect}}
	if err := e.configure(); err != nil {
		return nil, err
	}
	named, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", "askance"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, otelError("OTEL_RESOURCE_ATTRIBUTES cannot be read", "write name=value,name=value", err)
	}
	otel.SetErrorHandler(&failures{log: log})
	p := sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithResource(named), sdk.WithIDGenerator(ids{}))
	return &Tracer{provider: p, tracer: p.Tracer("github.com/askance-dev/askance")}, nil
}

// warnEvery is how often a receiver that takes no spans is logged: a batch fails every few seconds.
const warnEvery = time.Minute

// failures logs errors of the exporter.
type failures struct {
	log *slog.Logger

	mu    sync.Mutex // guards the rest
	times int        // since the last line
	told  time.Time
}

// Handle implements otel.ErrorHandler.
func (f *failures) Handle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times++
	if !f.told.IsZero() && time.Since(f.told) < warnEvery {
		return
	}
	f.log.Warn("traces are not sent", "times", f.times, "err", err)
	f.times, f.told = 0, time.Now()
}

func otelError(what, hint string, err error) error {
	return &message.Error{Code: message.CodeInvalid, Op: "trace", What: what, Hint: hint, Err: err}
}

// variable returns the variable for traces or, without it, that for all signals.
func variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// endpointOf returns the URL for spans, and whether tracing is on.
func endpointOf() (string, bool, error) {
	kind := os.Getenv("OTEL_TRACES_EXPORTER")
	own, all := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || kind == "none" || kind == "" && own == "" && all == "":
		return "", false, nil
	case kind != "" && kind != "otlp":
		return "", false, otelError("OTEL_TRACES_EXPORTER is "+strconv.Quote(kind), "use otlp or none", nil)
	}
	if p := variable("PROTOCOL"); p != "" && p != "http/protobuf" {
		return "", false, otelError("the OTLP protocol "+strconv.Quote(p)+" is not supported", "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf and name the HTTP port of the receiver, usually 4318", nil)
	}
	if own == "" {
		own = strings.TrimSuffix(cmp.Or(all, "http://localhost:4318"), "/") + "/v1/traces"
	}
	u, err := url.Parse(own)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false, otelError("the OTLP endpoint is not a URL", "set OTEL_EXPORTER_OTLP_ENDPOINT, for example http://collector:4318", nil) // it may contain a password
	}
	return own, true, nil
}

// exporter sends spans over HTTP.
type exporter struct {
	url     string
	headers http.Header
	client  *http.Client
}

// refuseRedirect keeps the headers, which can hold keys, from a server that the operator did not name.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (e *exporter) configure() error {
	for pair := range strings.SplitSeq(variable("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return otelError("OTEL_EXPORTER_OTLP_HEADERS cannot be read", "write name=value,name=value with percent-encoded values", nil)
		}
		e.headers.Set(strings.TrimSpace(name), value)
	}
	if text := variable("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return otelError("OTEL_EXPORTER_OTLP_TIMEOUT is "+strconv.Quote(text), "write milliseconds, for example 10000", nil)
		}
		e.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := variable("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if secure.RootCAs = x509.NewCertPool(); err != nil || !secure.RootCAs.AppendCertsFromPEM(pem) {
			return otelError("OTEL_EXPORTER_OTLP_CERTIFICATE does not name a file with certificates", "name a PEM file", err)
		}
	}
	if cert, key := variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return otelError("the client certificate of OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE cannot be read", "name PEM files of a certificate and its key", err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	e.client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return nil
}

// tries bounds how often a batch is sent if the receiver cannot accept it now.
const tries = 3

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(request(spans))
	if err != nil || len(spans) == 0 {
		return err
	}
	for n := 1; ; n++ {
		again, err := e.send(ctx, body)
		if err == nil || !again || n == tries {
			return err
		}
		if sleep.For(ctx, time.Duration(n)*time.Second) != nil {
			return err
		}
	}
}

func (e *exporter) send(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header = e.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := e.client.Do(r)
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err // without the URL, which can hold a key
	}
	if err != nil {
		return true, fmt.Errorf("the OTLP receiver could not be reached: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	temporary := []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	return slices.Contains(temporary, resp.StatusCode), fmt.Errorf("the OTLP receiver answered %s", resp.Status)
}

func (e *exporter) Shutdown(context.Context) error { e.client.CloseIdleConnections(); return nil }

// request returns the OTLP message for spans, which all have one resource and one scope.
func request(spans []sdk.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	if len(spans) == 0 {
		return nil
	}
	scope := spans[0].InstrumentationScope()
	out := &wire.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version}}
	for _, s := range spans {
		own, above, status := s.SpanContext(), s.Parent(), s.Status()
		id, parent, traceID := own.SpanID(), above.SpanID(), own.TraceID()
		span := &wire.Span{
			TraceId: traceID[:], SpanId: id[:], TraceState: own.TraceState().String(), Name: s.Name(), Kind: wire.Span_SpanKind(s.SpanKind()),
			StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
			Attributes: attributes(s.Attributes()), Flags: uint32(own.TraceFlags()),
			Status: &wire.Status{Message: status.Description},
		}
		if status.Code == 1 { // codes.Error; the numbers of OTLP differ
			span.Status.Code = wire.Status_STATUS_CODE_ERROR
		}
		if above.HasSpanID() {
			span.ParentSpanId = parent[:]
		}
		out.Spans = append(out.Spans, span)
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*wire.ResourceSpans{{
		Resource: &described.Resource{Attributes: attributes(spans[0].Resource().Attributes())}, ScopeSpans: []*wire.ScopeSpans{out},
	}}}
}

// attributes converts the attributes of spans, which are strings and integers.
func attributes(of []attribute.KeyValue) (out []*common.KeyValue) {
	for _, a := range of {
		v := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(a.Value.String(), "�")}}
		if a.Value.Type() == attribute.INT64 {
			v = &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}}
		}
		out = append(out, &common.KeyValue{Key: string(a.Key), Value: v})
	}
	return out
}

// ids returns the ids in the context, which are derived from a call, else random ones.
type ids struct{}

func (i ids) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.trace, w.span
	}
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return id, i.NewSpanID(ctx, id)
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if w, ok := ctx.Value(wantedKey{}).(wanted); ok {
		return w.span
	}
	_, _ = rand.Read(span[:]) // never fails (crypto/rand)
	return span
}
