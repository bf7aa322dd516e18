package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

// asking is an asker whose person types what is given, line by line.
func asking(t *testing.T, typed string) (*asker, *bytes.Buffer) {
	t.Helper()
	t.Setenv("ACCESSIBLE", "1") // prompts as plain lines
	var out bytes.Buffer
	env := &environment{in: iotest.OneByteReader(strings.NewReader(typed)), out: term.New(&out), err: term.New(&out), log: slog.New(slog.DiscardHandler)}
	env.at.as = "ann"
	return &asker{env: env, story: story.New(env.out, time.Now())}, &out
}

func askedCall() *message.Call {
	return &message.Call{
		Key:  message.Key{Space: "default", Session: "s", Reply: "r", Call: "c"},
		Tool: "refund", Input: `{"cents":500}`, State: message.ToolCallAsking, Digest: "sha256:00",
		Question: &message.Question{Text: "Refund 500 cents?"}, Decision: &message.Decision{Behavior: message.BehaviorAsk, Reason: "because"},
	}
}

func TestAskerChoices(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		want        message.Answer
		err         error
	}{
		{"approve", "1\n", message.Answer{Kind: message.AnswerApprove}, nil},
		{"reject", "3\ntoo much\n", message.Answer{Kind: message.AnswerReject, Feedback: "too much"}, nil},
		{"answer", "4\ndone by hand\n", message.Answer{Kind: message.AnswerForTool, Output: "done by hand"}, nil},
		{"leave", "5\n", message.Answer{}, errAborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, out := asking(t, tc.typed)
			got, err := k.Answer(t.Context(), askedCall(), nil)
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
	got, err := k.Answer(t.Context(), askedCall(), errors.New("no such luck"))
	if err != nil || got.Input == nil || *got.Input != `{"cents":50}` {
		t.Errorf("edit: %+v, %v\n%s", got, err, out)
	}
	if !strings.Contains(out.String(), "no such luck") {
		t.Error("the person was not told why the answer before was refused")
	}
}

func TestScriptApproves(t *testing.T) {
	if a, err := (scripted{}).Answer(t.Context(), askedCall(), nil); err != nil || a.Kind != message.AnswerApprove {
		t.Errorf("Answer = %+v, %v", a, err)
	}
	refused := errors.New("refused")
	if _, err := (scripted{}).Answer(t.Context(), askedCall(), refused); !errors.Is(err, refused) {
		t.Errorf("a refused answer is given again: %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(refused)
	if _, err := (scripted{}).Answer(ctx, askedCall(), nil); !errors.Is(err, refused) {
		t.Errorf("Answer after the end = %v", err)
	}
}
