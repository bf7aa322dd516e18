package hook

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
)

// Finding is one thing that a check found.
type Finding struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// nowhere is an address at which nothing answers: port 9 of this machine.
const nowhere = "http://127.0.0.1:9"

// checkWithin bounds one run of a hook.
const checkWithin = 30 * time.Second

// Check tests the hooks of a settings file: that they are installed, that the first decides
// a dry-run event, and that it blocks if askance does not run.
func Check(ctx context.Context, d dialect.Dialect, text string) []Finding {
	var out []Finding
	add := func(ok bool, format string, args ...any) {
		out = append(out, Finding{ok, fmt.Sprintf(format, args...)})
	}
	doc, err := parseDocument(text)
	if err != nil {
		add(false, "the settings cannot be read: %v", err)
		return out
	}
	var first *entry
	for i, event := range Events(d) {
		e := doc.entry(d, event)
		add(e != nil, "%s: %s", event, map[bool]string{true: "the hook is installed", false: "the hook is missing; run askance hook install " + string(d)}[e != nil])
		if i == 0 {
			first = e
		}
	}
	if first == nil {
		return out
	}
	if d == dialect.ClaudeCode {
		add(first.OnFailure == "block", "%s", map[bool]string{true: `onFailure is "block"`, false: `onFailure is not "block": a killed or missing hook lets tools run`}[first.OnFailure == "block"])
	}
	if first.Type != "command" {
		add(true, "an HTTP hook cannot be tested here; Claude Code posts its events to %s", first.URL)
		return out
	}
	if own, known := ownTimeout(first.Command); known {
		limit := time.Duration(first.Timeout) * time.Second
		if d == dialect.Gemini {
			limit = time.Duration(first.Timeout) * time.Millisecond
		}
		add(own <= limit, "the hook answers before the agent's timeout: --timeout %s, settings %s", own, limit)
	}
	out = append(out, runDry(ctx, d, first.Command)...)
	return out
}

var timeoutFlag = regexp.MustCompile(`--timeout[ =](\S+)`)

// ownTimeout returns the --timeout of a command line.
func ownTimeout(command string) (time.Duration, bool) {
	m := timeoutFlag.FindStringSubmatch(command)
	if m == nil {
		return 0, false
	}
	own, err := time.ParseDuration(m[1])
	return own, err == nil
}

// entry returns the hook of askance for an event; nil if there is none.
func (d *document) entry(dia dialect.Dialect, event string) *entry {
	path := d.ours(dia, event)
	if path == nil {
		return nil
	}
	e, _ := d.read(path[len(path)-1]) // it is ours, so it can be read
	return &e
}

// runDry starts the hook as the agent does, with an event that is not recorded.
func runDry(ctx context.Context, d dialect.Dialect, command string) []Finding {
	cwd, _ := os.Getwd() // the server refuses an empty one
	event := fmt.Sprintf(`{"session_id":"askance-hook-check","hook_event_name":%q,"tool_name":"Bash","tool_input":{"command":"true"},"tool_use_id":"check","cwd":%q}`, Events(d)[0], cwd)
	code, stdout, stderr := runShell(ctx, command+" --dry-run", event)
	why := strings.TrimPrefix(firstLine(stderr, "exit code "+strconv.Itoa(code)), "error: ")
	works := Finding{Text: "the hook fails: " + strings.TrimPrefix(why, "this tool call is blocked: ")}
	switch {
	case code == 0 && stdout == "":
		works = Finding{true, "the hook decides: the policy allows Bash \"true\" in a dry run"}
	case code == 0 && strictjson.Check([]byte(stdout)) == nil:
		works = Finding{true, "the hook decides: " + strings.TrimSpace(stdout)}
	case code == 0:
		works = Finding{false, "the hook prints output that agents cannot read: " + firstLine(stdout, "")}
	}
	code, stdout, stderr = runShell(ctx, command+" --dry-run --url "+nowhere, event)
	closed := Finding{code == 2 && stdout == "" && strings.TrimSpace(stderr) != "", "without askance the hook blocks: exit code 2 and a reason"}
	if !closed.OK {
		closed.Text = fmt.Sprintf("without askance the hook does not block: exit code %d", code)
	}
	return []Finding{works, closed}
}

func firstLine(text, otherwise string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return cmp.Or(line, otherwise)
}

// runShell runs a command line as agents do.
func runShell(ctx context.Context, command, stdin string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		return -1, "", err.Error()
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// Version returns the version of the agent's program; "" if it is not installed.
func Version(ctx context.Context, d dialect.Dialect) string {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, agents[d].program, "--version").Output()
	if err != nil {
		return ""
	}
	return versionNumber.FindString(string(out))
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// knownOnFailure is the oldest version of Claude Code that is known to have onFailure.
var knownOnFailure = []int{2, 1, 330}

// Warnings says what the settings cannot prevent with this version of the agent.
func Warnings(d dialect.Dialect, version string) []string {
	switch d {
	case dialect.Codex:
		return []string{
			"Codex runs only hooks that its user trusts: start codex, open /hooks and trust the hooks of askance. Untrusted hooks are skipped, and tools run.",
			"Codex has no onFailure: a hook that is killed or missing lets the tool run. Hooks that requirements.toml manages cannot be turned off by a project.",
		}
	case dialect.Gemini:
		return []string{
			"Gemini CLI has no onFailure: a hook that is killed lets the tool run.",
			"Gemini CLI runs a project's hooks only in trusted folders.",
		}
	case dialect.ClaudeCode:
	}
	var parts []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return []string{"The version of Claude Code is unknown. onFailure exists in 2.1.330 and later; without it, a hook that is killed or missing lets the tool run."}
		}
		parts = append(parts, n)
	}
	if slices.Compare(parts, knownOnFailure) < 0 {
		return []string{"Claude Code " + version + " may not have onFailure, which exists in 2.1.330 and later: a hook that is killed or missing lets the tool run. Update it."}
	}
	return nil
}

// CodexTrust asks Codex whether its user trusts the hooks of askance in a folder. An
// untrusted hook does not run, and Codex does not say so.
func CodexTrust(ctx context.Context, folder string) (Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "codex", "app-server")
	in, err := c.StdinPipe()
	if err != nil {
		return Finding{}, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return Finding{}, err
	}
	if err := c.Start(); err != nil {
		return Finding{}, err
	}
	defer func() { cancel(); _ = c.Wait() }() // it was killed
	cwd, err := strictjson.Marshal(folder)
	if err != nil {
		return Finding{}, err
	}
	if _, err := fmt.Fprintf(in, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"askance","version":"1"}}}
{"method":"initialized"}
{"id":2,"method":"hooks/list","params":{"cwds":[%s]}}
`, cwd); err != nil {
		return Finding{}, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var reply struct {
			ID     any `json:"id"`
			Result struct {
				Data []struct {
					Hooks []struct {
						Command string `json:"command"`
						Event   string `json:"eventName"`
						Trust   string `json:"trustStatus"`
						Enabled bool   `json:"enabled"`
					} `json:"hooks"`
				} `json:"data"`
			} `json:"result"`
		}
		if strictjson.UnmarshalOpen(lines.Bytes(), &reply) != nil || fmt.Sprint(reply.ID) != "2" {
			continue
		}
		for _, d := range reply.Result.Data {
			for _, h := range d.Hooks {
				if h.Event == "preToolUse" && strings.Contains(h.Command, " hook codex") {
					return Finding{h.Enabled && (h.Trust == "trusted" || h.Trust == "managed"), "Codex says that the hook is " + h.Trust}, nil
				}
			}
		}
		return Finding{false, "Codex does not list the hook"}, nil
	}
	return Finding{}, errors.New("codex app-server returned no list of hooks")
}
