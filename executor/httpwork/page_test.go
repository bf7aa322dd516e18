package httpwork_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/httpwork"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// page:begin
func refund(ctx context.Context, t executor.Task) (executor.Output, error) {
	var in struct {
		Order string `json:"order"`
		Cents int    `json:"cents"`
	}
	if err := t.Decode(&in); err != nil {
		return executor.Output{}, err
	}
	t.Progressf("refunding %s", in.Order)
	return executor.Textf("refunded %s under %s", in.Order, t.IdempotencyKey), nil
}

func work(ctx context.Context, server, tool string, token func() (string, error), keys toolcall.KeySet) error {
	t, err := httpwork.New(httpwork.Config{URL: server, Queue: toolcall.Queue{Tool: tool}, Token: token})
	if err != nil {
		return err
	}
	w, err := executor.NewWorker(t, tool, refund, keys, executor.WithSlots(4))
	if err != nil {
		return err
	}
	return w.Run(ctx) // until ctx ends; then it drains
}

// page:end

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// TestPage runs the program of docs/howto/work-over-http.md, which is the text above.
func TestPage(t *testing.T) {
	own, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/howto/work-over-http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(own), "// page:begin\n")
	program, _, _ := strings.Cut(rest, "\n// page:end")
	if !strings.Contains(string(page), "```go\n"+program+"```\n") {
		t.Errorf("the page does not contain the program of this test:\n%s", program)
	}

	w := gatewaytest.New(t, gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		surface, err := api.New(api.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return []gateway.Surface{surface}
	}))
	ring, err := dial(t, httpwork.Config{URL: w.URL, Queue: toolcall.Queue{Tool: gatewaytest.Job}, Token: wendy(w)}).Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ring.InForce()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- work(ctx, w.URL, gatewaytest.Job, wendy(w), keys) }()
	c := w.A.Propose("s", "r", "c1", gatewaytest.Job, `{"order":"7"}`)
	done := w.A.Finished(c.Key)
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	want := "refunded 7 under " + c.IdempotencyKey()
	if got := done.Result; got == nil || got.State != message.ToolResultSuccess || got.Output.String() != want {
		t.Errorf("the call ended with %+v, want %q", got, want)
	}
}

func wendy(w *gatewaytest.World) func() (string, error) {
	return func() (string, error) { return w.A.Token(gatewaytest.Wendy), nil }
}
