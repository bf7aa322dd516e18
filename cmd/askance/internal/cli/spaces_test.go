package cli_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const teamRules = `
version: 1
name: team
rules:
  - {name: everything, tool_name: [pay, ship], behavior: ask}
`

// writeSpaces writes the files for two spaces and returns the flags of serve.
func writeSpaces(t *testing.T) []string {
	t.Helper()
	cleanEnvironment(t)
	write(t, "rules.yaml", testRules)
	write(t, "team.yaml", teamRules)
	write(t, "tools.yaml", testTools)
	write(t, "spaces.yaml", "version: 1\nspaces:\n  team-b: {policy: team.yaml, tools: tools.yaml}\n")
	return []string{"--durability", "fsynced", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--policy", "rules.yaml", "--tools", "tools.yaml", "--spaces", "spaces.yaml"}
}

// proposeIn proposes the call c1 in a space and returns the call. login is a credentials file, or
// "".
func (s *served) proposeIn(space toolcall.SpaceID, login string) (*toolcall.Call, error) {
	s.t.Helper()
	name := "bot"
	if login != "" {
		u, err := creds.ReadLogin(login)
		if err != nil {
			s.t.Fatal(err)
		}
		name = u.Name
	}
	nc, err := bus.Connect(s.t.Context(), s.url, bus.ConnectOptions{Principal: name, CredsFile: login})
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	c, err := bus.NewClient(nc, space, toolcall.Principal{Role: toolcall.RoleRuntime, Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := c.Propose(s.t.Context(), toolcall.ProposeRequest{V: 1, Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{{ID: "c1", Name: "pay", Input: `{"cents":50}`}}})
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

// TestSpaces: one process decides about the calls of each space by its own policy, even after a
// crash. The host selects the space of the local user.
func TestSpaces(t *testing.T) {
	args := writeSpaces(t)
	s, kill := serveProcess(t, "data", args...)
	for space, want := range map[toolcall.SpaceID]message.ToolCallState{"default": message.ToolCallSubmitted, "team-b": message.ToolCallAsking} {
		if c, err := s.proposeIn(space, ""); err != nil || c.State != want {
			t.Fatalf("%s: the call is %+v, %v; want %s", space, c, err, want)
		}
	}
	kill()
	if out := ok(t, "list", "--data", "data", "--space", "team-b"); !strings.Contains(out, "c1") {
		t.Errorf("without a server, list printed\n%s", out)
	}
	s, kill = serveProcess(t, "data", args...)
	port := s.http[strings.LastIndex(s.http, ":"):]
	const call = "/v1/calls/s1/r1/c1"
	for host, want := range map[string]string{"localhost": `"submitted"`, "default.localhost": `"submitted"`, "team-b.localhost": `"asking"`, "other.localhost": "has no space", "team-b.example": "does not name this machine"} {
		if code, text := s.send(http.MethodGet, call, "", "Host", host+port); !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", host, code, text, want)
		}
	}
	shown := decode[toolcall.ShowReply](t, ok(t, "show", "c1", "--json", "--data", "data", "--space", "team-b")).Call
	if code, text := s.approve(shown, "Host", "localhost"+port); code < http.StatusBadRequest {
		t.Errorf("an approval of the call in the wrong space: %d %s", code, text)
	}
	if code, text := s.approve(shown, "Host", "team-b.localhost"+port); code != http.StatusOK {
		t.Errorf("an approval: %d %s", code, text)
	}
	if out := ok(t, "show", "c1", "--json", "--server", s.http, "--space", "team-b"); !strings.Contains(out, `"space": "team-b"`) {
		t.Errorf("over HTTP, show of the space printed\n%s", out)
	}
	at := "http://team-b.localhost" + port // as serve prints it
	if out := ok(t, "show", "c1", "--json", "--server", at); !strings.Contains(out, `"space": "team-b"`) {
		t.Errorf("at the address of the space, show printed\n%s", out)
	}
	fails(t, cli.ExitUsage, "names the space", "show", "c1", "--server", at, "--space", "default")
	fails(t, cli.ExitForbidden, "has no space", "call", "pay", "--server", s.http, "--space", "other")
	if code, text := s.send(http.MethodGet, "/readyz", ""); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, text)
	}
	if text := scrapeAll(t, s.metrics); !strings.Contains(text, `askance_up{space="default"} 1`) || !strings.Contains(text, `askance_calls_proposed_total{space="team-b",tool="pay"} 1`) || !strings.Contains(text, `askance_journal_unsigned_records{space="team-b"} `) {
		t.Errorf("the metrics are\n%s", text)
	}
	if out := ok(t, "open", "--print", "--data", "data", "--space", "team-b"); !strings.Contains(out, "//team-b.localhost"+port) {
		t.Errorf("the console is at %s", out)
	}
	kill()
	s, kill = serveProcess(t, "data", args[:len(args)-2]...)
	fails(t, cli.ExitUnavailable, "", "list", "--data", "data", "--space", "team-b")
	kill()
	if !strings.Contains(s.errs.String(), "a space of the data folder is not served") || !strings.Contains(s.errs.String(), "team-b") {
		t.Errorf("without the space, serve printed\n%s", s.errs.String())
	}
	if out := ok(t, "list", "--data", "data", "--space", "team-b"); !strings.Contains(out, "c1") {
		t.Errorf("list of the space that is not served:\n%s", out)
	}
}

func scrapeAll(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSpacesOnExistingServer: each space has its own connection and keys. It does not use the
// mode or the tools of the first space.
func TestSpacesOnExistingServer(t *testing.T) {
	args := writeSpaces(t)
	nats, err := embed.Start(t.Context(), embed.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Durability: journal.DurabilityCached})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	write(t, "spaces.yaml", "version: 1\nspaces:\n  team-b: {policy: team.yaml, tools: tools.yaml}\n  bare: {}\n")
	s := serveOn(t, "data", append(args[2:], "--mode", "bypass", "--nats", nats.URL())...)
	s.url = nats.URL()
	for space, want := range map[toolcall.SpaceID]message.ToolCallState{"default": message.ToolCallSubmitted, "team-b": message.ToolCallAsking, "bare": message.ToolCallFinished} {
		if c, err := s.proposeIn(space, ""); err != nil || c.State != want {
			t.Errorf("%s: the call is %+v, %v; want %s", space, c, err, want)
		}
	}
}

// TestSpacesAreApart: with a login or a token of one space, nothing of another can be seen or
// decided, under any host.
func TestSpacesAreApart(t *testing.T) {
	args := writeSpaces(t)
	ok(t, "creds", "init", "--data", "data")
	login := map[toolcall.SpaceID]string{}
	token := map[toolcall.SpaceID]string{}
	spaces := []toolcall.SpaceID{"default", "team-b"}
	for _, space := range spaces {
		login[space] = credFile(t, "data", "runtime", "bot-"+string(space), "--space", string(space))
		token[space] = strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--role", "operator", "--data", "data", "--space", string(space)))
	}
	ann := credFile(t, "data", "approver", "ann", "--space", "default")
	fails(t, cli.ExitUsage, "already has a login in the space default", "creds", "add", "approver", "ann", "--space", "team-b", "--data", "data")
	ok(t, "creds", "add", "approver", "ann", "--space", "team-b", "--same-owner", "--data", "data")
	s, kill := serveProcess(t, "data", args...)
	defer kill()
	for i, space := range spaces {
		if c, err := s.proposeIn(spaces[1-i], login[space]); err == nil {
			t.Errorf("the login of %s proposed %+v in the other space", space, c)
		}
	}
	if _, err := s.proposeIn("team-b", login["team-b"]); err != nil {
		t.Fatal(err)
	}
	const call = "/v1/calls/s1/r1/c1"
	code, text := s.send(http.MethodGet, call, "", "Authorization", "Bearer "+token["team-b"])
	if code != http.StatusOK {
		t.Fatalf("its own space: %d %s", code, text)
	}
	digest := decode[toolcall.ShowReply](t, text).Call
	port := s.http[strings.LastIndex(s.http, ":"):]
	for _, host := range []string{"localhost", "team-b.localhost"} {
		other := []string{"Authorization", "Bearer " + token["default"], "Host", host + port}
		if code, text := s.send(http.MethodGet, call, "", other...); code != http.StatusNotFound {
			t.Errorf("%s, the token of another space reads: %d %s", host, code, text)
		}
		if code, text := s.send(http.MethodGet, "/v1/calls", "", other...); code != http.StatusOK || strings.Contains(text, "c1") {
			t.Errorf("%s, the token of another space lists: %d %s", host, code, text)
		}
		if code, text := s.approve(digest, other...); code < http.StatusBadRequest {
			t.Errorf("%s, the token of another space approves: %d %s", host, code, text)
		}
		if code, text := s.send(http.MethodGet, call, "", "Host", host+port); code != http.StatusUnauthorized {
			t.Errorf("%s, without a token: %d %s", host, code, text)
		}
	}
	fails(t, cli.ExitUsage, "valid only for the space", "list", "--nats", s.url, "--creds", ann, "--space", "team-b")
	write(t, "ann.token", token["default"])
	fails(t, cli.ExitUsage, "valid only for the space", "list", "--server", s.http, "--token-file", "ann.token", "--space", "team-b")
	write(t, "team.token", strings.TrimSpace(ok(t, "token", "create", "wk", "--role", "worker", "--tool", "pay", "--data", "data", "--space", "team-b")))
	write(t, "wk.token", strings.TrimSpace(ok(t, "token", "create", "wk", "--role", "worker", "--tool", "pay", "--data", "data")))
	fails(t, cli.ExitUsage, "valid only for the space", "worker", "--server", s.http, "--token-file", "wk.token", "--engine-key", "data/engine.pub", "--space", "team-b", "--tool", "pay", "--", "cat")
	fails(t, cli.ExitUsage, "valid only for the space", "worker", "--server", "http://team-b.localhost"+port, "--token-file", "wk.token", "--engine-key", "data/engine.pub", "--tool", "pay", "--", "cat")
	fails(t, cli.ExitUsage, "the token is for the space \"team-b\", whose engines sign with other keys than those in data/engine.pub", "worker", "--server", s.http, "--token-file", "team.token", "--engine-key", "data/engine.pub", "--tool", "pay", "--", "cat")
	fails(t, cli.ExitUsage, "valid only for the space", "list", "--server", "http://team-b.localhost"+port, "--token-file", "ann.token")
	if out := ok(t, "list", "--nats", s.url, "--creds", ann); strings.Contains(out, "c1") {
		t.Errorf("the approver of another space sees\n%s", out)
	}
	if code, text := s.approve(digest, "Authorization", "Bearer "+token["team-b"]); code != http.StatusOK {
		t.Errorf("the token of the space: %d %s", code, text)
	}
}

// TestSpacesFile: errors in the file are reported with their position before the server starts.
func TestSpacesFile(t *testing.T) {
	args := writeSpaces(t)
	write(t, "bad.yaml", "version: 1\nrules: [{name: x}]\n")
	for text, says := range map[string]string{
		"version: 1\nspaces:\n  team:\n    polcy: team.yaml\n":                 `spaces.yaml:4:12: space team: unknown setting "polcy"; a space has policy,`,
		"version: 1\nspaces:\n  team-b: {http: off}\n":                         `spaces.yaml:3:18: space team-b: unknown setting "http"`,
		"version: 1\nspaces:\n  default: {policy: team.yaml}\n":                "spaces.yaml:3:12: space default: is the space of --space",
		"version: 1\nspaces:\n  team: {}\n  team: {}\n":                        `spaces.yaml:4:3: mapping key "team" already defined`,
		"version: 1\nspace: {}\n":                                              "spaces.yaml:2:1",
		"spaces: {}\n":                                                         "must begin with version: 1",
		"version: 1\nspaces: [team]\n":                                         "spaces.yaml:2:",
		"version: 1\nspaces:\n  Team: {policy: team.yaml}\n":                   `space "Team" is not a valid name`,
		"version: 1\nspaces:\n  team: {mode: fast}\n":                          `space team: --mode: unknown permission mode "fast"`,
		"version: 1\nspaces:\n  team: {max_open: -1}\n":                        "space team: --max-open or",
		"version: 1\nspaces:\n  team: {policy: bad.yaml}\n":                    "bad.yaml:2",
		"version: 1\nspaces:\n  team: {tools: bad.yaml}\n":                     "bad.yaml:2",
		"version: 1\nspaces:\n  team: {directory: bad.yaml}\n":                 "bad.yaml:2",
		"version: 1\nspaces:\n  team: {policy: team.yaml, tools: none.yaml}\n": "none.yaml",
	} {
		write(t, "spaces.yaml", text)
		fails(t, cli.ExitUsage, says, append([]string{"serve", "--data", "new", "--listen", "127.0.0.1:0"}, args...)...)
	}
	fails(t, cli.ExitUsage, "", "list", "--data", "new", "--spaces", "spaces.yaml")
	if r := run(t, "list", "--data", "new"); !strings.Contains(r.err, "new has no askance journal") {
		t.Errorf("serve created a folder: %s", r.err)
	}
}
