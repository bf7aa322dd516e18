package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/toolcall"
)

// stoppedAt ends with a signal as soon as the file exists.
type stoppedAt struct {
	context.Context //nolint:containedctx // it is a context
	path            string
	stop            context.CancelCauseFunc
}

// Done implements context.Context.
func (s stoppedAt) Done() <-chan struct{} {
	if _, err := os.Stat(s.path); err == nil {
		s.stop(errSignal)
	}
	return s.Context.Done()
}

// A stopped backup says that its folder is incomplete.
func TestStoppedBackup(t *testing.T) {
	clearSettings(t)
	dir := t.TempDir()
	key, folder := filepath.Join(dir, "engine.key"), filepath.Join(dir, "backup")
	if _, err := keyfile.LoadOrCreate(key); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "nats"), 0o700); err != nil { // a backup makes no store
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var errs strings.Builder
	code := Main(stoppedAt{ctx, folder, stop}, IO{In: strings.NewReader(""), Out: &errs, Err: &errs}, []string{"journal", "backup", folder, "--data", dir, "--keys", key})
	if want := "error: stopped by a signal\nhint: remove " + folder + ", which is incomplete, and run the backup again\n"; code != ExitInterrupted || errs.String() != want {
		t.Errorf("exit %d\n%s\nwant\n%s", code, errs.String(), want)
	}
}

// A call that was stopped while it was proposed can be proposed again with the same ids, by the same
// person.
func TestStoppedCall(t *testing.T) {
	clearSettings(t)
	t.Setenv("ASKANCE_TOKEN", "")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			stop(errSignal)
			<-ctx.Done()
		case strings.HasSuffix(r.URL.Path, "/whoami"):
			_, _ = w.Write([]byte(`{"name":"ann","space":"default","roles":["runtime"]}`))
		default:
			_ = json.NewEncoder(w).Encode(toolcall.InfoReply{})
		}
	}))
	defer srv.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	code := Main(ctx, IO{In: strings.NewReader(""), Out: &errs, Err: &errs}, []string{"call", "pay", "--session", "s", "--reply", "r", "--id", "c", "--server", srv.URL, "--token-file", token})
	at := " --server " + srv.URL + " --token-file " + token + "\n"
	want := "Stopped waiting. The request may be recorded.\n  wait again: askance call pay --args '{}' --session s --reply r --id c" + at + "  end it:     askance interrupt s/r/c" + at
	if got := strings.ReplaceAll(errs.String(), programName(), "askance"); code != ExitInterrupted || got != want {
		t.Errorf("exit %d\n%s\nwant\n%s", code, got, want)
	}
}

// A hook that was stopped blocks its call, and does not say that the server is down.
func TestStoppedHook(t *testing.T) {
	clearSettings(t)
	t.Setenv("ASKANCE_TOKEN", "")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		stop(errSignal)
		<-r.Context().Done()
	}))
	defer srv.Close()
	event := `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"c","tool_name":"Read","tool_input":{},"cwd":"/"}`
	var errs strings.Builder
	code := Main(ctx, IO{In: strings.NewReader(event), Out: &errs, Err: &errs}, []string{"hook", "claude-code", "--url", srv.URL})
	if code != 2 || !strings.Contains(errs.String(), "blocked: the hook was stopped before a decision\n") {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
}

// Only a command that an agent starts to block a tool ends with the code of a usage error.
func TestSignalCode(t *testing.T) {
	for line, want := range map[string]int{
		"hook":                                   ExitUsage,
		"hook claude-code --timeout 5m":          ExitUsage,
		"--output json hook gemini":              ExitUsage,
		"hook mcp":                               ExitUsage,
		"hook claud":                             ExitUsage,
		"hook claude-code --wrong":               ExitUsage,
		"list --agent hook":                      ExitInterrupted,
		"--output hook list":                     ExitInterrupted,
		"hook install claude-code":               ExitInterrupted,
		"worker --tool hook -- hook claude-code": ExitInterrupted,
		"help hook":                              ExitInterrupted,
		"":                                       ExitInterrupted,
	} {
		args := strings.Fields(line)
		if _, root := newCommand(IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, args); signalCode(root, args) != want {
			t.Errorf("askance %s: the code is not %d", line, want)
		}
	}
}
