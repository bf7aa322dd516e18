package cli_test

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const listedRules = testRules + `  - {name: hurry, tool_name: ship, behavior: ask, when: args.cents == 77, expiry: 9h45m}
`

// A list shows what would run, when it expires, and who requested it. The server applies its
// filters.
func TestListFiltersAndColumns(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, listedRules)
	s.propose("r1", "call_pay", "pay", `{"cents":500}`)
	s.propose("r1", "call_boss", "boss", `{}`)
	s.propose("r2", "call_hurry", "ship", `{"cents":77}`)
	s.propose("r2", "toolu_01ABCDEFGHJKLMNOPQRSTUVWX", "outside", `{}`)
	s.propose("r2", "toolu_01ABCDEFGHJKLMNOPQRSTUVWY", "outside", `{}`)
	at := []string{"--data", s.data}
	left := regexp.MustCompile(`\b9h 4\dm\b`) // the time that is left
	golden(t, "list-columns", left.ReplaceAllString(ok(t, append([]string{"ls"}, at...)...), "9h 45m"))
	golden(t, "list-wide", left.ReplaceAllString(ok(t, append([]string{"list", "--phase", "asking", "-o", "wide"}, at...)...), "9h 45m"))
	for flags, want := range map[string]string{
		"":                             "call_hurry call_pay call_boss toolu_01ABCDEFGHJKLMNOPQRSTUVWX toolu_01ABCDEFGHJKLMNOPQRSTUVWY",
		"--tool pay,boss":              "call_pay call_boss",
		"-t ship":                      "call_hurry",
		"--agent agent --phase asking": "call_hurry call_pay call_boss",
		"--agent nobody-known":         "",
		"--rule large":                 "call_pay",
		"--mine --as ann":              "call_hurry call_pay",
		"--mine --as boss":             "call_hurry call_pay call_boss",
		"--since 1h --limit 2":         "call_hurry call_pay",
		"--until 1h":                   "",
		"--sort tool --phase asking":   "call_boss call_pay call_hurry",
		"--sort -proposed -L 1":        "toolu_01ABCDEFGHJKLMNOPQRSTUVWY",
		"--search HURRY":               "call_hurry",
		"--session s1 --reply r1":      "call_pay call_boss",
	} {
		r := run(t, append(append([]string{"list", "-o", "name"}, strings.Fields(flags)...), at...)...)
		names := strings.Fields(r.out)
		for i, name := range names {
			names[i] = path.Base(name)
		}
		if got := strings.Join(names, " "); r.code != cli.ExitOK || got != want {
			t.Errorf("list %s: exit %d, %q, want %q\n%s", flags, r.code, got, want, r.err)
		}
	}
	for flags, want := range map[string]string{
		"--session nope":       "There is no session nope. askance list --all -o wide --data " + s.data + " shows the sessions.\n",
		"--blocked":            "No open calls match --blocked. --all includes finished calls.\n",
		"--all --tool nothing": "No calls match --tool.\n",
	} {
		if out := ok(t, append(append([]string{"list"}, strings.Fields(flags)...), at...)...); strings.ReplaceAll(out, "go run ./cmd/", "") != want {
			t.Errorf("list %s printed %q, want %q", flags, out, want)
		}
	}
	fails(t, cli.ExitUsage, `--sort is "size"`, "list", "--sort", "size")
	fails(t, cli.ExitUsage, "--since is", "list", "--since", "soon")
	fails(t, cli.ExitUsage, "did you mean finished?", "list", "--state", "finshed")
	yaml := ok(t, append([]string{"list", "--tool", "boss", "-o", "yaml"}, at...)...)
	if !strings.HasPrefix(yaml, "calls:\n  - space: default\n") || !strings.Contains(yaml, "tool_call_id: call_boss\n") {
		t.Errorf("list -o yaml printed\n%s", yaml)
	}
	if a, b := ok(t, append([]string{"list", "--json"}, at...)...), ok(t, append([]string{"list", "-o", "json"}, at...)...); a != b {
		t.Errorf("--json and -o json differ:\n%s\n%s", a, b)
	}
	for flag, want := range map[string]string{"--tool": "boss\n", "--rule": "hurry\n", "--agent": "agent\n", "--session": "s1\n", "--sort": "-deadline\n", "--output": "yaml\n"} {
		if out := run(t, "__complete", "list", "--data", s.data, flag, "").out; !strings.Contains(out, want) {
			t.Errorf("completion of %s:\n%s", flag, out)
		}
	}
	if out := run(t, "__complete", "approve", "--data", s.data, "call_pay", "").out; !strings.Contains(out, "call_boss\t") || strings.Contains(out, "call_pay\t") {
		t.Errorf("completion of a second call:\n%s", out)
	}
	if out := run(t, "__complete", "delegate", "call_boss", "--data", s.data, "--to", "").out; !strings.HasPrefix(out, "boss\n") {
		t.Errorf("completion of --to:\n%s", out)
	}
	for args, want := range map[string]string{
		"worker --tool": "pay\n", "token create wk --role worker --tool": "pay\n", "creds add worker wk --tool": "pay\n", "standing list --tool": "pay\n", "audit export --tool": "pay\n",
		"show --session": "s1\n", "show --reply": "r1\n", "audit export --session": "s1\n", "inbox --session": "s1\n", "call pay --agent": "agent\n",
		"list --by": "boss\n", "audit export --approver": "boss\n", "show --space": "default\n",
	} {
		words := append([]string{"__complete"}, strings.Fields(args)...)
		flag := words[len(words)-1]
		if out := run(t, append(append(words[:len(words)-1], at...), flag, "")...).out; !strings.Contains(out, want) || !strings.Contains(out, ":4\n") {
			t.Errorf("completion of %s:\n%s", args, out)
		}
	}
	// The shortened id still names the call.
	ok(t, append([]string{"show", "toolu_01ABCDEFGHJKLMNOPQRSTUVWX"}, at...)...)
}

// Until a signal, list --watch prints each change, including calls that leave the list.
func TestListWatch(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_a", "pay", `{"cents":500}`)
	next := follow(t, "list", "--watch", "--phase", "asking", "--json", "--data", s.data)
	call := func() toolcall.Call { return decode[toolcall.Call](t, next()) }
	if c := call(); c.Key.Call != "call_a" || c.State != message.ToolCallAsking {
		t.Errorf("first: %s %s", c.Key, c.State)
	}
	s.propose("r2", "call_b", "pay", `{"cents":500}`)
	if c := call(); c.Key.Call != "call_b" || c.State != message.ToolCallAsking {
		t.Errorf("second: %s %s", c.Key, c.State)
	}
	ok(t, "reject", "call_a", "--yes", "--data", s.data)
	if c := call(); c.Key.Call != "call_a" || c.State != message.ToolCallFinished {
		t.Errorf("third: %s %s", c.Key, c.State)
	}
}

// If calls share an id, or not all calls are shown, ids are printed in full and name one call.
func TestIDsThatPeopleSeeNameOneCall(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	var ids []string
	for i := range 7 {
		ids = append(ids, fmt.Sprintf("%d-toolu_01ABCDEFGHIJKLMNOP", i))
		s.propose("r1", ids[i], "pay", `{"cents":500}`)
	}
	at := []string{"--data", s.data, "--sort", "-age"}
	if out := ok(t, append([]string{"list"}, at...)...); strings.Contains(out, ids[0]) || !strings.Contains(out, ids[0][:16]) {
		t.Errorf("the complete list does not shorten ids:\n%s", out)
	}
	if out := ok(t, append([]string{"list", "--limit", "2"}, at...)...); !strings.Contains(out, ids[0]) {
		t.Errorf("an incomplete list shortens ids:\n%s", out)
	}
	out := ok(t, "status", "--data", s.data)
	shown := 0
	for _, id := range ids {
		if strings.Contains(out, id) {
			shown++
		}
	}
	if shown != 5 {
		t.Errorf("status shows %d full ids, want 5:\n%s", shown, out)
	}
	s.propose("r2", ids[0], "pay", `{"cents":500}`)
	next := follow(t, append([]string{"list", "--watch"}, at...)...)
	var text string
	for range 8 {
		text += next() + "\n"
	}
	if !strings.Contains(text, "/r1/"+ids[0]) || !strings.Contains(text, "/r2/"+ids[0]) || strings.Contains(text, "/"+ids[1]) {
		t.Errorf("list --watch printed\n%s", text)
	}
}

// askance status fits on one screen; doctor finds problems and says how to fix them.
func TestStatusAndDoctor(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_a", "pay", `{"cents":500}`)
	s.propose("r1", "call_b", "boss", `{}`)
	s.propose("r1", "call_c", "pay", `{"cents":5}`)
	out := ok(t, "status", "--data", s.data)
	for _, want := range []string{"running " + s.data, "version devel", "console    " + s.http, "cached: a crash", "5 rules, in force for", "2 asking, 1 queued", "pay: no worker connected, 1 queued, 0 running", "call_a", "large"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not print %q:\n%s", want, out)
		}
	}
	doc := decode[struct {
		Info   toolcall.InfoReply
		Phases map[toolcall.Phase]int
		Queues []toolcall.ActivityQueue
	}](t, ok(t, "status", "--json", "--data", s.data))
	if doc.Phases[toolcall.PhaseAsking] != 2 || doc.Info.Durability != "cached" || len(doc.Queues) == 0 {
		t.Errorf("status --json: %+v", doc)
	}

	r := fails(t, cli.ExitError, "doctor found 1 problem", "doctor", "--data", s.data)
	for _, want := range []string{
		"ok       server", "ok       version", "warning  durability", "→ start askance serve with --durability fsynced", "warning  login", "askance creds init",
		"ok       policy     5 rules in force, 3 calls decided", "warning  lint       lint finds 1 warning in the rules; askance policy lint also reads their tests", "ok       clock", "problem  workers    1 waiting call of pay: no worker connected", "askance worker --tool pay --data " + s.data + " -- COMMAND", "disk", "ok       journal", "records, not signed yet",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("doctor does not print %q:\n%s", want, r.out)
		}
	}
	ok(t, "reject", "call_a", "--yes", "--data", s.data)
	ok(t, "revoke", "call_c", "--data", s.data)
	write(t, filepath.Join(s.data, "tokens.json"), "{")
	r = fails(t, cli.ExitError, "doctor found 1 problem", "doctor", "--json", "--data", s.data)
	findings := decode[struct {
		Problems int
		Findings []struct{ Check, Level, What, Fix string }
	}](t, r.out)
	for _, f := range findings.Findings {
		if (f.Level == "problem") != (f.Check == "expiry") || f.Level != "ok" && f.Fix == "" {
			t.Errorf("doctor: %+v", f)
		}
	}
	s.stop()
	r = fails(t, cli.ExitError, "problem", "doctor", "--data", s.data)
	if !strings.Contains(r.out, "problem  server     no server runs on "+s.data) || !strings.Contains(r.out, "askance serve --data "+s.data) {
		t.Errorf("doctor without a server:\n%s", r.out)
	}
	fails(t, cli.ExitUnavailable, "start it with askance serve --data "+s.data, "status", "--data", s.data)
}

// Logins that expire soon are warnings, with the command that replaces them.
func TestDoctorLogins(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	ok(t, "creds", "init", "--data", data)
	login := strings.TrimSpace(ok(t, "creds", "add", "approver", "ann", "--expires", "2d", "--data", data))
	bot := ok(t, "token", "create", "bot", "--role", "runtime", "--expires", "3d", "--json", "--data", data)
	runtime := strings.TrimSpace(ok(t, "creds", "add", "runtime", "support", "--data", data))
	worker := strings.TrimSpace(ok(t, "creds", "add", "worker", "wk-1", "--tool", "refund", "--data", data))
	s := serveOn(t, data)
	for login, want := range map[string]string{runtime: "support acts as runtime", worker: "accepts the login of worker wk-1"} {
		if out := ok(t, "doctor", "--creds", login, "--data", data); !strings.Contains(out, want) {
			t.Errorf("doctor with %s does not print %q:\n%s", login, want, out)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	ok(t, "creds", "init", "--data", other)
	foreign := strings.TrimSpace(ok(t, "creds", "add", "worker", "wk-1", "--tool", "refund", "--data", other))
	fails(t, cli.ExitError, "doctor found 1 problem", "doctor", "--creds", foreign, "--data", data)
	r := run(t, "doctor", "--creds", login, "--as", "ann", "--nats", s.url)
	if r.code != cli.ExitOK || r.err != "" || !strings.Contains(r.out, "ann can act as approver, but not as operator, auditor") || !strings.Contains(r.out, "journal    not checked: your login does not permit it") {
		t.Errorf("doctor of an approver at a NATS server: exit %d\n%s%s", r.code, r.out, r.err)
	}
	token := filepath.Join(data, "bot.token")
	write(t, token, decode[struct{ Token string }](t, bot).Token)
	if out := ok(t, "doctor", "--server", s.http, "--token-file", token); !strings.Contains(out, "policy     not checked: your login does not permit it") {
		t.Errorf("doctor with the token of a runtime:\n%s", out)
	}
	out := ok(t, "doctor", "--as", "ann", "--data", data)
	for _, want := range []string{"ann can act as approver, but not as operator, auditor", "askance creds add operator ann", "the login of approver ann expires in 1d 23h", "the token ", "of bot expires in 2d 23h", "there are no rules"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not print %q:\n%s", want, out)
		}
	}
}

// A list with finished calls says who decided each, and --by finds what one person decided.
func TestListBy(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	for _, id := range []string{"call_1", "call_2"} {
		s.propose("r-"+id, id, "pay", `{"cents":500}`)
	}
	at := []string{"--data", s.data}
	ok(t, append([]string{"reject", "call_1", "--yes", "--as", "ann"}, at...)...)
	ok(t, append([]string{"reject", "call_2", "--yes", "--as", "bob"}, at...)...)
	out := ok(t, append([]string{"list", "--all", "--by", "ann"}, at...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !slices.Contains(strings.Fields(lines[0]), "BY") || !slices.Contains(strings.Fields(lines[1]), "ann") || !strings.HasPrefix(lines[1], "call_1") {
		t.Errorf("list --all --by ann printed\n%s", out)
	}
	if out := ok(t, append([]string{"list", "--all", "--by", "ann", "-o", "wide"}, at...)...); strings.Count(out, "rejected") != 1 {
		t.Errorf("a finished call waits for nothing:\n%s", out)
	}
	if out := ok(t, append([]string{"list", "--all", "--by", "olga"}, at...)...); out != "No calls match --by.\n" {
		t.Errorf("list --all --by olga printed %q", out)
	}
}
