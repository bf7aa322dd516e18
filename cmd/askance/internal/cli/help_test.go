package cli_test

import (
	"os/user"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// commands are all commands that a user can call, in the order of the help.
var commands = []string{
	"", "demo", "init", "status", "doctor", "open", "serve", "worker", "mcp", "bench", "inbox", "list", "load", "show", "preview", "call", "approve", "edit", "reject", "respond", "delegate", "resolve", "interrupt", "revoke",
	"standing", "standing list", "standing show", "standing revoke",
	"events", "events tail", "events replay",
	"audit", "audit verify", "audit checkpoint", "audit receipt", "audit check", "audit export",
	"policy", "policy lint", "policy test", "policy explain", "policy replay", "policy diff", "policy fmt", "policy vars", "policy schema", "policy import", "policy put", "policy status", "policy show",
	"tools", "tools import",
	"creds", "creds init", "creds add", "creds list", "creds revoke", "creds config",
	"hook", "hook claude-code", "hook codex", "hook gemini", "hook install", "hook check", "hook uninstall", "hook mcp",
	"webhooks", "webhooks list", "webhooks retry", "webhooks drop", "webhooks forget", "webhooks test",
	"token", "token create", "token list", "token revoke",
	"journal", "journal check", "journal accept-loss", "journal replicas", "journal archive", "journal backup", "journal restore",
	"keys", "keys list", "keys rotate", "keys retire", "keys approver", "context", "context list", "context use", "context add", "context remove", "context show", "version", "completion bash",
}

func TestHelp(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("USER", "someone")
	t.Setenv("XDG_CONFIG_HOME", "")
	var all strings.Builder
	for _, c := range commands {
		args := append(strings.Fields(c), "--help")
		out := ok(t, args...)
		if c != "completion bash" && !strings.Contains(out, "Examples:") {
			t.Errorf("askance %s --help has no examples", c)
		}
		if c != "completion bash" && strings.Contains(out, "\n\t") {
			t.Errorf("askance %s --help has a line that begins with a tab of the source", c)
		}
		if strings.HasPrefix(c, "completion") {
			continue // cobra's own text
		}
		all.WriteString("$ askance " + strings.Join(args, " ") + "\n" + out + "\n")
	}
	for _, topic := range []string{"exit-codes", "settings", "addresses"} {
		all.WriteString("$ askance help " + topic + "\n" + ok(t, "help", topic) + "\n")
	}
	golden(t, "help", defaultName.Replace(all.String()))
}

func TestUsageErrors(t *testing.T) {
	cleanEnvironment(t)
	for _, tc := range []struct {
		says string
		args string
	}{
		{`unknown command "lisst" for askance; did you mean list?`, "lisst"},
		{`unknown command "lisst" for askance; did you mean list?`, "lisst --all --session x"},
		{`unknown command "accept" for askance; did you mean approve?`, "accept call_42"},
		{`unknown command "skip" for askance; did you mean delegate?`, "skip call_42"},
		{`unknown command "aprove" for askance; did you mean approve?`, "aprove call_42 --yes"},
		{`unknown command "frobnicate" for askance`, "frobnicate"},
		{`unknown command "lint" for askance; did you mean policy lint?`, "lint rules.yaml"},
		{`unknown command "explain" for askance; did you mean policy explain?`, "explain --tool pay"},
		{`unknown command "verify" for askance; did you mean audit verify?`, "verify"},
		{`unknown command "export" for askance; did you mean audit export?`, "export"},
		{`unknown command "archive" for askance; did you mean journal archive?`, "archive --older-than 30d"},
		{`unknown command "chek" for askance policy; did you mean check?`, "policy chek"},
		{"expected one shell of bash, fish, powershell and zsh", "completion ksh"},
		{`unexpected argument "x"`, "completion bash x"},
		{"unknown flag: --foo", "list --foo"},
		{"unknown flag: --input; did you mean --args?", "edit a --input {}"},
		{"unknown flag: --text; did you mean --output?", "respond a --text x"},
		{"unknown flag: --reason; did you mean --feedback?", "reject a --reason x"},
		{"unknown flag: --sesion; did you mean --session?", "list --sesion x"},
		{"unknown shorthand flag: 'z' in -z", "list -z"},
		{"--output", "list --output xml"},
		{"--output name is for lists", "version -o name"},
		{"contradict each other", "list --json -o text"},
		{"contradict each other", "list --json -o name"},
		{"contradict each other", "list --json -o yaml"},
		{`{"error":{"exit":2,"what":"unknown flag: --foo"}}`, "list --foo --json"},
		{"error: unknown flag: --foo", "worker --foo --tool x -- cat --json"},
		{"See askance list --help.", "list --foo"},
		{`unexpected argument "x"`, "list x"},
		{`--state "asked": use pending`, "list --state asked"},
		{"expected one call; askance list shows the open ones", "show"},
		{"askance list shows the open calls", "reject"},
		{"for instance: askance preview refund --args", "preview"},
		{"for instance: askance call refund --args", "call"},
		{"for instance: askance journal restore /backup", "journal restore"},
		{"expected a call or a filter", "approve"},
		{"not both", "approve a --tool pay --yes"},
		{"--digest is for one call", "approve a b --digest sha256:00"},
		{"--remember is for one call", "approve a b --remember --yes"},
		{"--until is \"soon\"", "approve a --remember --until soon --yes"},
		{"pass --remember as well", "approve a --uses 3 --yes"},
		{"--sign-for must be positive", "approve a --sign-key x --sign-for -1h --yes"},
		{"not a JSON object", "edit a --args [1] --yes"},
		{"cannot open the inbox: it needs a terminal for input and output; list requests with askance list", "inbox"},
		{"not a terminal: pass --yes, or --digest", "approve a"},
		{"not a terminal: pass --yes, or --digest", "reject a --feedback no"},
		{"not a terminal, so no editor can open", "edit a --yes"},
		{"--output is missing", "respond a --yes"},
		{"--outcome is missing", "resolve a"},
		{"--tool is missing", "worker -- cat"},
		{"expected a command after --", "worker --tool x"},
		{`unknown command "tial" for askance events; did you mean tail?`, "events tial"},
		{"expected one session", "events tail a b"},
		{`--durability is "paper"`, "serve --durability paper"},
		{`--durability is "paper"`, "demo --durability paper"},
		{`--durability is "paper"`, "bench --durability paper"},
		{`unknown permission mode "yolo"`, "serve --mode yolo"},
		{"concurrency is 0", "bench --concurrency 0"},
		{`--log-level is "loud"`, "list --log-level loud"},
		{`--log-format is "xml"`, "list --log-format xml"},
		{`--json is "perhaps", use true or false`, "serve --listen 1 --json=perhaps"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			r := fails(t, cli.ExitUsage, tc.says, strings.Fields(tc.args)...)
			if r.out != "" {
				t.Errorf("an error printed to standard output: %s", r.out)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cleanEnvironment(t)
	if out := ok(t, "version"); !strings.HasPrefix(out, "askance ") || !strings.Contains(out, "go1.") {
		t.Errorf("version printed %q", out)
	}
	for _, args := range [][]string{{"--version"}, {"-V"}} {
		if out := ok(t, args...); out != ok(t, "version") {
			t.Errorf("%s printed %q", args, out)
		}
	}
	if out := ok(t, "--version", "-o", "yaml"); !strings.HasPrefix(out, "version: ") {
		t.Errorf("--version -o yaml printed %q", out)
	}
	v := decode[map[string]any](t, ok(t, "version", "--json"))
	for _, key := range []string{"version", "go", "platform"} {
		if v[key] == nil {
			t.Errorf("version --json has no %s: %v", key, v)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	cleanEnvironment(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := ok(t, "completion", shell); !strings.Contains(out, "askance") {
			t.Errorf("no completion for %s", shell)
		}
	}
}

// defaultName removes the name of the user who runs the tests from the help.
var defaultName = func() *strings.Replacer {
	u, err := user.Current()
	if err != nil {
		return strings.NewReplacer()
	}
	return strings.NewReplacer(`(default "`+u.Username+`")`, `(default "YOU")`)
}()

// A folder of --script that does not exist is named.
func TestDemoWithoutItsScript(t *testing.T) {
	fails(t, cli.ExitNotFound, "nowhere", "demo", "--yes", "--script", "nowhere", "--data", t.TempDir())
}
