package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestEvents(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	fails(t, cli.ExitNotFound, "the journal has no calls", "events", "tail", "--once", "--data", s.data)
	s.propose("r1", "c1", "ship", `{"cents":5}`)
	s.finished("c1")
	s.propose("r2", "c1", "pay", `{"cents":500}`)

	golden(t, "events-tail", ok(t, "events", "tail", "s1", "--once", "--data", s.data))
	golden(t, "events-replay", ok(t, "events", "replay", "--data", s.data))

	var seqs []uint64
	for line := range strings.Lines(ok(t, "events", "tail", "--once", "--json", "--data", s.data)) {
		ev := decode[toolcall.SequencedEvent](t, line)
		seqs = append(seqs, ev.Seq)
	}
	if len(seqs) != 4 {
		t.Fatalf("%d events, want 4", len(seqs))
	}
	if out := ok(t, "events", "tail", "s1", "--once", "--json", "--after", "3", "--data", s.data); strings.Count(out, "\n") >= len(seqs) {
		t.Errorf("--after left nothing out:\n%s", out)
	}
	m, err := message.DecodeMsg([]byte(ok(t, "events", "replay", "s1", "--reply", "r1", "--json", "--data", s.data)))
	if err != nil {
		t.Fatal(err)
	}
	if r := m.ToolResult("c1"); m.ID != "r1" || r == nil || r.State != message.ToolResultSuccess || r.Output.String() != `{"cents":5}` {
		t.Errorf("the rebuilt message is %s with result %+v", m, r)
	}
	fails(t, cli.ExitNotFound, "there is no session nope", "events", "tail", "nope", "--data", s.data)
	fails(t, cli.ExitNotFound, "there is no session nope", "events", "replay", "nope", "--data", s.data)
	fails(t, cli.ExitNotFound, "no such events", "events", "replay", "s1", "--reply", "r9", "--data", s.data)
}

// TestTailFollows starts before there are events and receives them as they happen.
func TestTailFollows(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	next := follow(t, "events", "tail", "s1", "--wait", "--json", "--data", s.data)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	line := next()
	var ev struct {
		Event struct {
			Type string `json:"type"`
		} `json:"event"`
	}
	if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Event.Type != "REQUIRE_USER_CONFIRM" {
		t.Errorf("the first event is %s (%v)", line, err)
	}
}
