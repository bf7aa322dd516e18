package engine_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// lines collects JSON log lines.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) decisions(w *world) (out []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		m := map[string]any{}
		w.must(json.Unmarshal([]byte(line), &m))
		if m["msg"] == "decision" {
			out = append(out, m)
		}
	}
	return out
}

// decisionLog checks that the engine that records a decision logs it in one line, with the
// person and the trace but without arguments.
func decisionLog(w *world) {
	w.policy.use(w, append(rules(), permission.Rule{Name: "pin", Tools: []string{pay}, Behavior: message.BehaviorAsk, Redact: []string{"args.secret"}})...)
	var log lines
	var mu sync.Mutex
	var seen []toolcall.Verdict
	e := w.engine(engine.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))), engine.WithObserver(func(x engine.Written) {
		mu.Lock()
		defer mu.Unlock()
		if v := x.Record.Verdict(); v != "" {
			seen = append(seen, v)
		}
	}))
	w.engine(engine.WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))) // sees the records and logs none
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := toolcall.WithTrace(w.Context(), toolcall.ParseTrace(trace))
	out, err := e.bot().Propose(ctx, request(call("a", pay, `{"amount":500,"secret":"hunter2"}`)))
	w.must(err)
	asked := out.Calls[0]
	e.propose(call("b", rm, `{}`))
	_, err = e.ann().SubmitResponse(w.Context(), approve(asked))
	w.must(err)
	if c := e.finished(asked.Key); c.Trace != trace {
		w.Errorf("the trace of the call is %q", c.Trace)
	}
	var got []string
	all := log.decisions(w)
	for _, m := range all {
		got = append(got, strings.TrimPrefix(m["call"].(string), string(w.space)+"/s/r/")+" "+m["verdict"].(string)+" by "+m["by"].(string)+" ("+m["auth"].(string)+")")
	}
	if diff := cmp.Diff([]string{"a ask by bot (test)", "b deny by bot (test)", "a approve by ann (test)"}, got); diff != "" {
		w.Fatal(diff)
	}
	last := all[2]
	if last["tool"] != pay || last["role"] != "approver" || last["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || last["duration_ms"] == nil || last["rule"] == nil || last["policy"] == nil || !strings.Contains(last["summary"].(string), "500") {
		w.Errorf("the line of the approval is %v", last)
	}
	if strings.Contains(log.buf.String(), "hunter2") {
		w.Error("the log has an argument")
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]toolcall.Verdict{"ask", "deny", "approve"}, seen); diff != "" {
		w.Error(diff)
	}
}
