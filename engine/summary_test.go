package engine_test

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func summaryCases() []engineCase {
	return []engineCase{
		{"replies say what a call would do, records do not", summarized},
		{"a summary repeats nothing hidden", summaryHides},
	}
}

func summarized(w *world) {
	w.policy.use(w, permission.Rule{Name: "own", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Message: `"Deploy " + string(args.n) + " machines"`},
		permission.Rule{Name: "fixed", Tools: []string{note}, Behavior: message.BehaviorAsk, Message: `"Notes need a second person."`})
	e := w.engine()
	calls := e.propose(call("a", deploy, `{"n":3}`), call("b", note, `{"text":"hello you"}`))
	list, err := e.ann().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	show, err := e.ann().Show(w.Context(), toolcall.ShowRequest{Key: w.key("a")})
	w.must(err)
	for _, c := range slices.Concat(calls, list.Calls, []*toolcall.Call{show.Call}) {
		want := map[message.CallID]string{"a": "Deploy 3 machines", "b": `note text "hello you"`}[c.Call]
		if c.Summary != want {
			w.Errorf("%s: %q, want %q", c.Call, c.Summary, want)
		}
		if text := c.RequestText(); text != want {
			w.Errorf("%s: the text of the request is %q", c.Call, text)
		}
	}
	e.answers("ann", approve(list.Calls[0]))
	e.finished(w.key("a"))
	b := e.state(w.key("b"), message.ToolCallAsking) // once the first call is waiting
	if text := b.RequestText(); text != "note text \"hello you\"\nNotes need a second person." {
		w.Errorf("the text of a fixed message is %q", text)
	}
	history, err := w.journal.History(w.Context(), w.key("a"))
	w.must(err)
	for _, r := range history {
		if r.Record.Call.Summary != "" || r.Record.Call.Risk != nil {
			w.Errorf("record %d has %q, %v", r.Seq, r.Record.Call.Summary, r.Record.Call.Risk)
		}
	}
}

func summaryHides(w *world) {
	w.policy.use(w, permission.Rule{Name: "pin", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Redact: []string{"args.pin"}, Message: `"Deploy with " + string(args.pin)`})
	e := w.engine()
	for _, c := range e.propose(call("a", deploy, `{"pin":"`+secret+`","n":1}`)) {
		if strings.Contains(c.Summary, secret) || !strings.Contains(c.Summary, "[redacted]") {
			w.Errorf("the runtime gets %q", c.Summary)
		}
	}
	list, err := e.ann().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	if s := list.Calls[0].Summary; strings.Contains(s, secret) || s == "" {
		w.Errorf("people get %q", s)
	}
}
