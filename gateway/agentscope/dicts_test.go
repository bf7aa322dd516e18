package agentscope_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/message"
)

// send1 is like send, for a client that speaks AgentScope 1.x.
func (s *stage) send1(c *http.Client, method, path, body string, into any) (status int) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+"/agentscope"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", msgv1.Type)
	req.Header.Set("Accept", msgv1.Type)
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		s.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	return res.StatusCode
}

// dict is a message of AgentScope 1.x as clients see it.
type dict struct {
	ID, Name, Role string
	Content        json.RawMessage
	Metadata       struct {
		Askance struct {
			RequestID string `json:"request_id"`
			Calls     []struct {
				ID     string `json:"tool_use_id"`
				Digest string
			}
		}
	}
}

// history reads the session as AgentScope 1.x messages.
func (s *stage) history(c *http.Client, session string) []dict {
	s.t.Helper()
	var out struct{ Messages []dict }
	if status := s.send1(c, "GET", "/sessions/"+session+"/messages", "", &out); status != http.StatusOK {
		s.t.Fatalf("the history: %d", status)
	}
	return out.Messages
}

// asked waits until the reply has an approval request and reads it from the history.
func (s *stage) asked(c *http.Client, session string) (last dict) {
	s.t.Helper()
	next, end := s.stream(c, session, "?after=0", "")
	until(next, message.EventRequireUserConfirm)
	end()
	list := s.history(c, session)
	return list[len(list)-1]
}

func decides(d dict, digest, kind string) string {
	return `{"agent_id":"bot","session_id":"s1","input":{"name":"x","role":"user","content":"yes","metadata":{"askance":{"request_id":"` +
		d.Metadata.Askance.RequestID + `","decisions":[{"tool_use_id":"` + d.Metadata.Askance.Calls[0].ID + `","digest":"` + digest + `","type":` + kind + `}]}}}}`
}

// TestDicts: a client of AgentScope 1.x talks to an agent, reads the approval request and answers
// it.
func TestDicts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var began agentscope.ChatReply
	if status := s.send1(s.me(), "POST", "/chat/", `{"agent_id":"bot","session_id":"s1","input":[{"id":"u1","name":"the boss","role":"user","content":"call pay {\"to\":\"acme\",\"amount\":1}\nsay done","timestamp":"2026-11-21 09:32:43.576"}]}`, &began); status != http.StatusOK || began.Status != "started" {
		t.Fatalf("%d %+v", status, began)
	}
	asks := s.asked(s.me(), "s1")
	calls := asks.Metadata.Askance.Calls
	if asks.Role != "assistant" || asks.Metadata.Askance.RequestID != string(began.Reply) || len(calls) != 1 || calls[0].Digest == "" || !strings.Contains(string(asks.Content), `"input":{"to":"acme","amount":1}`) {
		t.Fatalf("%+v %s", asks, asks.Content)
	}
	if user := s.history(s.me(), "s1")[0]; user.ID != "u1" || user.Name != gatewaytest.Everything || user.Role != "user" || string(user.Content)[0] != '"' {
		t.Errorf("%+v %s", user, user.Content)
	}
	// A text or an old digest decides nothing, and a decision must be sent without other messages.
	var p gateway.Problem
	for want, body := range map[message.Code]string{
		message.CodeDigest:   decides(asks, "sha256:old", `"approve"`),
		message.CodeNotFound: strings.Replace(decides(asks, calls[0].Digest, `"approve"`), string(began.Reply), "another", 1),
		message.CodeInvalid:  decides(asks, calls[0].Digest, `"yes"`),
	} {
		if status := s.send1(s.me(), "POST", "/chat", body, &p); p.Code != want || status < 400 || p.Hint == "" && want != message.CodeInvalid {
			t.Errorf("%d %+v, want %s", status, p, want)
		}
	}
	two := strings.Replace(decides(asks, calls[0].Digest, `"approve"`), `"input":{`, `"input":[{"name":"x","role":"user","content":"and"},{`, 1)
	if s.send1(s.me(), "POST", "/chat", two[:len(two)-1]+"]}", &p); p.Code != message.CodeInvalid {
		t.Errorf("%+v", p)
	}
	if s.send1(s.A.HTTP(gatewaytest.Bot), "POST", "/chat", decides(asks, calls[0].Digest, `"approve"`), &p); p.Code != message.CodeForbidden {
		t.Errorf("%+v", p)
	}
	// After an edit the policy decides again; here it asks about the new arguments.
	var taken agentscope.ChatReply
	if status := s.send1(s.A.HTTP(gatewaytest.Ann), "POST", "/chat", decides(asks, calls[0].Digest, `"approve","input":{"to":"acme","amount":2}`), &taken); status != http.StatusOK || taken.Status != "started" || taken.Reply != began.Reply {
		t.Fatalf("%d %+v", status, taken)
	}
	next, end := s.stream(s.me(), "s1", "?after=0", "")
	until(next, message.EventReplyEnd)
	end()
	list := s.history(s.me(), "s1")
	if len(list) != 4 || list[2].Role != "system" || !strings.Contains(string(list[2].Content), `\"amount\":2`) || len(list[1].Metadata.Askance.Calls) != 0 || !strings.Contains(string(list[3].Content), "done") {
		for _, d := range list {
			t.Logf("%+v %s", d, d.Content)
		}
		t.Error("the history of the finished turn")
	}
	if s.send1(s.A.HTTP(gatewaytest.Ann), "POST", "/chat", decides(asks, calls[0].Digest, `"approve"`), &p); p.Code != message.CodeFinished || p.Call == nil {
		t.Errorf("%+v", p)
	}
}

// TestDictsRefused: messages that are incomplete or in the other format start no turn.
func TestDictsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	in := func(input string) string { return `{"agent_id":"bot","session_id":"s1","input":` + input + `}` }
	for _, input := range []string{
		`{"name":"me","role":"user","content":[{"type":"hologram"}]}`,
		`{"name":"me","role":"user","content":[{"type":"text","text":"hi","when":"later"}]}`,
		`{"name":"me","role":"user","content":[{"type":"tool_use","id":"c","name":"pay","input":{}}]}`,
		`{"name":"me","role":"system","content":[{"type":"image","source":{"type":"url","url":"https://e.x/a.png"}}]}`,
		`{"name":"me","role":"tool","content":"hi"}`, `[]`, `null`, `"hi"`,
		`{"name":"bot","role":"assistant","content":"I may"}`,
		`{"name":"me","role":"user","created_at":"2026-03-01T09:00:00","content":[{"type":"text","text":"hi"}]}`,
		`{"type":"USER_CONFIRM_RESULT","reply_id":"r1","confirm_results":[]}`,
	} {
		var p gateway.Problem
		if status := s.send1(s.me(), "POST", "/chat", in(input), &p); p.Code != message.CodeInvalid || status != http.StatusBadRequest || p.Detail == "" {
			t.Errorf("%s: %d %+v", input, status, p)
		}
	}
	if p := s.refused(s.me(), "POST", "/chat", in(`{"name":"me","role":"user","content":"hi"}`), message.CodeInvalid); !strings.Contains(p.Hint, msgv1.Type) {
		t.Errorf("the hint does not name the media type: %+v", p)
	}
	if list := s.history(s.me(), "s1"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestDictsHide: an approval request with hidden arguments is shown and answered without them.
func TestDictsHide(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.say("s1", "m1", `call login {"user":"u","password":"secret-7"}`)
	asks := s.asked(s.A.HTTP(gatewaytest.Ann), "s1")
	if strings.Contains(string(asks.Content), "secret-7") || !strings.Contains(string(asks.Content), `"user"`) || asks.Metadata.Askance.Calls[0].Digest == "" {
		t.Fatalf("%+v %s", asks, asks.Content)
	}
	var taken agentscope.ChatReply
	if s.send1(s.A.HTTP(gatewaytest.Ann), "POST", "/chat", decides(asks, asks.Metadata.Askance.Calls[0].Digest, `"approve"`), &taken); taken.Status != "started" {
		t.Errorf("%+v", taken)
	}
}

// TestDictsShowWhatIsAsked: after an edit the history shows the arguments and the digest of the
// new approval request, not the proposed arguments.
func TestDictsShowWhatIsAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ann := s.A.HTTP(gatewaytest.Ann)
	s.say("s1", "m1", `call deploy {"v":1}`)
	first := s.asked(ann, "s1")
	var taken agentscope.ChatReply
	if status := s.send1(ann, "POST", "/chat", decides(first, first.Metadata.Askance.Calls[0].Digest, `"approve","input":{"v":2}`), &taken); status != http.StatusOK {
		t.Fatal(status)
	}
	next, end := s.stream(ann, "s1", "?after=0", "")
	until(next, message.EventRequireUserConfirm)
	until(next, message.EventRequireUserConfirm)
	end()
	list := s.history(ann, "s1")
	second := list[len(list)-1]
	if calls := second.Metadata.Askance.Calls; len(calls) != 1 || calls[0].Digest == first.Metadata.Askance.Calls[0].Digest || !strings.Contains(string(second.Content), `"input":{"v":2}`) || strings.Contains(string(second.Content), `"v":1`) {
		t.Fatalf("%+v %s", second, second.Content)
	}
	var p gateway.Problem
	if s.send1(s.A.HTTP(gatewaytest.Bob), "POST", "/chat", decides(first, first.Metadata.Askance.Calls[0].Digest, `"approve"`), &p); p.Code != message.CodeDigest || p.Call == nil {
		t.Errorf("an answer to the old approval request: %+v", p)
	}
}
