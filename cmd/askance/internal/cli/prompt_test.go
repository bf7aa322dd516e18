package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// asking returns an asker whose person types the given lines.
func asking(t *testing.T, typed string) (*asker, *bytes.Buffer) {
	t.Helper()
	t.Setenv("ACCESSIBLE", "1") // plain lines instead of a form
	var out bytes.Buffer
	env := &environment{in: iotest.OneByteReader(strings.NewReader(typed)), out: term.New(&out), err: term.New(&out), log: slog.New(slog.DiscardHandler)}
	env.cfg.As = "ann"
	return &asker{env: env, story: story.New(env.out, time.Now())}, &out
}

func askedCall() *toolcall.Call {
	return &toolcall.Call{
		Key:  toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "c"},
		Tool: "refund", Input: `{"cents":500}`, State: message.ToolCallAsking, Digest: "sha256:00",
		Request: &toolcall.ApprovalRequest{Text: "Refund 500 cents?"}, Decision: &toolcall.Decision{Behavior: message.BehaviorAsk, Reason: "because"},
	}
}

func TestAskerChoices(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		want        toolcall.Response
		err         error
	}{
		{"approve", "1\n", toolcall.Response{Kind: toolcall.ResponseApprove}, nil},
		{"reject", "3\ntoo much\n", toolcall.Response{Kind: toolcall.ResponseReject, Feedback: "too much"}, nil},
		{"answer", "4\ndone by hand\n", toolcall.Response{Kind: toolcall.ResponseRespond, Output: "done by hand"}, nil},
		{"leave", "5\n", toolcall.Response{}, errAborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, out := asking(t, tc.typed)
			got, err := k.SubmitResponse(t.Context(), askedCall(), nil)
			if !errors.Is(err, tc.err) || got.Kind != tc.want.Kind || got.Feedback != tc.want.Feedback || got.Output != tc.want.Output {
				t.Errorf("Answer = %+v, %v\n%s", got, err, out)
			}
			for _, seen := range []string{"Refund 500 cents?", "sha256:00", `"cents": 500`} {
				if !strings.Contains(out.String(), seen) {
					t.Errorf("the person was not shown %q:\n%s", seen, out)
				}
			}
		})
	}
	k, out := asking(t, "2\n{\"cents\":50}\n")
	got, err := k.SubmitResponse(t.Context(), askedCall(), errors.New("no such luck"))
	if err != nil || got.Input == nil || *got.Input != `{"cents":50}` {
		t.Errorf("edit: %+v, %v\n%s", got, err, out)
	}
	if !strings.Contains(out.String(), "no such luck") {
		t.Error("the person was not told why the previous answer was refused")
	}
}

func TestScriptApproves(t *testing.T) {
	if resp, err := (scripted{}).SubmitResponse(t.Context(), askedCall(), nil); err != nil || resp.Kind != toolcall.ResponseApprove {
		t.Errorf("Answer = %+v, %v", resp, err)
	}
	refused := errors.New("refused")
	if _, err := (scripted{}).SubmitResponse(t.Context(), askedCall(), refused); !errors.Is(err, refused) {
		t.Errorf("a refused answer is sent again: %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(refused)
	if _, err := (scripted{}).SubmitResponse(ctx, askedCall(), nil); !errors.Is(err, refused) {
		t.Errorf("Answer after the end = %v", err)
	}
}

// The editor gets JSON in which nothing is hidden. The edited text is the same JSON except for
// what the person changed.
func TestEditorGetsJSON(t *testing.T) {
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "sed -i s/500/400/")
	call := &toolcall.Call{Input: "{\"to\":\"\u202eann\u007f\",\"cents\":500}"}
	text, path, err := openEditor(t.Context(), asked.Editable(call.Input))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "\u202e") || strings.Contains(text, "\u007f") {
		t.Errorf("the editor hides something: %q", text)
	}
	var got struct {
		To    string
		Cents int
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.To != "\u202eann\u007f" || got.Cents != 400 {
		t.Errorf("%s is %+v, %v", text, got, err)
	}
}

// The file of an editor stays only if it has something that the person wrote.
func TestEditorKeepsWhatWasWritten(t *testing.T) {
	t.Setenv("VISUAL", "")
	for program, keeps := range map[string]bool{"true": false, "false": false, "rm": false, "truncate -s 2M": true} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		t.Setenv("EDITOR", program)
		_, path, err := openEditor(t.Context(), "{}")
		files, gerr := filepath.Glob(filepath.Join(tmp, "*", "*"))
		if err == nil || gerr != nil || (path != "") != keeps || len(files) == 1 != keeps {
			t.Errorf("%s: %q, %v; files: %v, %v", program, path, err, files, gerr)
		}
	}
}

// Tree returns every command, including groups of commands, by the words that call it.
func Tree() map[string]*cobra.Command {
	_, all := newTree()
	return all
}

func newTree() (*environment, map[string]*cobra.Command) {
	env := &environment{log: slog.New(slog.DiscardHandler)}
	root := newRootCommand(env)
	root.InitDefaultCompletionCmd("completion")
	out := map[string]*cobra.Command{"": root}
	var add func(words string, c *cobra.Command)
	add = func(words string, c *cobra.Command) {
		for _, sub := range c.Commands() {
			path := sub.Name()
			if words != "" {
				path = words + " " + path
			}
			out[path] = sub
			add(path, sub)
		}
	}
	add("", root)
	return env, out
}

// Agents choose ids, which must not become flags of a command that a person copies.
func TestAddressWord(t *testing.T) {
	for want, k := range map[string]toolcall.Key{
		"s/r/c":     {Session: "s", Reply: "r", Call: "c"},
		"'s x/r/c'": {Session: "s x", Reply: "r", Call: "c"},
		"CALL":      {Session: "--server=https://evil.example", Reply: "r", Call: "c"},
	} {
		if got := addressWord(k); got != want {
			t.Errorf("%v: %s, want %s", k, got, want)
		}
	}
}
