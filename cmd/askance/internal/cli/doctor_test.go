package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// A worker that disconnected is not counted as connected.
func TestWorkersThatWentAway(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	one := 1
	worker := func(name string, silent time.Duration, running int) toolcall.ActivityWorker {
		return toolcall.ActivityWorker{Name: name, LastHeard: now.Add(-silent), Running: running}
	}
	queue := func(depth int, workers ...toolcall.ActivityWorker) toolcall.ActivityQueue {
		return toolcall.ActivityQueue{Tool: "pay", Placement: toolcall.PlaceRemote, Depth: depth, Workers: workers}
	}
	listening := queue(3, worker("wk-1", 5*time.Minute, 0))
	listening.Listening = &one
	local := queue(1)
	local.Placement = toolcall.PlaceLocal
	for _, tc := range []struct {
		name           string
		q              toolcall.ActivityQueue
		status, doctor string
		level          string
	}{
		{"went away", queue(3, worker("wk-1", 5*time.Minute, 0)), "no worker connected (1 seen in the last hour), 3 queued", "3 waiting calls of pay: no worker connected (1 seen in the last hour)", levelProblem},
		{"one of two", queue(1, worker("wk-1", 5*time.Minute, 0), worker("wk-2", 5*time.Second, 0)), "1 worker connected (1 more seen in the last hour)", "1 worker connected, 1 more seen in the last hour; no call", levelOK},
		{"busy", queue(1, worker("wk-1", 5*time.Minute, 1)), "1 worker connected, 1 queued", "1 worker connected; no call", levelOK},
		{"at another engine", listening, "a worker waits for calls (1 seen in the last hour)", "no call waits without one", levelOK},
		{"local", local, "pay: runs in the engine, 1 queued", "no call waits", levelOK},
		{"none", queue(0), "no worker connected, 0 queued", "no worker has contacted the engine in the last hour; no call waits", levelOK},
	} {
		out := term.New(&strings.Builder{})
		if got := queueLine(out, tc.q, now); !strings.Contains(got, tc.status) {
			t.Errorf("%s: status prints %q, want %q", tc.name, got, tc.status)
		}
		d := &diagnosis{}
		d.checkWorkers(&environment{}, toolcall.ActivityReply{At: now, Queues: []toolcall.ActivityQueue{tc.q}})
		if f := d.Findings[0]; !strings.Contains(f.What, tc.doctor) || f.Level != tc.level {
			t.Errorf("%s: doctor prints %s %q, want %s %q", tc.name, f.Level, f.What, tc.level, tc.doctor)
		}
	}
}

// The lines of a refused policy's error stay lines.
func TestDoctorPrintsLines(t *testing.T) {
	d := &diagnosis{}
	d.add("policy", levelProblem, "refused:\nrules.yaml:2: no name\n  at a", "")
	want := "problem  policy     refused:\n                    rules.yaml:2: no name\n                      at a\n1 problem, 0 warnings.\n"
	if got := d.text(term.New(&strings.Builder{})); got != want {
		t.Errorf("doctor prints\n%s\nwant\n%s", got, want)
	}
}

// unsignedJournal has two records and no checkpoint.
type unsignedJournal struct {
	noAudit
	stored time.Time
}

// Records implements auditor.
func (j unsignedJournal) Records(_ context.Context, r bus.RecordsRequest) (bus.RecordsReply, error) {
	if r.Of == bus.AuditCheckpoints {
		return bus.RecordsReply{}, nil
	}
	return bus.RecordsReply{First: 1, Last: 2, Records: []proof.Record{{Seq: 1, Time: j.stored}}}, nil
}

// A new journal has time for its first checkpoint, and no more than that.
func TestDoctorJournalWithoutCheckpoint(t *testing.T) {
	for age, want := range map[time.Duration]string{time.Second: levelOK, 2 * sealLimit: levelWarning} {
		d := &diagnosis{}
		d.checkJournal(t.Context(), &environment{}, &link{audit: unsignedJournal{stored: time.Now().Add(-age)}})
		if f := d.Findings[0]; f.Level != want {
			t.Errorf("%s after the first record: %s %q, want %s", age, f.Level, f.What, want)
		}
	}
}

// idleEngine has no queues.
type idleEngine struct{ engine.Client }

// Activity implements engine.Client.
func (idleEngine) Activity(context.Context, toolcall.ActivityRequest) (toolcall.ActivityReply, error) {
	return toolcall.ActivityReply{At: time.Now()}, nil
}

// The command that doctor prints for blocked calls has all flags that it needs.
func TestDoctorBlocked(t *testing.T) {
	for blocked, want := range map[int]string{1: "1 call needs an operator", 2: "2 calls need an operator"} {
		d := &diagnosis{}
		d.checkQueues(t.Context(), &environment{}, &link{Client: idleEngine{}}, toolcall.InfoReply{Blocked: blocked})
		if f := d.Findings[len(d.Findings)-1]; f.What != want || !strings.HasSuffix(f.Fix, " resolve CALL --outcome OUTCOME, with happened, did_not_happen or run_again as OUTCOME") {
			t.Errorf("%d blocked: %s → %s", blocked, f.What, f.Fix)
		}
	}
}

// Dead letters are checked only where the gateway of the server shows them.
func TestDoctorWithoutDeadLetters(t *testing.T) {
	t.Setenv("ASKANCE_TOKEN", "")
	for reply, want := range map[string]string{`"not_found","detail":"this server has no webhooks"`: "", `"forbidden","detail":"eve cannot list"`: "not checked: eve cannot list"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"code":` + reply + `}`))
		}))
		env, d := &environment{}, &diagnosis{}
		env.cfg.Server = srv.URL
		d.checkDeadLetters(t.Context(), env)
		srv.Close()
		if got := d.text(term.New(&strings.Builder{})); d.Warnings+d.Problems > 0 || len(d.Findings) != min(len(want), 1) || !strings.Contains(got, want) {
			t.Errorf("%s: %s", reply, got)
		}
	}
}

// With --nats, doctor does not know the address of HTTP.
func TestDoctorNamesNoAddressOfNATS(t *testing.T) {
	env, d := &environment{}, &diagnosis{}
	env.cfg.NATS = "nats://n1:4222,nats://n2:4222"
	d.checkDeadLetters(t.Context(), env)
	if got := d.text(term.New(&strings.Builder{})); !strings.Contains(got, "webhooks list --url URL\n") {
		t.Errorf("doctor says %s", got)
	}
}

// A suggested command names files as a shell reads them.
func TestDoctorQuotesFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my data")
	rules := filepath.Join(dir, "my rules.yaml")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(rules, []byte("version: 1\nname: r\nrules:\n  - {name: shadowed, tool_name: a, behavior: allow}\n  - {name: shadowed2, tool_name: a, behavior: allow}\n"), 0o600), writeLastRun(dir, config{Policy: []string{rules}})); err != nil {
		t.Fatal(err)
	}
	d := &diagnosis{}
	d.lintPolicy(t.Context(), &environment{cfg: config{Data: dir}})
	if got := d.text(term.New(&strings.Builder{})); !strings.Contains(got, "askance policy lint '"+rules+"'") {
		t.Errorf("doctor says %s", got)
	}
	if _, err := (&environment{cfg: config{Data: dir}}).connectLive(t.Context(), toolcall.RoleAuditor); err == nil || !strings.Contains(message.AsError("", err).Hint, "serve --data '"+dir+"'") {
		t.Errorf("the error is %v", err)
	}
}

// Doctor counts the people who can respond as lint does, and finds a file that no server starts with.
func TestDoctorReadsPeople(t *testing.T) {
	dir := t.TempDir()
	rules, people := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "people.yaml")
	if err := errors.Join(os.WriteFile(rules, []byte("version: 1\nname: r\nrules:\n  - {name: pay, tool_name: a, behavior: ask, approvers: {groups: [ops]}}\n"), 0o600), writeLastRun(dir, config{Policy: []string{rules}, Directory: []string{people}})); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]string{
		"version: 1\ngroups: {ops: [ann]}\n":   {"lint finds 1 warning", ""},
		"version: 1\ngroups: {legal: [ann]}\n": {"lint finds 2 errors", "askance policy lint " + rules + " --directory " + people},
		"version: 1\ngroups: {ops: [ann]}":     {"may be half written", "correct the file"},
	} {
		if err := os.WriteFile(people, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d := &diagnosis{}
		d.lintPolicy(t.Context(), &environment{cfg: config{Data: dir}})
		if got := d.text(term.New(&strings.Builder{})); !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("%s: doctor says %s", text, got)
		}
	}
}

// A folder that others can change can get their keys, tokens and rules.
func TestDoctorOpenFolder(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for mode, want := range map[os.FileMode]int{0o700: 0, 0o775: 0, 0o777: 1} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		d := &diagnosis{}
		d.checkLogins(&environment{cfg: config{Data: dir}})
		if got := d.text(term.New(&strings.Builder{})); d.Problems != want || want > 0 && !strings.Contains(got, "chmod 700 "+dir) {
			t.Errorf("%o: %s", mode, got)
		}
	}
}
