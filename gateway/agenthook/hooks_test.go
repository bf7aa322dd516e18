package agenthook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

const rules = `version: 1
name: agents
rules:
  - {name: look, tool: [frontend/Read, frontend/ls], behavior: allow}
  - {name: shell, tool: [frontend/Bash, frontend/AskUserQuestion], behavior: ask}
  - {name: never, tool: frontend/Write, behavior: deny, message: '"nothing is written here"'}
`

type world struct {
	*gatewaytest.World
	t *testing.T
}

func newWorld(t *testing.T, opts ...gatewaytest.Option) *world {
	t.Helper()
	w := gatewaytest.New(t, append([]gatewaytest.Option{gatewaytest.Policy(rules), gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
		return []gateway.Surface{agenthook.New(func(toolcall.SpaceID) string { return "https://askance.example" })}
	})}, opts...)...)
	return &world{w, t}
}

// answer is what a hook received.
type answer struct {
	Status int
	Text   string

	Output struct {
		Event    string         `json:"hookEventName"`
		Decision string         `json:"permissionDecision"`
		Reason   string         `json:"permissionDecisionReason"`
		Input    map[string]any `json:"updatedInput"`
		ToolIn   map[string]any `json:"tool_input"`
		Prompt   struct {
			Behavior string         `json:"behavior"`
			Message  string         `json:"message"`
			Input    map[string]any `json:"updatedInput"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

// send sends an event as Bot.
func (w *world) send(ctx context.Context, d dialect.Dialect, o agenthook.Options, event string) (answer, error) {
	return w.sendWith(ctx, w.A.HTTP(gatewaytest.Bot), d, o, event)
}

func (w *world) sendWith(ctx context.Context, client *http.Client, d dialect.Dialect, o agenthook.Options, event string) (answer, error) {
	var a answer
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+agenthook.Path(d)+"?"+o.Query().Encode(), strings.NewReader(event))
	if err != nil {
		return a, err
	}
	res, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	a.Status, a.Text = res.StatusCode, string(b)
	if len(b) > 0 {
		err = json.NewDecoder(bytes.NewReader(b)).Decode(&a)
	}
	return a, err
}

func (w *world) ask(d dialect.Dialect, event string) answer {
	w.t.Helper()
	a, err := w.send(w.t.Context(), d, agenthook.Options{}, event)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// later sends an event whose answer waits for a person.
func (w *world) later(d dialect.Dialect, event string) func() answer {
	w.t.Helper()
	got := make(chan answer, 1)
	failed := make(chan error, 1)
	go func() {
		a, err := w.send(w.t.Context(), d, agenthook.Options{}, event)
		failed <- err
		got <- a
	}()
	return func() answer {
		w.t.Helper()
		if err := <-failed; err != nil {
			w.t.Fatal(err)
		}
		return <-got
	}
}

// pre returns an event before a tool call. d is the dialect of the agent.
func pre(d dialect.Dialect, id, tool, input string) string {
	if d == dialect.Gemini {
		return fmt.Sprintf(`{"session_id":"s","cwd":"/w","hook_event_name":"BeforeTool","timestamp":"t","tool_name":%q,"tool_input":%s}`, tool, input)
	}
	turn := map[dialect.Dialect]string{dialect.ClaudeCode: "prompt_id", dialect.Codex: "turn_id"}[d]
	return fmt.Sprintf(`{"session_id":"s","cwd":"/w",%q:"p","hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s,"tool_use_id":%q}`, turn, tool, input, id)
}

func post(d dialect.Dialect, id, tool, input, response string) string {
	e := strings.Replace(pre(d, id, tool, input), "PreToolUse", "PostToolUse", 1)
	e = strings.Replace(e, "BeforeTool", "AfterTool", 1)
	return strings.TrimSuffix(e, "}") + `,"tool_response":` + response + "}"
}

// asking waits for the one open approval request of the session.
func (w *world) asking() *toolcall.Call {
	w.t.Helper()
	return w.list(1, message.ToolCallAsking)[0]
}

func (w *world) list(n int, state message.ToolCallState) []*toolcall.Call {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), gatewaytest.Patience)
	defer cancel()
	for {
		r, err := w.A.Client(gatewaytest.Olga).List(ctx, toolcall.ListRequest{Session: "s", States: []message.ToolCallState{state}, All: true})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(r.Calls) == n {
			return r.Calls
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			w.t.Fatalf("%d calls are %s, want %d", len(r.Calls), state, n)
		}
	}
}

func eventsText(r toolcall.EventsReply) string {
	var b strings.Builder
	for _, e := range r.Events {
		b.Write(e.Event)
		b.WriteByte('\n')
	}
	return b.String()
}

// allowed reports whether the agent would run the tool.
func allowed(d dialect.Dialect, a answer) bool {
	if d == dialect.Gemini {
		return a.Status == http.StatusOK && a.Decision == "allow"
	}
	if d == dialect.Codex && a.Status == http.StatusNoContent {
		return true
	}
	return a.Status == http.StatusOK && a.Output.Decision == "allow"
}

// denied returns the reason of a denial, or "" if there is none.
func denied(d dialect.Dialect, a answer) string {
	switch {
	case d == dialect.Gemini && a.Decision == "deny":
		return a.Reason
	case d != dialect.Gemini && a.Output.Decision == "deny":
		return a.Output.Reason
	}
	return ""
}

// The policy and people decide, in every dialect. What was decided on is what runs.
func TestDecisions(t *testing.T) {
	for _, d := range dialect.Dialects() {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t)
			input := `{ "command" : "ls -l" }`
			if a := w.ask(d, pre(d, "c1", "ls", input)); !allowed(d, a) {
				t.Errorf("an allowed call: %+v", a)
			}
			if c := w.list(1, message.ToolCallSubmitted)[0]; c.Input != input || c.Agent != string(d) || c.Placement != toolcall.PlaceExternal {
				t.Errorf("recorded %q of %q, placed %s; want exactly the bytes of the event", c.Input, c.Agent, c.Placement)
			}
			if why := denied(d, w.ask(d, pre(d, "c2", "Write", `{"file_path":"/x"}`))); !strings.Contains(why, "nothing is written here") {
				t.Errorf("a denied call: %q", why)
			}

			got := w.later(d, pre(d, "c3", "Bash", `{"command":"make"}`))
			w.A.Approve(gatewaytest.Ann, w.asking().Key)
			if a := got(); !allowed(d, a) {
				t.Errorf("an approved call: %+v", a)
			}
			got = w.later(d, pre(d, "c4", "Bash", `{"command":"rm -rf /"}`))
			w.A.Reject(gatewaytest.Ann, w.asking().Key, "not that folder")
			if why := denied(d, got()); !strings.Contains(why, "not that folder") || strings.Contains(why, "<") {
				t.Errorf("a rejected call: %q", why)
			}
			got = w.later(d, pre(d, "c5", "Bash", `{"command":"push","force":true}`))
			edited := `{"command":"push --dry-run","force":true}`
			w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: w.asking().Key, Kind: toolcall.ResponseApprove, Input: &edited})
			a := got()
			changed := a.Output.Input
			if d == dialect.Gemini {
				changed = a.Output.ToolIn
			} else if changed["force"] != true {
				t.Errorf("the arguments are incomplete: %v", changed)
			}
			if !allowed(d, a) || changed["command"] != "push --dry-run" {
				t.Errorf("an edited call: %+v", a)
			}
			got = w.later(d, pre(d, "c6", "Bash", `{"command":"date"}`))
			w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: w.asking().Key, Kind: toolcall.ResponseRespond, Output: "it is Monday"})
			if why := denied(d, got()); !strings.Contains(why, "it is Monday") {
				t.Errorf("a call that a person responded to in place of the tool: %q", why)
			}
		})
	}
}

// The result of a call reaches the journal, even if the agent gives its calls no ids.
func TestResults(t *testing.T) {
	for _, d := range dialect.Dialects() {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t)
			input := `{"command":"ls"}`
			if a := w.ask(d, pre(d, "c1", "ls", input)); !allowed(d, a) {
				t.Fatalf("an allowed call: %+v", a)
			}
			for range 2 { // the second changes nothing
				if a := w.ask(d, post(d, "c1", "ls", `{"command": "ls"}`, `"a.txt"`)); a.Status != http.StatusNoContent {
					t.Fatalf("a result: %+v", a)
				}
			}
			c := w.list(1, message.ToolCallFinished)[0]
			if c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != "a.txt" {
				t.Errorf("recorded %s %q", c.Result.State, c.Result.Output.String())
			}
			if d != dialect.Gemini {
				if why := denied(d, w.ask(d, pre(d, "c1", "ls", input))); !strings.Contains(why, "ran already") {
					t.Errorf("the same call again after its result: %q", why)
				}
			}
		})
	}
}

// A result that is too long is recorded up to the limit.
func TestLongResults(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	for i, result := range []string{strings.Repeat("€", 400_000), strings.Repeat("x", toolcall.MaxOutputBytes-2), strings.Repeat("\"\x01", 300_000)} {
		id := fmt.Sprint("c", i)
		if a := w.ask(d, pre(d, id, "ls", `{}`)); !allowed(d, a) {
			t.Fatalf("%+v", a)
		}
		quoted, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if a := w.ask(d, post(d, id, "ls", `{}`, string(quoted))); a.Status != http.StatusNoContent {
			t.Errorf("the result %.3q…: %d %s", result, a.Status, a.Text)
			continue
		}
		for _, c := range w.list(i+1, message.ToolCallFinished) {
			kept, cut := strings.CutSuffix(c.Result.Output.String(), "\n… the rest is not recorded")
			if string(c.Call) == id && (!cut || !strings.HasPrefix(result, kept) || len(kept) < 100_000) {
				t.Errorf("%d of %d bytes of %.3q… are recorded", len(kept), len(result), result)
			}
		}
	}
}

// Without an address for browsers, the denial says how to find the request.
func TestDeadlineWithoutAddress(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		surfaces := gatewaytest.Surfaces(func(*gatewaytest.World) []gateway.Surface {
			return []gateway.Surface{agenthook.New(func(toolcall.SpaceID) string { return "" })}
		})
		w := newWorld(t, gatewaytest.In(dir), gatewaytest.Piped(), surfaces)
		why := denied(dialect.ClaudeCode, w.ask(dialect.ClaudeCode, pre(dialect.ClaudeCode, "c 1", "Bash", `{"command":"make"}`)))
		if !strings.Contains(why, "waiting for approval: askance show 'c 1' . ") {
			t.Errorf("the denial says %q", why)
		}
	})
}

// If the agent's time runs out, the request stays open, and exactly one later call with the same
// arguments gets the decision.
func TestDeadline(t *testing.T) {
	for _, d := range dialect.Dialects() {
		t.Run(string(d), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, gatewaytest.In(dir), gatewaytest.Piped())
				began := time.Now()
				why := denied(d, w.ask(d, pre(d, "c1", "Bash", `{"command":"make"}`)))
				if took, want := time.Since(began), d.Timeout()-dialect.Margin; took < want || took > want+time.Second {
					t.Errorf("the denial came after %s, want %s", took, want)
				}
				c := w.asking()
				if !strings.Contains(why, "still waiting for approval: https://askance.example/inbox/call?call="+string(c.Call)) {
					t.Errorf("the denial says %q", why)
				}
				got := w.later(d, pre(d, "c2", "Bash", `{"command":"make"}`))
				synctest.Wait()
				if other := w.asking(); other.Call != c.Call {
					t.Errorf("the second call opened another request: %s", other.Call)
				}
				w.A.Approve(gatewaytest.Ann, c.Key)
				if a := got(); !allowed(d, a) {
					t.Errorf("after the approval: %+v", a)
				}
				if d != dialect.Gemini {
					if why := denied(d, w.ask(d, pre(d, "c1", "Bash", `{"command":"make"}`))); !strings.Contains(why, "taken up") {
						t.Errorf("the first call again, after the second call took its approval: %q", why)
					}
				}
				got = w.later(d, pre(d, "c3", "Bash", `{"command":"make"}`))
				if other := w.asking(); other.Call == c.Call {
					t.Error("a third call runs on the same approval")
				}
				w.A.Reject(gatewaytest.Ann, w.asking().Key, "once is enough")
				if why := denied(d, got()); !strings.Contains(why, "once is enough") {
					t.Errorf("the third call: %q", why)
				}
				if a := w.ask(d, post(d, "c2", "Bash", `{"command":"make"}`, `"built"`)); a.Status != http.StatusNoContent {
					t.Errorf("the result: %+v", a)
				}
				if end := w.A.Finished(c.Key); end.Result.Output.String() != "built" {
					t.Errorf("the result of the call that was continued is %q", end.Result.Output.String())
				}
			})
		})
	}
}

// A repeated event that gives its call up lets a later call take it. The first request about the
// event then runs nothing, and the call that ran gets the same answer again.
func TestRepeatGivesCallUp(t *testing.T) {
	const d, input = dialect.ClaudeCode, `{"command":"make"}`
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gatewaytest.In(dir), gatewaytest.Piped())
		first := w.later(d, pre(d, "c1", "Bash", input))
		c := w.asking()
		if a, err := w.send(t.Context(), d, agenthook.Options{Hold: time.Millisecond}, pre(d, "c1", "Bash", input)); err != nil || !strings.Contains(denied(d, a), "still waiting") {
			t.Fatalf("the repeated event: %+v, %v", a, err)
		}
		second := w.later(d, pre(d, "c2", "Bash", input))
		synctest.Wait()
		w.A.Approve(gatewaytest.Ann, c.Key)
		if a := second(); !allowed(d, a) {
			t.Errorf("the later call: %+v", a)
		}
		if why := denied(d, first()); !strings.Contains(why, "taken up") {
			t.Errorf("the first request: %q", why)
		}
		w.A.Restart()
		if a := w.ask(d, pre(d, "c2", "Bash", input)); !allowed(d, a) {
			t.Errorf("the later call again: %+v", a)
		}
	})
}

// If many retries arrive at the same time, exactly one of them takes over the waiting request.
func TestOneRetryClaims(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	a, err := w.send(t.Context(), d, agenthook.Options{Hold: time.Millisecond}, pre(d, "c0", "Bash", `{"command":"make"}`))
	if err != nil || denied(d, a) == "" {
		t.Fatalf("%+v %v", a, err)
	}
	first := w.asking()
	w.A.Approve(gatewaytest.Ann, first.Key)
	const n = 8
	client, start := w.A.HTTP(gatewaytest.Bot), make(chan struct{})
	var ready, done sync.WaitGroup
	ran := make(chan bool, n)
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			a, err := w.sendWith(t.Context(), client, d, agenthook.Options{Hold: time.Second}, pre(d, fmt.Sprint("r", i), "Bash", `{"command":"make"}`))
			if err != nil {
				t.Error(err)
			}
			ran <- allowed(d, a)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	close(ran)
	runs := 0
	for r := range ran {
		if r {
			runs++
		}
	}
	if runs != 1 {
		t.Errorf("%d calls run on one approval", runs)
	}
}

// After a hook is killed, the next call with the same arguments takes over its request.
func TestKilledHook(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := w.send(ctx, d, agenthook.Options{}, pre(d, "c1", "Bash", `{"command":"make"}`)); err == nil {
			t.Error("a killed hook got an answer")
		}
	}()
	c := w.asking()
	kill()
	<-done
	for { // the server notices the disconnection a moment later
		r, err := w.A.Client(gatewaytest.Bot).Events(t.Context(), toolcall.EventsRequest{Session: "s", WaitMS: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(eventsText(r), "hook.released") {
			break
		}
	}
	w.A.Approve(gatewaytest.Ann, c.Key)
	if a := w.ask(d, pre(d, "c2", "Bash", `{"command":"make"}`)); !allowed(d, a) {
		t.Errorf("the next call: %+v", a)
	}
}

// A call that ran without an approval is recorded.
func TestRanUnasked(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	if denied(d, w.ask(d, pre(d, "c1", "Write", `{}`))) == "" {
		t.Fatal("not denied")
	}
	for _, event := range []string{post(d, "c1", "Write", `{}`, `"done"`), post(d, "c9", "Bash", `{"command":"x"}`, `"done"`)} {
		if a := w.ask(d, event); a.Status != http.StatusNoContent {
			t.Fatalf("a result: %+v", a)
		}
	}
	r, err := w.A.Client(gatewaytest.Bot).Events(t.Context(), toolcall.EventsRequest{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(eventsText(r), "hook.ran_unasked"); n != 2 {
		t.Errorf("%d events, want 2:\n%s", n, eventsText(r))
	}
}

// A call that ran in another way than was allowed leaves the event, next to its result.
func TestRanOtherwise(t *testing.T) {
	w := newWorld(t)
	unasked := 0
	check := func(name string, more int, event string, d dialect.Dialect) {
		t.Helper()
		if a := w.ask(d, event); a.Status != http.StatusNoContent {
			t.Errorf("%s: a result: %+v", name, a)
		}
		r, err := w.A.Client(gatewaytest.Bot).Events(t.Context(), toolcall.EventsRequest{Session: "s", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		unasked += more
		if n := strings.Count(eventsText(r), "hook.ran_unasked"); n != unasked {
			t.Errorf("%s: %d events, want %d:\n%s", name, n, unasked, eventsText(r))
		}
	}
	edit := func(d dialect.Dialect, id string) {
		got := w.later(d, pre(d, id, "Bash", `{"command":"curl e"}`))
		input := `{"command":"curl e2"}`
		w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: w.asking().Key, Kind: toolcall.ResponseApprove, Input: &input})
		if a := got(); !allowed(d, a) {
			t.Fatalf("an edited call: %+v", a)
		}
	}
	for i, d := range dialect.Dialects() {
		id := func(s string) string { return fmt.Sprint(s, i) }
		edit(d, id("same"))
		check("as edited", 0, post(d, id("same"), "Bash", `{ "command":"curl e2"}`, `"ok"`), d)
		edit(d, id("edited"))
		check("as before the edit", 1, post(d, id("edited"), "Bash", `{"command":"curl e"}`, `"ok"`), d)
		w.ask(d, pre(d, id("args"), "ls", `{"command":"git status"}`))
		check("other arguments", 1, post(d, id("args"), "ls", `{"command":"curl evil"}`, `"ok"`), d)
		w.ask(d, pre(d, id("tool"), "ls", `{"command":"x"}`))
		check("another tool", 1, post(d, id("tool"), "Bash", `{"command":"x"}`, `"ok"`), d)
	}

	const d = dialect.ClaudeCode
	w.ask(d, pre(d, "stated", "ls", `{"command":"y"}`))
	c, err := w.A.Client(gatewaytest.Bot).List(t.Context(), toolcall.ListRequest{Call: "stated"})
	if err != nil || len(c.Calls) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := w.A.Client(gatewaytest.Olga).Resolve(t.Context(), toolcall.ResolveRequest{Key: c.Calls[0].Key, Attempt: c.Calls[0].Attempt.Number, Outcome: toolcall.OutcomeHappened}); err != nil {
		t.Fatal(err)
	}
	check("after an operator stated it", 0, post(d, "stated", "ls", `{"command":"y"}`, `"ok"`), d)
	w.ask(d, pre(d, "cd", "ls", `{"command":"cd sub"}`))
	check("a folder that the tool entered", 0, strings.Replace(post(d, "cd", "ls", `{"command":"cd sub"}`, `"ok"`), "/w", "/w/sub", 1), d)
	got := w.later(d, pre(d, "q", "AskUserQuestion", `{"questions":[]}`))
	w.A.Approve(gatewaytest.Ann, w.asking().Key)
	got()
	check("the user's answers", 0, post(d, "q", "AskUserQuestion", `{"questions":[],"answers":{}}`, `"ok"`), d)
}

// If a person answers the agent's own prompt first, the result closes the request as a bypass.
func TestAnsweredAtThePrompt(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	got := w.later(d, pre(d, "c1", "Bash", `{"command":"make"}`))
	c := w.asking()
	if a := w.ask(d, post(d, "c1", "Bash", `{"command":"make"}`, `"built"`)); a.Status != http.StatusNoContent {
		t.Fatalf("a result: %+v", a)
	}
	if why := denied(d, got()); !strings.Contains(why, "ran already") {
		t.Errorf("the waiting hook: %q", why)
	}
	end := w.A.Finished(c.Key)
	if end.Cause != "bypass" || end.Result.Output.String() != "built" || end.Result.Metadata["decided_by"] != "local user" || end.Result.Metadata["evidence"] != "agent-prompt" {
		t.Errorf("the call ended by %s with %+v", end.Cause, end.Result)
	}
	if _, err := w.A.Client(gatewaytest.Ann).SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}); !errors.Is(err, message.ErrFinished) {
		t.Errorf("a late approval: %v", err)
	}
	// Without Unasked, a result of an undecided call is refused.
	c = w.A.Propose("s", "r2", "c2", gatewaytest.Browse, `{}`)
	if _, err := w.A.Client(gatewaytest.Bot).Report(t.Context(), toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{ID: "c2", Name: c.Tool, State: message.ToolResultSuccess}}); !errors.Is(err, message.ErrState) {
		t.Errorf("a result without Unasked: %v", err)
	}
	// A call that the engine or a worker runs cannot be reported in this way.
	c = w.A.Propose("s", "r3", "c3", gatewaytest.Pay, gatewaytest.PayInput)
	if c.State == message.ToolCallAsking {
		if _, err := w.A.Client(gatewaytest.Bot).Report(t.Context(), toolcall.ReportRequest{Key: c.Key, Unasked: true, Result: message.ToolResultBlock{ID: "c3", Name: c.Tool, State: message.ToolResultSuccess}}); !errors.Is(err, message.ErrState) {
			t.Errorf("a call that is not external: %v", err)
		}
	}
}

// If the agent asks a person itself, the decision before the tool call counts.
func TestPermissionRequest(t *testing.T) {
	w := newWorld(t)
	d := dialect.Codex
	request := func(input string) string {
		return `{"session_id":"s","cwd":"/w","turn_id":"p","hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":` + input + `}`
	}
	got := w.later(d, pre(d, "c1", "Bash", `{"command":"make"}`))
	w.A.Approve(gatewaytest.Ann, w.asking().Key)
	if a := got(); !allowed(d, a) {
		t.Fatalf("%+v", a)
	}
	if a := w.ask(d, request(`{"command": "make"}`)); a.Output.Prompt.Behavior != "allow" {
		t.Errorf("the prompt about an approved call: %+v", a)
	}
	got = w.later(d, request(`{"command":"make","description":"network-access example.com"}`))
	w.A.Reject(gatewaytest.Ann, w.asking().Key, "no network")
	if a := got(); a.Output.Prompt.Behavior != "deny" || !strings.Contains(a.Output.Prompt.Message, "no network") {
		t.Errorf("a prompt about more than was approved: %+v", a)
	}
	// Nothing before the tool decides about the network, so each such prompt needs its own approval.
	got = w.later(d, request(`{"command":"make","description":"network-access example.com"}`))
	w.A.Approve(gatewaytest.Ann, w.asking().Key)
	if a := got(); a.Output.Prompt.Behavior != "allow" {
		t.Errorf("an approved prompt: %+v", a)
	}
	again, err := w.send(t.Context(), d, agenthook.Options{Hold: time.Millisecond}, request(`{"command":"make","description":"network-access example.com"}`))
	if err != nil || again.Output.Prompt.Behavior != "deny" || !strings.Contains(again.Output.Prompt.Message, "still waiting") {
		t.Errorf("the same prompt again: %+v, %v", again, err)
	}
}

// A call that the agent cannot run as it was approved does not begin.
func TestEditThatTheAgentCannotRun(t *testing.T) {
	w := newWorld(t)
	for d, edit := range map[dialect.Dialect]string{dialect.ClaudeCode: `{"command":"make","jobs":9007199254740993}`, dialect.Gemini: `{"jobs":1}`} {
		got := w.later(d, pre(d, string(d), "Bash", `{"command":"make"}`))
		c := w.asking()
		w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Input: &edit})
		if why := denied(d, got()); !strings.Contains(why, "the approver") {
			t.Errorf("%s: %q", d, why)
		}
		if shown, err := w.A.Client(gatewaytest.Olga).Show(t.Context(), toolcall.ShowRequest{Key: c.Key}); err != nil || shown.Call.Phase() != toolcall.PhaseQueued {
			t.Errorf("%s: the call is %s, %v", d, shown.Call.Phase(), err)
		}
	}
}

// A response to the agent's question to its user replaces the tool's result.
func TestAnswerInPlace(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	got := w.later(d, pre(d, "c1", "AskUserQuestion", `{"questions":[{"question":"Which colour?","options":[]}]}`))
	w.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: w.asking().Key, Kind: toolcall.ResponseRespond, Output: "blue"})
	a := got()
	answers, _ := a.Output.Input["answers"].(map[string]any)
	if !allowed(d, a) || answers["Which colour?"] != "blue" || a.Output.Input["questions"] == nil {
		t.Errorf("%+v", a)
	}
}

// For an agent, every failure is a denial. For the command, it is an error.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	d := dialect.ClaudeCode
	w.A.Break(gatewaytest.Refuses)
	event := pre(d, "c1", "Read", `{}`)
	if why := denied(d, w.ask(d, event)); !strings.Contains(why, "askance could not decide about this call") {
		t.Errorf("an agent reads %q", why)
	}
	if a, err := w.send(t.Context(), d, agenthook.Options{Status: true}, event); err != nil || a.Status != http.StatusServiceUnavailable {
		t.Errorf("the command reads %+v %v", a, err)
	}
	w.A.Break(gatewaytest.Works)
	if a := w.ask(d, event); !allowed(d, a) {
		t.Errorf("afterwards: %+v", a)
	}
	for _, bad := range []string{
		"", "{", `{"session_id":"s"}`, strings.Replace(event, "PreToolUse", "Stop", 1), strings.Replace(event, `"c1"`, `""`, 1),
		strings.Replace(event, `"cwd":"/w",`, "", 1), strings.Repeat(" ", dialect.MaxEventBytes) + event,
	} {
		for _, d := range dialect.Dialects() {
			a, err := w.send(t.Context(), d, agenthook.Options{}, bad)
			if why := denied(d, a); err != nil || a.Status != http.StatusOK || !strings.Contains(why, "askance could not decide") {
				t.Errorf("%s reads about %.200q: %+v %v", d, bad, a, err)
			}
			if a, err := w.send(t.Context(), d, agenthook.Options{Status: true}, bad); err != nil || a.Status != http.StatusBadRequest && a.Status != http.StatusRequestEntityTooLarge {
				t.Errorf("the command reads about %.200q: %+v %v", bad, a, err)
			}
		}
	}
	prompt := strings.Replace(strings.Replace(event, "PreToolUse", "PermissionRequest", 1), `"Read"`, `""`, 1)
	if a := w.ask(d, prompt); a.Output.Event != "PermissionRequest" || a.Output.Prompt.Behavior != "deny" {
		t.Errorf("a prompt reads %+v", a)
	}
	for query, status := range map[string]int{"?hold_ms=0": http.StatusOK, "?pass=1&x=%zz": http.StatusOK, "?hold_ms=0&status=true": http.StatusBadRequest} {
		res, err := w.A.HTTP(gatewaytest.Bot).Post(w.URL+agenthook.Path(d)+query, "application/json", strings.NewReader(event))
		if err != nil || res.StatusCode != status {
			t.Fatalf("%s: %+v %v", query, res, err)
		}
		res.Body.Close()
	}
	if why := denied(d, w.ask(d, pre(d, "c1", "Read", `{"file_path":"/other"}`))); !strings.Contains(why, "other arguments") {
		t.Errorf("another call with the same id: %q", why)
	}
}

// A dry run decides and records nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	for tool, want := range map[string]string{"Read": "allow", "Bash": "deny", "Write": "deny"} {
		a, err := w.send(t.Context(), dialect.ClaudeCode, agenthook.Options{DryRun: true}, pre(dialect.ClaudeCode, "c1", tool, `{}`))
		if err != nil || a.Output.Decision != want {
			t.Errorf("%s: %+v %v", tool, a, err)
		}
	}
	r, err := w.A.Client(gatewaytest.Olga).List(t.Context(), toolcall.ListRequest{All: true})
	if err != nil || len(r.Calls) != 0 {
		t.Errorf("recorded %d calls, %v", len(r.Calls), err)
	}
}

// A hook allows no call that is blocked: it may have run, and an operator has to resolve it.
func TestBlockedCall(t *testing.T) {
	w := newWorld(t)
	event := pre(dialect.ClaudeCode, "c1", "Read", `{"f":"a"}`)
	if a := w.ask(dialect.ClaudeCode, event); !allowed(dialect.ClaudeCode, a) {
		t.Fatal(a.Text)
	}
	c := w.list(1, message.ToolCallSubmitted)[0]
	key := c.Key
	if _, err := w.A.Client(gatewaytest.Olga).Revoke(t.Context(), toolcall.RevokeRequest{Key: key}); c.Phase() != toolcall.PhaseRunning || !errors.Is(err, message.ErrState) {
		t.Errorf("the call that the agent runs is %s; a revocation: %v", c.Phase(), err)
	}
	if _, err := w.A.Client(gatewaytest.Bot).Report(t.Context(), toolcall.ReportRequest{Key: key, Unknown: true}); err != nil {
		t.Fatal(err)
	}
	if why := denied(dialect.ClaudeCode, w.ask(dialect.ClaudeCode, event)); !strings.Contains(why, "may have run") {
		t.Errorf("the hook says %q", why)
	}
}
