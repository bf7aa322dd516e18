// Package agenthook decides about the tool calls of coding agents whose hooks ask it:
// each event of a hook is one request, held until the call is decided.
//
//	POST /v1/hooks/claude-code   {"hook_event_name":"PreToolUse", …}
//
// The hook command and HTTP hooks of the agents use the same routes, so one place decides. The
// event before a tool proposes an external call; the event after it reports the result. Package
// dialect implements the formats.
//
// # Limits
//
// The agent runs the tool. askance therefore cannot enforce that an allowed call runs
// once, or that it runs at all.
package agenthook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// InvocationHeader has a random id of the hook command. The server returns it, so that the
// command accepts no answer from a server that is not askance.
const InvocationHeader = "Askance-Invocation"

// Path is the route of a dialect.
func Path(d dialect.Dialect) string { return "/v1/hooks/" + string(d) }

// Options are the query of a request. The zero value is right for an HTTP hook.
type Options struct {
	Hold   time.Duration // how long to wait for the decision; 0: the agent's default timeout less a margin
	Pass   bool          // leave allowed calls to the agent's own rules
	DryRun bool          // decide and record nothing
	// Status reports failures as HTTP errors. Agents run the tool on an HTTP error, so
	// without Status a failure is a denial.
	Status bool
}

// maxHold is the longest time for which agents are known to wait.
const maxHold = 24 * time.Hour

// Query encodes the options as a query.
func (o Options) Query() url.Values {
	q := url.Values{}
	if o.Hold > 0 {
		q.Set("hold_ms", strconv.FormatInt(o.Hold.Milliseconds(), 10))
	}
	for name, is := range map[string]bool{"pass": o.Pass, "dry_run": o.DryRun, "status": o.Status} {
		if is {
			q.Set(name, "true")
		}
	}
	return q
}

func readOptions(r *http.Request, d dialect.Dialect) (Options, error) {
	o := Options{Hold: d.Timeout() - dialect.Margin}
	bad := func(what string) (Options, error) {
		return o, &message.Error{Code: message.CodeInvalid, Op: "read hook request", What: what, Hint: "use hold_ms, pass, dry_run and status, each once"}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	o.Status = query.Get("status") == "true" // also if the rest is wrong
	if err != nil {
		return bad("the query cannot be read")
	}
	flags := map[string]*bool{"pass": &o.Pass, "dry_run": &o.DryRun, "status": &o.Status}
	for name, values := range query {
		flag, isFlag := flags[name]
		switch v := values[0]; {
		case len(values) > 1:
			return bad("the query parameter " + name + " occurs twice")
		case isFlag && (v == "true" || v == "false"):
			*flag = v == "true"
		case name == "hold_ms":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1 || n > maxHold.Milliseconds() {
				return bad(fmt.Sprintf("hold_ms is %q, not a number of milliseconds up to a day", v))
			}
			o.Hold = time.Duration(n) * time.Millisecond
		default:
			return bad(fmt.Sprintf("the query parameter %q is unknown or has the value %q", name, v))
		}
	}
	return o, nil
}

// New makes the surface. public returns the URL by which people reach the inbox of a space; "" if no browser does.
func New(public func(toolcall.SpaceID) string) gateway.Surface {
	var routes gateway.Routes
	for _, d := range dialect.Dialects() {
		routes = append(routes, gateway.Route{
			Method: http.MethodPost, Path: Path(d), Access: gateway.Only(toolcall.RoleRuntime), Stream: true, MaxBody: dialect.MaxEventBytes,
			Doc: "Send the hook events of " + string(d) + ".",
			Serve: func(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
				return serve(w, r, p, d, public(p.Space.ID))
			},
		})
	}
	return routes
}

// writeWithin bounds how long an agent may take to read its answer.
const writeWithin = 10 * time.Second

func serve(w http.ResponseWriter, r *http.Request, p *gateway.Peer, d dialect.Dialect, public string) error {
	invocation := r.Header.Get(InvocationHeader)
	if invocation == "" || len(invocation) > 64 {
		invocation = rand.Text()
	}
	g := &gate{feeds: p.Feeds, ev: dialect.Unreadable(d), invocation: message.CallID("hook-" + invocation), public: public}
	v, err := g.serve(r, p)
	if err == nil {
		err = answer(w, g.ev, v, invocation)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(r.Context()), context.Canceled): // the agent has gone
		return err
	case g.o.Status || g.ev.Kind == dialect.After:
		return err
	}
	return answer(w, g.ev, dialect.Verdict{Behavior: message.BehaviorDeny, Reason: failureText(err)}, invocation)
}

// serve reads a request and decides about its event.
func (g *gate) serve(r *http.Request, p *gateway.Peer) (v dialect.Verdict, err error) {
	if g.o, err = readOptions(r, g.ev.Dialect); err != nil {
		return v, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return v, err
	}
	if g.ev, err = dialect.Decode(g.ev.Dialect, body); err != nil {
		return v, err
	}
	if g.c, err = p.As(toolcall.RoleRuntime); err != nil {
		return v, err
	}
	return g.decide(r.Context())
}

func failureText(err error) string {
	e := message.AsError("decide", err)
	return "askance could not decide about this call: " + e.What + ". " + e.Hint
}

// answer encodes the whole answer before it sends anything.
func answer(w http.ResponseWriter, ev *dialect.Event, v dialect.Verdict, invocation string) error {
	b, err := dialect.Encode(ev, v)
	if err != nil {
		v = dialect.Verdict{Behavior: message.BehaviorDeny, Reason: failureText(err)}
		if b, err = dialect.Encode(ev, v); err != nil {
			return err
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) // fails only in a test without deadlines
	w.Header().Set(InvocationHeader, invocation)
	if len(b) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b) //nolint:gosec // the agent may be gone; b is JSON, and no page
	return nil
}
