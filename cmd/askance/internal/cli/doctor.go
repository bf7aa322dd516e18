package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// diagnosis is what askance doctor prints.
type diagnosis struct {
	Findings []diagnosed `json:"findings"`
	Problems int         `json:"problems"`
	Warnings int         `json:"warnings"`
}

// diagnosed is one finding of askance doctor.
type diagnosed struct {
	Check string `json:"check"`
	Level string `json:"level"` // ok, warning or problem
	What  string `json:"what"`
	Fix   string `json:"fix,omitzero"`
}

const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelProblem = "problem"
)

// The limits above or below which doctor warns.
const (
	clockLimit   = 2 * time.Second
	expirySoon   = 14 * 24 * time.Hour
	sealLimit    = 5 * time.Minute // engines sign each minute
	diskLow      = 2 << 30
	diskTooLow   = 200 << 20
	policyChecks = 20 * time.Second
)

func newDoctorCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"diagnose", "check", "health"},
		Short:      "Find problems, and say how to fix them",
		Long: `Checks that the server answers and has the version of this command, what its durability
means, how far the clocks differ, that the journal is signed, what your login permits,
that the newest policy is in force and passes lint, that queues have workers, that
webhooks have no dead letters, when logins and tokens expire, and how much of the disk
is free. It changes nothing. With the login of a runtime or a worker it checks only
what that login permits.

Exits with code 1 if there is a problem, but not for warnings.`,
		Example: `  askance doctor
  askance doctor --context prod --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d := &diagnosis{}
			d.run(c.Context(), env)
			if err := env.print(d, d.text(env.out)); err != nil {
				return err
			}
			if d.Problems > 0 {
				return fmt.Errorf("doctor found %s", asked.Count(d.Problems, "problem"))
			}
			return nil
		},
	}
	env.cfg.bindClient(c)
	return c
}

func (d *diagnosis) add(check, level, what, fix string) {
	switch level {
	case levelWarning:
		d.Warnings++
	case levelProblem:
		d.Problems++
	}
	d.Findings = append(d.Findings, diagnosed{check, level, what, fix})
}

func (d *diagnosis) addError(check string, err error, fix string) {
	what := err.Error()
	if me, ok := errors.AsType[*message.Error](err); ok {
		if what = me.What; me.Err != nil {
			what += ": " + me.Err.Error()
		}
		fix = cmp.Or(me.Hint, fix)
	}
	d.add(check, levelProblem, what, fix)
}

// addFailure is addError for a check that not every login permits.
func (d *diagnosis) addFailure(check string, err error) {
	if errors.Is(err, message.ErrForbidden) {
		d.add(check, levelOK, "not checked: your login does not permit it", "")
		return
	}
	d.addError(check, err, "see the log of askance serve")
}

func (d *diagnosis) run(ctx context.Context, env *environment) {
	where := serverName(env)
	if env.context != "" {
		where += ", from the context " + env.context
	}
	role := toolcall.RoleAuditor
	if u, err := creds.ReadLogin(env.cfg.Creds); env.cfg.Creds != "" && err == nil && (u.Role == toolcall.RoleRuntime || u.Role == toolcall.RoleWorker) {
		role = u.Role
	}
	if role == toolcall.RoleWorker {
		d.checkWorkerLogin(ctx, env, where)
	} else if l, err := env.connectLive(ctx, role); err != nil {
		d.addError("server", err, "start it with askance serve")
	} else {
		defer l.Close()
		d.checkServer(ctx, env, l, role, where)
	}
	d.checkLogins(env)
	d.checkDisk(env)
}

// checkWorkerLogin checks that the server accepts the login of a worker, which can only ask
// an engine for tasks.
func (d *diagnosis) checkWorkerLogin(ctx context.Context, env *environment, where string) {
	by := toolcall.Principal{Role: toolcall.RoleWorker, Name: env.cfg.As}
	url, err := env.findServer(startHint(env.cfg.dir()))
	if err != nil {
		d.addError("server", err, "start it with askance serve")
		return
	}
	nc, err := connectNATS(ctx, env, url, by)
	if err != nil {
		d.addError("login", err, "create one with askance creds add worker "+spelling.ShellWord(by.Name)+" --tool TOOL --replace")
		return
	}
	nc.Close()
	d.add("login", levelOK, where+" accepts the login of worker "+by.Name+"; the other checks need the login of a person", "for all checks, run askance doctor with the login of an auditor (askance creds add auditor NAME)")
}

func (d *diagnosis) checkServer(ctx context.Context, env *environment, l *link, role toolcall.Role, where string) {
	info, err := l.Info(ctx)
	if err != nil {
		d.addError("server", err, "see the log of askance serve")
		return
	}
	d.add("server", levelOK, fmt.Sprintf("%s answers: engine %s, space %s, %s", where, info.Engine, info.Space, asked.Count(info.Open, "open call")), "")
	if own := buildInfo().Version; own != info.Version {
		d.add("version", levelWarning, fmt.Sprintf("the server has version %s and this command %s", info.Version, own), "install the same version on both sides")
	} else {
		d.add("version", levelOK, "the server and this command have version "+own, "")
	}
	if info.NotReady != "" {
		d.add("ready", levelProblem, info.NotReady, "see /readyz and the log of askance serve")
		return // what follows reads the journal
	}
	d.add("ready", levelOK, "the journal accepts new calls", "")
	d.checkDurability(info)
	if info.AnchorNew {
		d.add("anchor", levelWarning, newAnchorText, "if the data folder is not new, find out who removed the file, run askance audit verify with an anchor that you kept (--anchor), then restart the engine")
	}
	if role == toolcall.RoleRuntime {
		d.add("login", levelOK, env.cfg.As+" acts as runtime; the other checks need the login of a person", "for all checks, run askance doctor with the login of an auditor (askance creds add auditor NAME)")
		return
	}
	if l.conn != nil {
		l.conn.SetErrorHandler(nil) // what the login does not permit is a finding, not an error
	}
	d.checkPermissions(ctx, env, l)
	d.checkPolicy(ctx, env, l)
	d.checkJournal(ctx, env, l)
	d.checkQueues(ctx, env, l, info)
	d.checkDeadLetters(ctx, env)
}

// checkPermissions tries each role of a person with the login that a command would use.
func (d *diagnosis) checkPermissions(ctx context.Context, env *environment, l *link) {
	if env.cfg.Server != "" {
		d.add("login", levelOK, "the token says who you are and in which roles you act", "")
		return
	}
	if l.conn != nil && !l.conn.AuthRequired() {
		d.add("login", levelWarning, "the server requires no login: every program that reaches it can approve under any name", "create logins with askance creds init and askance creds add, or keep the server on your own machine")
		return
	}
	var can, cannot []string
	for _, role := range []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor} {
		other, err := env.connectLive(ctx, role)
		if err == nil {
			other.Close()
		}
		login, unreadable := creds.ReadLogin(env.loginFor(toolcall.Principal{Role: role, Name: env.cfg.As}))
		switch {
		case err == nil && unreadable != nil:
			d.add("login", levelOK, "the server accepts "+env.cfg.As+", with a login that does not say its roles", "")
			return
		case err != nil || login.Role != role:
			cannot = append(cannot, string(role))
		default:
			can = append(can, string(role))
		}
	}
	what := fmt.Sprintf("%s can act as %s", env.cfg.As, strings.Join(can, ", "))
	if len(cannot) == 0 {
		d.add("login", levelOK, what, "")
		return
	}
	d.add("login", levelOK, what+", but not as "+strings.Join(cannot, ", "), "for another role: askance creds add "+cannot[0]+" "+spelling.ShellWord(env.cfg.As))
}

func (d *diagnosis) checkPolicy(ctx context.Context, env *environment, l *link) {
	p, err := api.PolicyStatus.Call(ctx, l, struct{}{})
	if err != nil {
		d.addFailure("policy", err)
		return
	}
	switch {
	case p.Alarm != "":
		d.add("policy", levelProblem, "the newest policy has been refused since "+moment(p.AlarmSince)+":\n"+p.Alarm, "correct the file, and check it with askance policy lint")
	case p.Rules == 0:
		d.add("policy", levelWarning, "there are "+noRules, "write rules (askance init), and start askance serve with --policy")
	default:
		d.add("policy", levelOK, asked.Count(p.Rules, "rule")+" in force, "+asked.Count(int(p.Calls), "call")+" decided", "")
	}
	if len(p.Ignored) > 0 {
		d.add("policy", levelWarning, strings.Join(p.Ignored, "; "), "rename or remove these files")
	}
	if p.Failures > 0 {
		d.add("policy", levelWarning, fmt.Sprintf("the policy could not be evaluated for %d calls, and none of them was allowed", p.Failures), "see the log of askance serve; "+commandAgain(env, "show CALL")+" names the rule errors")
	}
	if p.Shadow != nil && p.Shadow.Alarm != "" {
		d.add("policy", levelWarning, "the newest shadow policy is refused:\n"+p.Shadow.Alarm, "correct the file, and check it with askance policy lint")
	}
	d.lintPolicy(ctx, env)
}

// checkJournal compares the end of the journal with its last signed checkpoint.
func (d *diagnosis) checkJournal(ctx context.Context, env *environment, l *link) {
	last, signed, unsigned, err := readEnds(ctx, l.audit)
	switch {
	case errors.Is(err, errNoAudit):
		d.add("journal", levelOK, "not checked: "+errNoAudit.What, "")
	case err != nil:
		d.addFailure("journal", err)
	case last == 0:
		d.add("journal", levelOK, "it is empty", "")
	case signed.To == 0 && time.Since(unsigned) <= sealLimit:
		d.add("journal", levelOK, asked.Count(int(last), "record")+", not signed yet: the engine signs each minute", "")
	case last > signed.To && time.Since(unsigned) > sealLimit:
		d.add("journal", levelWarning, fmt.Sprintf("the engine does not sign the journal: not all of the %d records are signed", last), "see the log of askance serve, and sign it with "+commandLineFor(env, "audit checkpoint"))
	default:
		d.add("journal", levelOK, fmt.Sprintf("%d records, signed up to %d at %s", last, signed.To, moment(signed.At)), "")
	}
}

// readEnds returns the last sequence of the journal, its last checkpoint, and when the
// oldest record after that was stored.
func readEnds(ctx context.Context, a journal.Auditing) (last uint64, signed proof.Checkpoint, unsigned time.Time, err error) {
	r := bus.RecordsRequest{V: 1, Of: bus.AuditCheckpoints, Limit: 1}
	ledger, err := a.Records(ctx, r)
	if err == nil && ledger.Last > 0 {
		r.After = ledger.Last - 1
		ledger, err = a.Records(ctx, r)
	}
	if err == nil && len(ledger.Records) > 0 {
		var sealed proof.Sealed
		sealed, err = proof.DecodeSealed(ledger.Records[0].Body())
		signed = sealed.Checkpoint
	}
	if err != nil {
		return 0, signed, unsigned, err
	}
	journal, err := a.Records(ctx, bus.RecordsRequest{V: 1, After: signed.To, Limit: 1})
	if len(journal.Records) > 0 {
		unsigned = journal.Records[0].Time
	}
	return journal.Last, signed, unsigned, err
}

func (d *diagnosis) checkQueues(ctx context.Context, env *environment, l *link, info toolcall.InfoReply) {
	asking := time.Now()
	r, err := l.Activity(ctx, toolcall.ActivityRequest{V: 1, Since: asking.Add(-time.Minute), Recent: 1})
	if err != nil {
		d.addFailure("workers", err)
		return
	}
	took := time.Since(asking)
	ahead := r.At.Sub(asking.Add(took / 2))
	if ahead.Abs() > clockLimit+took/2 {
		d.add("clock", levelWarning, "the clock of the server differs from yours by "+asked.Span(ahead.Abs()), "synchronize both clocks, for instance with NTP: deadlines follow the clock of the server")
	} else {
		d.add("clock", levelOK, "the clock of the server agrees with yours", "")
	}
	for _, c := range info.Clocks {
		d.add("clock", levelWarning, fmt.Sprintf("the clock of %s differs from that of the engine by %s", c.Who, (time.Duration(c.AheadMS)*time.Millisecond).Abs()), "synchronize the clocks: a worker refuses grants that are not yet or no longer valid")
	}
	d.checkWorkers(env, r)
	if info.Blocked > 0 {
		d.add("blocked", levelProblem, strings.Replace(asked.Count(info.Blocked, "call")+" need an operator", "1 call need ", "1 call needs ", 1), "see them with "+commandAgain(env, "list --phase blocked")+", then "+commandAgain(env, "resolve CALL --outcome OUTCOME")+", with happened, did_not_happen or run_again as OUTCOME")
	}
}

// checkWorkers looks for calls that wait and have no worker.
func (d *diagnosis) checkWorkers(env *environment, r toolcall.ActivityReply) {
	connected, seen, alone := map[string]bool{}, map[string]bool{}, 0
	for _, q := range r.Queues {
		if q.Placement != toolcall.PlaceRemote {
			continue
		}
		for _, w := range q.Workers {
			seen[w.Name] = true
			if w.IsConnected(r.At) {
				connected[w.Name] = true
			}
		}
		if q.Depth > 0 && !q.HasWorker(r.At) {
			alone++
			command := programName() + " worker --tool " + spelling.ShellWord(q.Tool)
			if q.Route != "" {
				command += " --subject " + spelling.ShellWord(q.Route)
			}
			command += flagsGiven(env, byCurrentContext, placeFlags...) // a worker uses no context
			d.add("workers", levelProblem, fmt.Sprintf("%s of %s: %s", asked.Count(q.Depth, "waiting call"), q.Tool, workersText(q, r.At)), "start one: "+command+" -- COMMAND")
		}
	}
	if alone > 0 {
		return
	}
	what := asked.Count(len(connected), "worker") + " connected"
	if gone := len(seen) - len(connected); gone > 0 {
		what += fmt.Sprintf(", %d more seen in the last hour", gone)
	}
	if len(seen) == 0 {
		what = "no worker has contacted the engine in the last hour"
	}
	d.add("workers", levelOK, what+"; no call waits without one", "")
}

// checkLogins looks for logins and tokens that end soon.
func (d *diagnosis) checkLogins(env *environment) {
	now := time.Now()
	expires := func(what string, at time.Time, fix string) {
		switch {
		case at.IsZero() || at.After(now.Add(expirySoon)):
		case !at.After(now):
			d.add("expiry", levelProblem, what+" expired at "+moment(at), fix)
		default:
			d.add("expiry", levelWarning, what+" expires in "+asked.Span(at.Sub(now)), fix)
		}
	}
	if file := env.cfg.Creds; file != "" {
		if u, err := creds.ReadLogin(file); err != nil {
			d.addError("login", err, "create one with askance creds add")
		} else {
			expires("your login "+file, u.Expires, fmt.Sprintf("askance creds add %s %s --replace", u.Role, spelling.ShellWord(u.Name)))
		}
	}
	onlyOwn := func(check string, not os.FileMode, path, what, mode string) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&not != 0 {
			d.add(check, levelProblem, "other users can change "+path+", and so "+what, "chmod "+mode+" "+spelling.ShellWord(path))
		}
	}
	onlyOwn("context", 0o022, contextsFile(), "the server at which you approve", "600")
	if isRemote(env) {
		return
	}
	onlyOwn("data", 0o002, env.cfg.dir(), "the keys, tokens and rules in it", "700") // Kubernetes makes volumes writable for a group
	dir := node.Dir(env.cfg.dir())
	tokens, err := auth.ListTokens(dir.Tokens())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, message.ErrNotFound) {
		d.addError("expiry", err, "correct the token file")
	}
	for _, t := range tokens {
		if t.InForce(now) {
			expires("the token "+t.ID+" of "+t.Name, t.Expires, programName()+" token create "+spelling.ShellWord(t.Name)+flagsGiven(env, byCurrentContext, "data")+" with its roles")
		}
	}
	folder, err := creds.Open(dir.Creds())
	if err != nil {
		return // no folder, or one without its secrets
	}
	users, err := folder.Users()
	if err != nil {
		d.addError("expiry", err, "correct the credentials folder")
	}
	for _, u := range users {
		if u.InForce(now) {
			expires("the login of "+string(u.Role)+" "+u.Name, u.Expires, fmt.Sprintf("%s creds add %s %s --replace%s", programName(), u.Role, spelling.ShellWord(u.Name), flagsGiven(env, byCurrentContext, "data")))
		}
	}
}

func (d *diagnosis) checkDisk(env *environment) {
	dir := env.cfg.dir()
	if isRemote(env) {
		return
	}
	free, known := embed.FreeDisk(dir)
	what := fmt.Sprintf("%s has %.1f GB free", dir, float64(free)/(1<<30))
	fix := "free some of the disk: when it is full, the engine decides and starts nothing"
	switch {
	case !known:
	case free < diskTooLow:
		d.add("disk", levelProblem, what, fix)
	case free < diskLow:
		d.add("disk", levelWarning, what, fix)
	default:
		d.add("disk", levelOK, what, "")
	}
}

func (d *diagnosis) text(out *term.Out) string {
	width := math.MaxInt
	if out.Terminal() {
		width = out.Width()
	}
	var b strings.Builder
	for _, f := range d.Findings {
		level := map[string]func(string) string{levelOK: out.Good, levelWarning: out.Ask, levelProblem: out.Bad}[f.Level]
		what := strings.ReplaceAll(strings.TrimSpace(term.Safe(f.What)), "\n", "\n"+strings.Repeat(" ", 20))
		if !strings.Contains(what, "\n") {
			what = term.Below(what, 20, width)
		}
		fmt.Fprintf(&b, "%s  %-10s %s\n", level(fmt.Sprintf("%-7s", f.Level)), f.Check, what)
		if f.Fix != "" {
			fmt.Fprintf(&b, "%20s%s %s\n", "", out.Dim("→"), term.Below(term.SafeLine(f.Fix), 22, width))
		}
	}
	verdict := out.Good("No problems")
	if d.Problems > 0 {
		verdict = out.Bad(asked.Count(d.Problems, "problem"))
	}
	fmt.Fprintf(&b, "%s, %s.\n", verdict, asked.Count(d.Warnings, "warning"))
	return b.String()
}
