package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

type status struct {
	Server  string                   `json:"server"`
	Context string                   `json:"context,omitzero"`
	As      string                   `json:"as,omitzero"`
	Console string                   `json:"console,omitzero"`
	Client  string                   `json:"client_version"`
	Info    toolcall.InfoReply       `json:"info"`
	Policy  *policyInForce           `json:"policy"`
	Phases  map[toolcall.Phase]int   `json:"phases,omitzero"`
	Queues  []toolcall.ActivityQueue `json:"queues"`
	Next    []*toolcall.Call         `json:"next"` // the requests with the nearest deadlines
}

type policyInForce struct {
	Rules   int       `json:"rules"`
	Since   time.Time `json:"since,omitzero"`
	Bundle  string    `json:"bundle"`
	Refused string    `json:"refused,omitzero"` // why the newest policy is not in force
}

// nextRequests is how many requests askance status lists.
const nextRequests = 5

func newStatusCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:        "status",
		Aliases:    []string{"st"},
		SuggestFor: []string{"info", "overview"},
		Short:      "Show what matters now: server, policy, requests, workers",
		Long: `Asks the server for its version and durability, the policy in force, the calls in each
phase, the queues with their workers, and the requests with the nearest deadlines.
askance doctor finds problems and says how to fix them.`,
		Example: `  askance status
  askance status --context prod
  askance status -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connectLive(c.Context(), toolcall.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			s, err := readStatus(c.Context(), env, l)
			if err != nil {
				return err
			}
			return env.print(s, statusText(env, s, time.Now()))
		},
	}
	env.cfg.bindClient(c)
	return c
}

// serverName says which server the command talks to.
func serverName(env *environment) string {
	if env.cfg.NATS != "" {
		return bus.RedactURL(env.cfg.NATS)
	}
	return cmp.Or(env.cfg.Server, env.cfg.dir())
}

func readStatus(ctx context.Context, env *environment, l *link) (*status, error) {
	s := &status{Server: serverName(env), Context: env.context, As: env.cfg.As, Client: buildInfo().Version, Queues: []toolcall.ActivityQueue{}}
	if env.cfg.Server != "" {
		s.As = "" // the token says who
	}
	s.Console = cmp.Or(env.cfg.HTTPURL, env.cfg.Server)
	if s.Console == "" && env.cfg.NATS == "" {
		s.Console, _ = localConsole(env) // it is only a courtesy
	}
	var err error
	if s.Info, err = l.Info(ctx); err != nil {
		return nil, err
	}
	p, err := api.PolicyStatus.Call(ctx, l, struct{}{})
	if err != nil {
		return nil, err
	}
	s.Policy = &policyInForce{p.Rules, p.Loaded, p.Bundle, p.Alarm}
	next := toolcall.ListRequest{V: 1, Limit: nextRequests, Sort: toolcall.SortDeadline, Phases: []toolcall.Phase{toolcall.PhaseAsking}}
	if s.Next, err = engine.ListAll(ctx, l, next, nextRequests); err != nil {
		return nil, err
	}
	s.Next = s.Next[:min(nextRequests, len(s.Next))]
	first, err := l.List(ctx, toolcall.ListRequest{V: 1, Limit: 1})
	if err != nil {
		return nil, err
	}
	s.Phases = first.Counts
	activity, err := l.Activity(ctx, toolcall.ActivityRequest{V: 1, Since: time.Now().Add(-time.Minute), Recent: 1})
	if err != nil {
		return nil, err
	}
	s.Queues = append(s.Queues, activity.Queues...)
	return s, nil
}

func statusText(env *environment, s *status, now time.Time) string {
	out := env.out
	head := out.Good("running")
	if s.Info.NotReady != "" {
		head = out.Bad("running, not ready")
	}
	head += " " + term.SafeLine(s.Server)
	if s.Context != "" {
		head += ", context " + out.Name(s.Context)
	}
	t := newSheet(out, 10, head)
	if s.Info.NotReady != "" {
		t.row("not ready", out.Bad(term.SafeLine(s.Info.NotReady)))
	}
	version := s.Info.Version
	if s.Client != version {
		version += out.Ask(" (this command is " + s.Client + ")")
	}
	t.rowf("engine", "%s, version %s, space %s", term.SafeLine(s.Info.Engine), version, term.SafeLine(string(s.Info.Space)))
	t.row("you", term.SafeLine(s.As))
	t.row("console", s.Console)
	paint := out.Ask
	if s.Info.Durability == string(journal.DurabilityFsynced) || s.Info.Durability == string(journal.DurabilityQuorum) {
		paint = func(s string) string { return s }
	}
	t.row("durability", paint(term.SafeLine(durabilityMeaning(s.Info))))
	if s.Info.AnchorNew {
		t.row("anchor", out.Bad(newAnchorText))
	}
	t.row("policy", policyLine(env, s.Policy, now))
	var phases []string
	for _, p := range toolcall.Phases() {
		n := s.Phases[p]
		if n == 0 || p == toolcall.PhaseFinished {
			continue
		}
		text := fmt.Sprintf("%d %s", n, p)
		switch p {
		case toolcall.PhaseAsking:
			text = out.Ask(text)
		case toolcall.PhaseBlocked:
			text = out.Bad(text)
		}
		phases = append(phases, text)
	}
	if len(phases) == 0 {
		phases = []string{fmt.Sprintf("%d open, %d blocked", s.Info.Open, s.Info.Blocked)}
	}
	t.row("calls", strings.Join(phases, ", "))
	for _, q := range s.Queues {
		t.row("queue", queueLine(out, q, now))
	}
	text := t.String()
	if len(s.Next) > 0 {
		more := s.Phases[toolcall.PhaseAsking] - len(s.Next)
		text += "\n" + callsTable(out, s.Next, false, more > 0, now)
		if more > 0 {
			text += out.Dim(fmt.Sprintf("and %s: %s", asked.Count(more, "more request"), commandAgain(env, "list --phase asking"))) + "\n"
		}
	}
	return text
}

// What decides without rules, and without a policy that loads.
const (
	noRules  = "no rules: every call needs an approval, unless its mode or tool decides"
	noPolicy = "none is in force: everything but read-only tools is denied"
)

func policyLine(env *environment, p *policyInForce, now time.Time) string {
	text := asked.Count(p.Rules, "rule")
	if !p.Since.IsZero() {
		text += ", in force for " + asked.Span(now.Sub(p.Since))
	}
	switch {
	case p.Refused != "" && p.Since.IsZero():
		text = env.out.Bad(noPolicy) + ", see " + commandAgain(env, "policy status")
	case p.Refused != "":
		text += ", " + env.out.Bad("the newest version is refused") + ": " + commandAgain(env, "policy status")
	case p.Rules == 0:
		text = env.out.Ask(noRules) + "; write them with askance init"
	}
	return text
}

// durabilityMeaning says what an acknowledgement means and, if that is assumed, why.
func durabilityMeaning(info toolcall.InfoReply) string {
	text := acknowledgement(info.Durability)
	if info.DurabilityWhy != "" {
		text += " (assumed: " + info.DurabilityWhy + ")"
	}
	return text
}

// checkDurability warns if a crash can lose what the engine acknowledged.
func (d *diagnosis) checkDurability(info toolcall.InfoReply) {
	what := durabilityMeaning(info)
	switch info.Durability {
	case string(journal.DurabilityFsynced), string(journal.DurabilityQuorum):
		d.add("durability", levelOK, what, "")
	case string(journal.DurabilityCached):
		d.add("durability", levelWarning, what, "start askance serve with --durability fsynced, or state what your NATS cluster guarantees")
	default:
		d.add("durability", levelProblem, what, "keep the journal on a disk: askance serve without --nats, or a NATS server with file storage")
	}
}

func acknowledgement(d string) string {
	switch d {
	case "fsynced":
		return "fsynced: an acknowledged record is on the disk"
	case "quorum":
		return "quorum: an acknowledged record is on most servers of the cluster"
	case "cached":
		return "cached: a crash of the machine can lose the last records"
	case "memory":
		return "memory: a restart of the server loses all records"
	}
	return d
}

func queueLine(out *term.Out, q toolcall.ActivityQueue, now time.Time) string {
	name := out.Name(term.SafeLine(q.Tool))
	if q.Route != "" {
		name += " on " + term.SafeLine(q.Route)
	}
	workers := workersText(q, now)
	if q.Placement == toolcall.PlaceRemote && q.Depth > 0 && !q.HasWorker(now) {
		workers = out.Bad(workers)
	}
	text := fmt.Sprintf("%s: %s, %d queued, %d running", name, workers, q.Depth, q.Running)
	if q.Depth > 0 && !q.Oldest.IsZero() {
		text += ", the oldest has waited " + asked.Span(now.Sub(q.Oldest))
	}
	if q.Retrying > 0 {
		text += fmt.Sprintf(", %d retrying", q.Retrying)
	}
	if q.Blocked > 0 {
		text += ", " + out.Bad(fmt.Sprintf("%d blocked", q.Blocked))
	}
	return text
}

// workersText says how many workers of a queue are connected, and how many were.
func workersText(q toolcall.ActivityQueue, now time.Time) string {
	if q.Placement == toolcall.PlaceLocal {
		return "runs in the engine"
	}
	n := q.Connected(now)
	text, more := asked.Count(n, "worker")+" connected", "more "
	if n == 0 {
		text, more = "no worker connected", ""
		if q.HasWorker(now) {
			text = "a worker waits for calls" // at another engine
		}
	}
	if gone := len(q.Workers) - n; gone > 0 {
		text += fmt.Sprintf(" (%d %sseen in the last hour)", gone, more)
	}
	return text
}

const newAnchorText = "the journal had records but no anchor file when the engine started: only its checkpoints show an earlier loss"
