package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example with Slack serves as it stands, and a question comes.
func TestSlackExample(t *testing.T) {
	examples, err := filepath.Abs("../../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	examples += "/"
	clean(t)
	news := make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a message: %v", err)
		}
		news <- string(b)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("SLACK_WEBHOOK_URL", srv.URL)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "--policy", examples+"policy-file/policy.yaml", "--tools", examples+"policy-file/tools.yaml", "--webhooks", examples+"slack-webhook/hooks.yaml")
	for i := range 200 { // a destination begins at some moment
		s.propose("r"+strconv.Itoa(i), "c"+strconv.Itoa(i), "refund", `{"order":"A-1042","cents":19900}`)
		select {
		case text := <-news:
			if !strings.Contains(text, "Approval needed: refund") || !strings.Contains(text, "/inbox/link?token=") {
				t.Errorf("came %s", text)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Error("nothing came")
}
