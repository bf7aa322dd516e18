package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
)

// deployDir is computed before a test changes the working folder.
var deployDir, _ = filepath.Abs("../../../../deploy")

func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// deployArgs returns the arguments of askance in a file of deploy.
func deployArgs(t *testing.T, file string) (args []string) {
	t.Helper()
	text := deployFile(t, file)
	switch file {
	case "systemd/askance.service":
		line := regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindSubmatch(text)
		return strings.Fields(string(line[1]))
	case "compose.yaml":
		var c struct {
			Services map[string]struct{ Command []string }
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		return c.Services["askance"].Command
	default:
		var d struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		return d.Spec.Template.Spec.Containers[0].Args
	}
}

// TestDeploy runs the command line of each file of deploy as a user who may write only to the
// data folder, with addresses and paths of this machine.
func TestDeploy(t *testing.T) {
	cleanEnvironment(t)
	etc := filepath.Join(deployDir, "config")
	base := filepath.Join(t.TempDir(), "nats")
	ok(t, "creds", "init", "--data", base)
	hub := serveOn(t, base)
	creds := findFile(t, filepath.Join(base, "creds"), "engine.creds")
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	ok(t, "token", "create", "admin", "--role", "approver", "--http-tokens", tokens)
	plain := serveOn(t, filepath.Join(t.TempDir(), "plain"))
	bin := copyOf(t, os.Args[0])
	for _, file := range []string{"systemd/askance.service", "compose.yaml", "kubernetes/deployment.yaml"} {
		t.Run(file, func(t *testing.T) {
			data, secret := filepath.Join(t.TempDir(), "data"), t.TempDir()
			for name, from := range map[string]string{"engine.creds": creds, "engine.key": filepath.Join(base, "engine.key"), "tokens.json": tokens} {
				b, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(secret, name), string(b))
			}
			own(t, data, secret)
			var args []string
			for _, a := range deployArgs(t, file) {
				a = strings.NewReplacer("/var/lib/askance/tokens.json", filepath.Join(secret, "tokens.json"), "/var/lib/askance", data, "/etc/askance/config", etc,
					"/etc/askance/secret", secret, "/etc/askance", etc, "nats://nats:4222", plain.url, "0.0.0.0:8787", "127.0.0.1:0", "127.0.0.1:8787", "127.0.0.1:0",
					"0.0.0.0:9464", "127.0.0.1:0", "127.0.0.1:9464", "127.0.0.1:0").Replace(a)
				args = append(args, a)
			}
			args = append(args, "--json")
			env := []string{"HOME=/nonexistent", "TMPDIR=/nonexistent", "ASKANCE_DATA=" + data}
			switch file {
			case "systemd/askance.service":
				args = append(args, "--listen", "127.0.0.1:0")
			case "compose.yaml": // the other space has another engine's keys on this server
				args = append(args, "--space", "trial")
			case "kubernetes/deployment.yaml":
				env = append(env, "ASKANCE_NATS="+hub.url, "ASKANCE_DURABILITY=cached", "ASKANCE_HTTP_URL=https://askance.example")
			}
			cmd := exec.CommandContext(t.Context(), bin, args...)
			cmd.Env, cmd.Dir = env, "/"
			if os.Geteuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				_ = cmd.Wait()
				t.Fatalf("askance %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
			}
			at := decode[struct{ HTTP, Metrics string }](t, line)
			for url, want := range map[string]string{at.HTTP + "/healthz": "", at.HTTP + "/readyz": "", at.Metrics: "askance_up 1"} {
				if text := fetchOK(t, url); !strings.Contains(text, want) {
					t.Errorf("%s returns %s", url, text)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("after SIGTERM: %v\n%s", err, stderr.String())
			}
		})
	}
}

// TestDeployNATS: the compose file runs the release of NATS that the tests of this repository run.
func TestDeployNATS(t *testing.T) {
	release := server.VERSION[:strings.LastIndex(server.VERSION, ".")]
	if want := "image: nats:" + release + "-"; !strings.Contains(string(deployFile(t, "compose.yaml")), want) {
		t.Errorf("compose.yaml does not have %q", want)
	}
	if want := "NATS servers, " + release + ","; !strings.Contains(string(deployFile(t, "../docs/howto/existing-cluster.md")), want) {
		t.Errorf("existing-cluster.md does not have %q", want)
	}
}

// TestRootKeepsOwner: what root does with the stopped service's data folder leaves nothing that the
// service cannot read.
func TestRootKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 { // others give no files away
		return
	}
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	write(t, "rules.yaml", "version: 1\nname: t\nrules:\n  - {name: all, tool: \"*\", behavior: deny}\n")
	s := serveOn(t, data, "--policy", "rules.yaml")
	s.propose("r1", "c1", "unknown", "{}")
	s.propose("r2", "c1", "unknown", "{}")
	s.stop()
	if err := filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, imageUser, imageUser))
	}); err != nil {
		t.Fatal(err)
	}
	ok(t, "keys", "rotate", "--data", data)
	ok(t, "journal", "archive", "--older-than", "0s", "--data", data)
	backup, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	ok(t, "journal", "backup", backup, "--data", data)
	key, err := os.ReadFile(filepath.Join(data, "engine.key"))
	if err = errors.Join(err, os.Mkdir(restored, 0o700), os.Chown(restored, imageUser, imageUser)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(restored, "engine.key"), string(key))
	if err := os.Chown(filepath.Join(restored, "engine.key"), imageUser, imageUser); err != nil {
		t.Fatal(err)
	}
	ok(t, "journal", "restore", backup, "--data", restored)
	ok(t, "journal", "accept-loss", "--by", "ann", "--reason", "restored", "--yes", "--data", restored)
	for _, dir := range []string{data, restored} {
		seen := 0
		if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			info, err2 := d.Info()
			if err = errors.Join(err, err2); err != nil {
				return err
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != imageUser {
				t.Errorf("%s belongs to user %d", path, st.Uid)
			}
			seen++
			return nil
		}); err != nil || seen < 10 {
			t.Errorf("%d files, %v", seen, err)
		}
	}
}

// imageUser is the user of the image.
const imageUser = 65532

// own gives files to the user of the image, if this test has the permission.
func own(t *testing.T, data, secret string) {
	t.Helper()
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	for at := secret; at != "/" && at != tempFolder; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at := filepath.Dir(data); at != "/" && at != tempFolder; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(secret, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files { // as Kubernetes does for fsGroup
		if err := errors.Join(os.Chown(path, 0, imageUser), os.Chmod(path, 0o440)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(data, imageUser, imageUser); err != nil {
		t.Fatal(err)
	}
}

// tempFolder is the parent of the tests' temporary folders.
var tempFolder = os.TempDir()

func copyOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "askance")
	for at := filepath.Dir(to); at != "/" && at != tempFolder; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

func findFile(t *testing.T, dir, name string) string {
	t.Helper()
	var found string
	err := filepath.WalkDir(dir, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			found = at
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no %s in %s: %v", name, dir, err)
	}
	return found
}

func fetchOK(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, resp.Status, err, body)
	}
	return string(body)
}

// TestDashboardMetrics: a server exports every metric that the dashboard and the alerts use,
// after a few calls.
func TestDashboardMetrics(t *testing.T) {
	s, token := serveWorkers(t)
	s.stop()
	dir := filepath.Dir(s.data)
	s = serveOn(t, s.data, "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"), "--metrics", ":0")
	process(t, "worker", "--server", s.http, "--token-file", token, "--engine-key", filepath.Join(s.data, "engine.pub"), "--data", t.TempDir(), "--tool", "pay", "--", "cat")
	s.propose("r1", "c1", "pay", `{"cents":5}`)
	s.finished("c1")
	c := s.propose("r1", "c2", "pay", `{"cents":500}`)
	if c.State != message.ToolCallAsking {
		t.Fatalf("the call is %s", c.State)
	}
	ok(t, "approve", "c2", "--data", s.data, "--as", "ann", "--yes")
	s.finished("c2")
	for range 2 {
		fetchOK(t, s.http+"/healthz")
	}
	var text string
	for !strings.Contains(text, `verdict="approve"} 1`) || !strings.Contains(text, "askance_run_seconds_count{tool=\"pay\"} 2") {
		if text = fetchOK(t, s.metrics); t.Context().Err() != nil {
			t.Fatal("the calls are not counted")
		}
	}
	onlySometimes := []string{"askance_clock_ahead_seconds", "askance_webhook_oldest_seconds"} // for clocks that differ, and with webhooks
	seen := 0
	var board any
	if err := json.Unmarshal(deployFile(t, "grafana/askance.json"), &board); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"grafana/askance.json", "prometheus/alerts.yaml"} {
		for _, name := range regexp.MustCompile(`\baskance_[a-z0-9_]+`).FindAllString(string(deployFile(t, file)), -1) {
			seen++
			if !slices.Contains(onlySometimes, name) && !regexp.MustCompile(`(?m)^`+name+`[{ ]`).MatchString(text) {
				t.Errorf("%s names %s, which the server does not export", file, name)
			}
		}
	}
	if seen < 30 {
		t.Errorf("found only %d names of metrics", seen)
	}
	for _, want := range []string{
		`askance_decisions_total{rule="large",tool="pay",verdict="ask"} 1`, `askance_decisions_total{rule="small",tool="pay",verdict="allow"} 1`,
		`askance_calls_finished_total{outcome="success",tool="pay"} 2`, `askance_queue_workers{placement="remote",route="",tool="pay"} 1`,
		`askance_http_requests_total{method="GET",route="/healthz",status="200"} 2`, "askance_nats_connected 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `"ann"`) {
		t.Error("the metrics contain the name of a person")
	}
}

// What askance serve writes as root into the folder of another user belongs to that user.
func TestServeAsRoot(t *testing.T) {
	if os.Geteuid() != 0 { // others give no files away
		return
	}
	parallel(t)
	const user = 65532
	data, rules := t.TempDir(), filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, testRules)
	if err := os.Chown(data, user, user); err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, data, "--policy", rules)
	written := map[string]bool{}
	s.stop()
	if err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		written[e.Name()] = true
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != user { //nolint:forcetypeassert // of this system
			t.Errorf("%s belongs to %d", path, uid)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"last-run.yaml", "policies", "engine.key", "engine.pub"} {
		if !written[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// On a full disk askance serve says what to do, and commands can read the journal.
func TestServeOnAFullDisk(t *testing.T) {
	dir := bustest.SmallDisk(t)
	parallel(t)
	data := filepath.Join(dir, "data")
	s := serveOn(t, data)
	s.propose("r1", "c1", "boss", `{}`)
	s.stop()
	bustest.Occupy(t, dir, 0)
	fails(t, cli.ExitUnavailable, "no space left on device\nhint: free disk space\n", "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	if out := ok(t, "list", "--all", "--data", data); !strings.Contains(out, "c1") {
		t.Errorf("list printed\n%s", out)
	}
	ok(t, "audit", "verify", "--data", data)
}
