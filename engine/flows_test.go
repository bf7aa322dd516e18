package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// flow is one row of agent_flows.jsonl: a recorded run of AgentScope's own
// agent loop with a scripted model.
type flow struct {
	Name  string                   `json:"name"`
	Tools []flowTool               `json:"tools"`
	Mode  string                   `json:"mode"`
	Rules []message.PermissionRule `json:"rules"`
	Turns []json.RawMessage        `json:"model_turns"`
	Steps []flowStep               `json:"steps"`
	// After are the rules of each behavior at the end: the agent's initial rules and the
	// remembered ones.
	After     map[string][]message.PermissionRule `json:"rules_after"`
	ReplayMsg json.RawMessage                     `json:"replay_msg"`
	Context   *message.Msg                        `json:"context_msg"`
}

type flowTool struct {
	Name     string `json:"name"`
	Check    string `json:"check"`
	ReadOnly bool   `json:"is_read_only"`
	External bool   `json:"is_external"`
	Safe     bool   `json:"concurrency_safe"`
}

type flowStep struct {
	Send    string                                   `json:"send"`
	Text    string                                   `json:"text"`
	Event   json.RawMessage                          `json:"event"`
	Receive []json.RawMessage                        `json:"receive"`
	Error   string                                   `json:"error"`
	States  map[message.CallID]message.ToolCallState `json:"call_states"`
}

func TestAgentFlows(t *testing.T) {
	data, err := os.ReadFile("testdata/agentscope/agent_flows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	rows := 0
	for lines.Scan() {
		var f flow
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("row %d: %v", rows, err)
		}
		rows++
		t.Run(f.Name, func(t *testing.T) { runFlow(t, f) })
	}
	if rows == 0 {
		t.Fatal("no rows")
	}
}

func runFlow(t *testing.T, f flow) {
	a := newAgent(t, f)
	for i, s := range f.Steps {
		got, err := a.step(s)
		if (err != nil) != (s.Error != "") {
			t.Fatalf("step %d (%s): error = %v, upstream error %q", i, s.Send, err, s.Error)
		}
		if diff := cmp.Diff(comparableEvents(t, f.Tools, s.Receive), comparableEvents(t, f.Tools, got)); diff != "" {
			t.Fatalf("step %d (%s): events differ (-upstream +ours):\n%s", i, s.Send, diff)
		}
		for id, want := range s.States {
			if c := a.call(id); c == nil || c.State != want {
				t.Fatalf("step %d: call %s is %+v, upstream %s", i, id, c, want)
			}
		}
		if strings.HasSuffix(f.Name, "_after_restart") {
			a.restart()
		}
	}
	a.checkReplay()
	a.checkContext()
	a.checkRules()
}

// checkRules compares the rules at the end one by one.
func (a *agent) checkRules() {
	got, want := map[string]int{}, map[string]int{}
	count := func(in map[string]int, rules []message.PermissionRule) {
		for _, r := range rules {
			in[string(must(json.Marshal(r)))]++
		}
	}
	count(got, a.flow.Rules)
	count(got, a.eng.Remembered("sess-1"))
	for _, list := range []string{"allow_rules", "deny_rules", "ask_rules"} {
		if _, known := a.flow.After[list]; !known {
			a.t.Fatalf("the row has no %s", list)
		}
		count(want, a.flow.After[list])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("rules at the end differ (-upstream +ours):\n%s", diff)
	}
}

// agent is the runtime of the test: a scripted model in AgentScope's loop,
// with askance doing everything that concerns tool calls.
type agent struct {
	t       *testing.T
	flow    flow
	journal engine.Journal
	eng     *engine.Engine
	cursor  uint64
	reply   message.ReplyID
	replies int
	turn    int
	all     []json.RawMessage // events of the first reply, in order
	last    []json.RawMessage // events of the last reply
}

func newAgent(t *testing.T, f flow) *agent {
	a := &agent{t: t, flow: f, journal: engine.NewMemory()}
	a.start()
	t.Cleanup(func() { a.eng.Close() })
	return a
}

func (a *agent) start() {
	a.t.Helper()
	var tools []engine.Tool
	var known []permission.Tool
	run := local{}
	for _, ft := range a.flow.Tools {
		pt := permission.Tool{Name: ft.Name, ReadOnly: ft.ReadOnly, Check: verdict(ft.Check)}
		et := engine.Tool{Tool: pt, ConcurrencySafe: ft.Safe, Placement: toolcall.PlaceLocal}
		if ft.External {
			et.Placement = toolcall.PlaceExternal
		} else {
			run[ft.Name] = ranArguments
		}
		tools, known = append(tools, et), append(known, pt)
	}
	bundle, err := permission.Compile(fromRules(a.flow.Rules), permission.Options{Tools: known})
	if err != nil {
		a.t.Fatal(err)
	}
	a.eng, err = engine.New("test", a.journal, bundle, tools, engine.WithExecutor(run),
		engine.WithMode(permission.Mode(a.flow.Mode)))
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.eng.Start(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) restart() {
	a.eng.Close()
	a.start()
}

func verdict(check string) func(permission.Call) permission.ToolVerdict {
	answers := map[string]permission.CheckResult{
		"passthrough": permission.CheckPassthrough, "allow": permission.CheckAllow, "deny": permission.CheckDeny,
		"ask": permission.CheckAsk, "ask_immune": permission.CheckAskImmune,
	}
	return func(permission.Call) permission.ToolVerdict {
		return permission.ToolVerdict{Answer: answers[check], Message: "custom"}
	}
}

func ranArguments(_ context.Context, inv toolcall.Invocation) (string, error) {
	return "ran " + string(inv.Input), nil
}

func (a *agent) runtime() *engine.Port {
	return a.eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
}

func (a *agent) calls() map[message.CallID]*toolcall.Call {
	r, err := a.runtime().List(a.t.Context(), toolcall.ListRequest{Session: "sess-1", All: true})
	if err != nil {
		a.t.Fatal(err)
	}
	out := map[message.CallID]*toolcall.Call{}
	for _, c := range r.Calls {
		out[c.Call] = c
	}
	return out
}

func (a *agent) call(id message.CallID) *toolcall.Call { return a.calls()[id] }

// step sends what the row sends and returns the resulting events.
func (a *agent) step(s flowStep) ([]json.RawMessage, error) {
	if s.Send == "user" {
		for _, c := range a.calls() {
			if c.Open() {
				return nil, fmt.Errorf("a user message while the call %s is %s", c.Call, c.State)
			}
		}
		a.replies++
		a.reply, a.last = message.ReplyID(fmt.Sprintf("reply-%d", a.replies)), nil
		a.emit(`{"type":"REPLY_START","session_id":"sess-1","name":"bot"}`)
		a.loop()
		return a.receive(), nil
	}
	ev, err := message.DecodeEvent(withReply(a.t, s.Event, a.reply))
	if err != nil {
		a.t.Fatal(err)
	}
	person := a.eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "dev"})
	if s.Send == "EXTERNAL_EXECUTION_RESULT" {
		person = a.runtime()
	}
	if err := engine.Deliver(a.t.Context(), person, "sess-1", ev, nil); err != nil {
		return a.receive(), err
	}
	if a.settled() && s.Send != "USER_INTERRUPT" {
		a.loop()
	}
	return a.receive(), nil
}

// settled waits until no call of the reply runs, and reports whether all its calls are
// finished.
func (a *agent) settled() bool {
	r, err := a.runtime().Wait(a.t.Context(), toolcall.WaitRequest{Session: "sess-1", Reply: a.reply, Until: toolcall.UntilParked})
	if err != nil || !r.Done {
		a.t.Fatalf("wait: %v, done %v", err, r.Done)
	}
	for _, c := range r.Calls {
		if c.Open() {
			return false
		}
	}
	return true
}

// loop takes model turns until the model answers with a text or a call waits
// for a person.
func (a *agent) loop() {
	for a.turn < len(a.flow.Turns) {
		raw := a.flow.Turns[a.turn]
		a.turn++
		a.emit(`{"type":"MODEL_CALL_START","model_name":"mock"}`)
		var text string
		if json.Unmarshal(raw, &text) == nil {
			block := fmt.Sprintf("text-%d", a.turn)
			a.emit(`{"type":"TEXT_BLOCK_START","block_id":"` + block + `"}`)
			a.emit(fmt.Sprintf(`{"type":"TEXT_BLOCK_DELTA","block_id":%q,"delta":%q}`, block, text))
			a.emit(`{"type":"TEXT_BLOCK_END","block_id":"` + block + `"}`)
			a.emit(`{"type":"MODEL_CALL_END","input_tokens":0,"output_tokens":0}`)
			a.emit(`{"type":"REPLY_END","session_id":"sess-1","finished_reason":"completed","error":null}`)
			return
		}
		a.propose(raw)
		if !a.settled() {
			return
		}
	}
}

func (a *agent) propose(raw json.RawMessage) {
	var turn [][3]string
	if err := json.Unmarshal(raw, &turn); err != nil {
		a.t.Fatal(err)
	}
	var blocks []message.ToolCallBlock
	for _, c := range turn {
		a.emit(fmt.Sprintf(`{"type":"TOOL_CALL_START","tool_call_id":%q,"tool_call_name":%q}`, c[0], c[1]))
		a.emit(fmt.Sprintf(`{"type":"TOOL_CALL_DELTA","tool_call_id":%q,"delta":%q}`, c[0], c[2]))
		blocks = append(blocks, message.ToolCallBlock{ID: message.CallID(c[0]), Name: c[1], Input: c[2]})
	}
	for _, c := range turn {
		a.emit(fmt.Sprintf(`{"type":"TOOL_CALL_END","tool_call_id":%q}`, c[0]))
	}
	a.emit(`{"type":"MODEL_CALL_END","input_tokens":0,"output_tokens":0}`)
	if _, err := a.runtime().Propose(a.t.Context(), toolcall.ProposeRequest{Session: "sess-1", Reply: a.reply, Agent: "bot", Calls: blocks}); err != nil {
		a.t.Fatalf("propose: %v", err)
	}
}

func (a *agent) emit(event string) {
	raw := withReply(a.t, []byte(event), a.reply)
	if _, err := a.runtime().Emit(a.t.Context(), toolcall.EmitRequest{Session: "sess-1", Reply: a.reply, Events: []message.RawJSON{raw}}); err != nil {
		a.t.Fatalf("emit %s: %v", event, err)
	}
}

func withReply(t *testing.T, raw []byte, reply message.ReplyID) []byte {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	m["reply_id"] = reply
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// receive reads the events since the last time. Events that a frontend sent are kept for the
// replay but not returned.
func (a *agent) receive() []json.RawMessage {
	r, err := a.runtime().Events(a.t.Context(), toolcall.EventsRequest{Session: "sess-1", After: a.cursor})
	if err != nil {
		a.t.Fatal(err)
	}
	a.cursor = r.Next
	var out []json.RawMessage
	for _, e := range r.Events {
		var head struct {
			Type  string          `json:"type"`
			Reply message.ReplyID `json:"reply_id"`
		}
		if err := json.Unmarshal(e.Event, &head); err != nil {
			a.t.Fatal(err)
		}
		if head.Reply == "reply-1" {
			a.all = append(a.all, e.Event)
		}
		if head.Reply == a.reply {
			a.last = append(a.last, e.Event)
		}
		switch head.Type {
		case "USER_CONFIRM_RESULT", "EXTERNAL_EXECUTION_RESULT", "USER_INTERRUPT":
		default:
			out = append(out, e.Event)
		}
	}
	return out
}

// checkReplay folds the first reply's events and compares the message with the one that
// upstream folds from its own events.
func (a *agent) checkReplay() {
	var want message.Msg
	if err := json.Unmarshal(a.flow.ReplayMsg, &want); err != nil {
		a.t.Fatal(err)
	}
	got := a.fold("reply-1", a.all)
	w, g := []json.RawMessage{a.flow.ReplayMsg}, []json.RawMessage{must(json.Marshal(got))}
	if diff := cmp.Diff(comparableEvents(a.t, nil, w), comparableEvents(a.t, nil, g)); diff != "" {
		a.t.Errorf("replayed message differs (-upstream +ours):\n%s", diff)
	}
}

// fold builds the message of a reply from its events.
func (a *agent) fold(reply message.ReplyID, events []json.RawMessage) *message.Msg {
	got := must(message.AssistantMsg("bot", message.List(), message.WithID(string(reply))))
	for _, raw := range events {
		ev, err := message.DecodeEvent(raw)
		if err != nil {
			a.t.Fatal(err)
		}
		if err := message.Append(got, ev); err != nil {
			a.t.Fatal(err)
		}
	}
	return got
}

// ourTexts maps the texts of upstream's results to ours where they differ.
var ourTexts = map[string]string{
	`<system-reminder>The execution of tool "ask" is denied by user!</system-reminder>`: `<system-reminder>The execution of tool "ask" is denied by the user dev.</system-reminder>`,
	"custom": "Permission denied for no (custom).",
	"Permission denied for ask (dont_ask mode - user not available)": "Permission denied for ask (dont_ask mode: no approver is available).",
}

// content returns the texts of a message and the results of its calls.
func content(m *message.Msg, ours map[string]string) (out []string) {
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, "text "+b.Text)
		case *message.ToolResultBlock:
			text := b.Output.String()
			if other, differs := ours[text]; differs {
				text = other
			}
			// Names differ: upstream's is the sender's name, ours is the tool's.
			out = append(out, fmt.Sprintf("result %s %s %s", b.ID, b.State, text))
		default: // calls are compared with the journal
		}
	}
	slices.Sort(out) // results of concurrent calls can come in any order
	return out
}

// checkContext compares upstream's context with the journal: the arguments that ran, the
// states, the results and the texts of the last reply.
func (a *agent) checkContext() {
	if a.flow.Context == nil {
		return
	}
	if diff := cmp.Diff(content(a.flow.Context, ourTexts), content(a.fold(a.reply, a.last), nil)); diff != "" {
		a.t.Errorf("results and texts differ (-upstream +ours):\n%s", diff)
	}
	for _, b := range message.BlocksOf[*message.ToolCallBlock](a.flow.Context) {
		c := a.call(b.ID)
		if c == nil || c.Input != b.Input || c.Tool != b.Name || c.State != b.State {
			a.t.Errorf("call %s is %+v, upstream's context says %+v", b.ID, c, b)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// comparableEvents strips what the vectors' README calls not significant: generated ids,
// timestamps, the texts of denials and errors, and the order of adjacent TOOL_CALL_END
// events. It sorts the results of concurrency-safe calls in the order of the calls, because
// upstream runs them one after the other.
func comparableEvents(t *testing.T, tools []flowTool, events []json.RawMessage) []any {
	t.Helper()
	var out []any
	bad := map[string]bool{} // calls that did not end in success
	for _, raw := range events {
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		if s, ok := v["state"].(string); ok && v["type"] == "TOOL_RESULT_END" && s != "success" {
			bad[v["tool_call_id"].(string)] = true
		}
		out = append(out, v)
	}
	for i, v := range out {
		out[i] = strip(v, bad)
	}
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && kind(out[j]) == "TOOL_CALL_END" {
			j++
		}
		run := out[i:j]
		sort.Slice(run, func(a, b int) bool { return fmt.Sprint(run[a]) < fmt.Sprint(run[b]) })
		i = max(j, i+1)
	}
	sortConcurrentResults(tools, out)
	return out
}

// sortConcurrentResults sorts adjacent result events by call if all their tools are
// concurrency-safe. The events of one call keep their order.
func sortConcurrentResults(tools []flowTool, events []any) {
	for i := 0; i < len(events); {
		j, safe := i, true
		for ; j < len(events) && strings.HasPrefix(kind(events[j]), "TOOL_RESULT_"); j++ {
			name, begins := events[j].(map[string]any)["tool_call_name"]
			safe = safe && (!begins || slices.ContainsFunc(tools, func(t flowTool) bool { return t.Name == name && t.Safe }))
		}
		if run := events[i:j]; safe {
			sort.SliceStable(run, func(a, b int) bool { return callOf(run[a]) < callOf(run[b]) })
		}
		i = max(j, i+1)
	}
}

func callOf(v any) string { s, _ := v.(map[string]any)["tool_call_id"].(string); return s }

func kind(v any) string { s, _ := v.(map[string]any)["type"].(string); return s }

func strip(v any, bad map[string]bool) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = strip(v[i], bad)
		}
	case map[string]any:
		delete(v, "created_at")
		delete(v, "reply_id")
		delete(v, "block_id")
		switch k := kind(v); {
		case k == "tool_result" && v["state"] != "success":
			v["output"] = "(text)"
		case k == "TOOL_RESULT_TEXT_DELTA" && bad[fmt.Sprint(v["tool_call_id"])]:
			v["delta"] = "(text)"
		}
		if k := kind(v); k != "tool_call" && k != "tool_result" {
			delete(v, "id")
		}
		if v["finished_at"] != nil {
			v["finished_at"] = "(stamp)"
		}
		for k := range v {
			v[k] = strip(v[k], bad)
		}
	}
	return v
}

// fromRules imports rules as AgentScope files them, by behavior and tool.
func fromRules(rules []message.PermissionRule) permission.Policy {
	lists := map[message.Behavior]map[string][]message.PermissionRule{}
	for _, r := range rules {
		if lists[r.Behavior] == nil {
			lists[r.Behavior] = map[string][]message.PermissionRule{}
		}
		lists[r.Behavior][r.ToolName] = append(lists[r.Behavior][r.ToolName], r)
	}
	return permission.FromContext(message.PermissionContext{DenyRules: lists[message.BehaviorDeny], AskRules: lists[message.BehaviorAsk], AllowRules: lists[message.BehaviorAllow]})
}
