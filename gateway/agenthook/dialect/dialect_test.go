package dialect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// pair is one file of testdata: an event as the agent sends it, and what the agent must receive
// for each verdict. An empty text means nothing.
type pair struct {
	About   string          `json:"about"`
	Event   json.RawMessage `json:"event"`
	Answers []struct {
		Verdict struct {
			Behavior string `json:"behavior"`
			Reason   string `json:"reason"`
			Input    string `json:"input"`
			Pass     bool   `json:"pass"`
		} `json:"verdict"`
		Answer json.RawMessage `json:"answer"`
		Error  string          `json:"error"`
	} `json:"answers"`
}

// TestPairs compares every answer with the golden one, byte for byte.
func TestPairs(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var p pair
			if err := strictjson.Unmarshal(data, &p); err != nil {
				t.Fatal(err)
			}
			ev, err := dialect.Decode(dialect.Dialect(filepath.Base(filepath.Dir(file))), p.Event)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(data), string(ev.Input)) {
				t.Errorf("the input %s is not copied from the event byte for byte", ev.Input)
			}
			for i, a := range p.Answers {
				got, err := dialect.Encode(ev, dialect.Verdict{Behavior: message.Behavior(a.Verdict.Behavior), Reason: a.Verdict.Reason, Input: a.Verdict.Input, Pass: a.Verdict.Pass})
				want := string(a.Answer)
				if want == "null" {
					want = ""
				}
				if a.Error != "" {
					if err == nil || !strings.Contains(err.Error(), a.Error) {
						t.Errorf("answers[%d]: %s and the error %v, want %q", i, got, err, a.Error)
					}
					continue
				}
				if err != nil || string(got) != want {
					t.Errorf("answers[%d]: %v\n got %s\nwant %s", i, err, got, want)
				}
				if !dialect.IsAnswer(ev, got) {
					t.Errorf("answers[%d]: %s does not count as an answer", i, got)
				}
			}
		})
	}
}

// TestIsAnswer: what an agent does not know, and then runs the tool, is no answer.
func TestIsAnswer(t *testing.T) {
	before := func(d dialect.Dialect) *dialect.Event {
		return &dialect.Event{Dialect: d, Name: "PreToolUse", Kind: dialect.Before}
	}
	prompt := &dialect.Event{Dialect: dialect.ClaudeCode, Name: "PermissionRequest", Kind: dialect.Prompt}
	after := &dialect.Event{Dialect: dialect.ClaudeCode, Name: "PostToolUse", Kind: dialect.After}
	const deny = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}`
	for _, c := range []struct {
		ev     *dialect.Event
		answer string
		want   bool
	}{
		{before(dialect.ClaudeCode), deny, true},
		{before(dialect.ClaudeCode), strings.Replace(deny, "deny", "ask", 1), true},
		{before(dialect.Codex), strings.Replace(deny, "deny", "ask", 1), false}, // an error there
		{before(dialect.ClaudeCode), strings.Replace(deny, "deny", "postpone", 1), false},
		{before(dialect.ClaudeCode), strings.Replace(deny, "deny", "Deny", 1), false},
		{before(dialect.ClaudeCode), strings.Replace(deny, "PreToolUse", "PostToolUse", 1), false},
		{before(dialect.ClaudeCode), strings.Replace(deny, `"permissionDecision"`, `"until":"tomorrow","permissionDecision"`, 1), false},
		{before(dialect.ClaudeCode), `{"hookSpecificOutput":{}}`, false},
		{before(dialect.ClaudeCode), `{"continue":true}`, false},
		{before(dialect.ClaudeCode), "null", false},
		{before(dialect.ClaudeCode), "", true},
		{before(dialect.Gemini), "", false},
		{before(dialect.Gemini), `{"decision":"deny"}`, true},
		{before(dialect.Gemini), `{"decision":"block"}`, false},
		{before(dialect.Gemini), deny, false},
		{prompt, deny, false},
		{prompt, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny"}}}`, true},
		{prompt, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"ask"}}}`, false},
		{after, "", true},
		{after, deny, false},
	} {
		if got := dialect.IsAnswer(c.ev, []byte(c.answer)); got != c.want {
			t.Errorf("%s %s: %s = %v, want %v", c.ev.Dialect, c.ev.Name, c.answer, got, c.want)
		}
	}
}

// TestDecode checks the ids, the subagent and the result in each dialect.
func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		d     dialect.Dialect
		event string
		want  dialect.Event
		state message.ToolResultState
		text  string
	}{
		{
			dialect.ClaudeCode, `{"session_id":"s","prompt_id":"p","agent_id":"a1","agent_type":"Explore","hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{"file_path":"/a"},"tool_response":{"content":"x"},"tool_use_id":"toolu_1","duration_ms":3}`,
			dialect.Event{Kind: dialect.After, Session: "s", Turn: "p", Call: "toolu_1", Agent: "claude-code/Explore", Tool: "Read"}, message.ToolResultSuccess, `{"content":"x"}`,
		},
		{
			dialect.ClaudeCode, `{"session_id":"s","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{},"tool_use_id":"t","error":"exit 1"}`,
			dialect.Event{Kind: dialect.After, Session: "s", Call: "t", Agent: "claude-code", Tool: "Bash"}, message.ToolResultError, "exit 1",
		},
		{
			dialect.ClaudeCode, `{"session_id":"s","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{},"tool_use_id":"t","error":"stopped","is_interrupt":true}`,
			dialect.Event{Kind: dialect.After, Session: "s", Call: "t", Agent: "claude-code", Tool: "Bash"}, message.ToolResultInterrupted, "stopped",
		},
		{
			dialect.Codex, `{"session_id":"s","turn_id":"t1","hook_event_name":"PostToolUse","model":"m","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"c","transcript_path":null,"tool_response":"a\nb"}`,
			dialect.Event{Kind: dialect.After, Session: "s", Turn: "t1", Call: "c", Agent: "codex", Tool: "Bash"}, message.ToolResultSuccess, "a\nb",
		},
		{
			dialect.Gemini, `{"session_id":"s","hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"no","error":{"message":"bad"}}}`,
			dialect.Event{Kind: dialect.After, Session: "s", Agent: "gemini", Tool: "run_shell_command"}, message.ToolResultError, `{"llmContent":"no","error":{"message":"bad"}}`,
		},
	} {
		ev, err := dialect.Decode(tc.d, []byte(tc.event))
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind != tc.want.Kind || ev.Session != tc.want.Session || ev.Turn != tc.want.Turn || ev.Call != tc.want.Call || ev.Agent != tc.want.Agent || ev.Tool != tc.want.Tool {
			t.Errorf("%s\n got %+v\nwant %+v", tc.event, ev, tc.want)
		}
		if ev.Result.State != tc.state || ev.Result.Text != tc.text {
			t.Errorf("%s: the result is %+v", tc.event, ev.Result)
		}
	}
}

// TestEditsOfInexactNumbers: the agent gets arguments in which a number has another exact value, but
// not arguments that are only written in another way.
func TestEditsOfInexactNumbers(t *testing.T) {
	event := `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"echo","tool_input":{"a":9007199254740993.0,"b":1.0},"tool_use_id":"c","cwd":"/w"}`
	for _, d := range []dialect.Dialect{dialect.ClaudeCode, dialect.Codex, dialect.Gemini} {
		text := event
		if d == dialect.Gemini {
			text = strings.Replace(event, "PreToolUse", "BeforeTool", 1)
		}
		ev, err := dialect.Decode(d, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for input, counts := range map[string]bool{
			`{"a":9007199254740992.0,"b":1.0}`: true, `{"a":9007199254740992,"b":1}`: true,
			`{"b":1,"a":9007199254740993.00}`: false, `{"a":9007199254740993,"b":10e-1}`: false,
		} {
			got, err := dialect.Encode(ev, dialect.Verdict{Behavior: message.BehaviorAllow, Input: input})
			if err != nil || strings.Contains(string(got), "9007199254740992") != counts || strings.Contains(string(got), `"b"`) != counts || dialect.SameInput(string(ev.Input), input) == counts {
				t.Errorf("%s: %s: %v %s", d, input, err, got)
			}
		}
		const rounded = `{"a":1,"b":9007199254740993}` // what JavaScript would make 9007199254740992
		got, err := dialect.Encode(ev, dialect.Verdict{Behavior: message.BehaviorAllow, Input: rounded})
		if (err == nil) != (d == dialect.Codex) || err == nil && !strings.Contains(string(got), rounded) {
			t.Errorf("%s: %v %s", d, err, got)
		}
	}
}

// TestReasons: a reason is valid, never empty, and short enough to be shown.
func TestReasons(t *testing.T) {
	ev, err := dialect.Decode(dialect.Codex, []byte(`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{},"tool_use_id":"c","cwd":"/w"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"", " \n", "<system-reminder></system-reminder>", "\xff\xfe", strings.Repeat("é", 20_000)} {
		b, err := dialect.Encode(ev, dialect.Verdict{Reason: reason})
		var a struct {
			Out struct {
				Decision string `json:"permissionDecision"`
				Reason   string `json:"permissionDecisionReason"`
				Event    string `json:"hookEventName"`
			} `json:"hookSpecificOutput"`
		}
		if err == nil {
			err = strictjson.Unmarshal(b, &a)
		}
		if err != nil || a.Out.Decision != "deny" || strings.TrimSpace(a.Out.Reason) == "" || len(a.Out.Reason) > 10_000 {
			t.Errorf("%.20q: %v %.200s", reason, err, b)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("claude-code", `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"a":1},"tool_use_id":"c","cwd":"/w"}`, `{"a":2}`)
	f.Add("gemini", `{"session_id":"s","hook_event_name":"BeforeTool","tool_name":"x","tool_input":{"a":1,"b":[]},"cwd":"/w"}`, `{"a":1,"b":[0]}`)
	f.Add("codex", `{"session_id":"s","hook_event_name":"PermissionRequest","tool_name":"x","tool_input":{},"cwd":"/w"}`, `{}`)
	f.Fuzz(func(t *testing.T, d, event, input string) {
		ev, err := dialect.Decode(dialect.Dialect(d), []byte(event))
		if err != nil {
			if b, encErr := dialect.Encode(ev, dialect.Verdict{Reason: "x"}); encErr != nil || ev.Kind != dialect.After && !strings.Contains(string(b), `"deny"`) {
				t.Errorf("no denial of an event that cannot be read: %s, %v", b, encErr)
			}
			return
		}
		for _, v := range []dialect.Verdict{{}, {Behavior: message.BehaviorAllow, Input: input}, {Behavior: message.BehaviorAllow, Pass: true}} {
			b, err := dialect.Encode(ev, v)
			if err == nil && len(b) > 0 && strictjson.Check(b) != nil {
				t.Errorf("the answer is not valid: %s", b)
			}
			if v.Behavior == "" && ev.Kind != dialect.After && (err != nil || !strings.Contains(string(b), `"deny"`)) {
				t.Errorf("a denial became %q, %v", b, err)
			}
		}
	})
}
