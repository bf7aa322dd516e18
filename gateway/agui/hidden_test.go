package agui_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// TestRecordsHideWhatRulesHide: nothing that the surface writes into the session, such as a bare
// hash, lets anyone guess a hidden argument that they may not see.
func TestRecordsHideWhatRulesHide(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(`call login {"user":"eve","password":"1234"}`)
	c.talk().is(t, "interrupt")
	page, err := s.A.Client(gatewaytest.Ann).Events(t.Context(), toolcall.EventsRequest{Session: "t"})
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	for _, e := range page.Events {
		ev, err := message.DecodeEvent(e.Event)
		if err != nil {
			t.Fatal(err)
		}
		if custom, ok := ev.(*message.Custom); !ok || custom.Name == "askance.turn" { // this is what the person wrote
			continue
		}
		records++
		for _, text := range []string{`{"password":"1234","user":"eve"}`, `{"user":"eve","password":"1234"}`, "1234"} {
			sum := sha256.Sum256([]byte(text))
			if strings.Contains(string(e.Event), hex.EncodeToString(sum[:])) {
				t.Errorf("the record has the hash of %s: %s", text, e.Event)
			}
		}
	}
	if records == 0 {
		t.Fatal("no record of the approval request was written")
	}
	key := s.asking("t")[0]
	// Arguments that come back as they were shown are not an edit.
	c.talk(c.all(`{"approved":true,"editedArgs":{"password":"1234","user":"eve"}}`)...).is(t, "success")
	if votes := s.seen(key).Votes; len(votes) != 1 || votes[0].Edited {
		t.Errorf("recorded as %+v", votes)
	}
}

// TestInputIsForTheAgent: other readers of the session do not see what the frontend sends next to
// its messages, such as a token in forwardedProps.
func TestInputIsForTheAgent(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said("say hi")
	c.settings = func(in *wire.RunInput) { in.ForwardedProps = message.RawJSON(`{"token":"s3cret"}`) }
	c.talk().is(t, "success")
	for _, by := range []toolcall.Principal{{Role: toolcall.RoleRuntime, Name: gatewaytest.Everything}, {Role: toolcall.RoleApprover, Name: gatewaytest.Ann}, {Role: toolcall.RoleAuditor, Name: gatewaytest.Audie}} {
		page, err := s.A.As(by).Events(t.Context(), toolcall.EventsRequest{Session: "t"})
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, e := range page.Events {
			all.Write(e.Event)
		}
		if owner := by.Role == toolcall.RoleRuntime; strings.Contains(all.String(), "s3cret") != owner || !strings.Contains(all.String(), `"say hi"`) {
			t.Errorf("%s reads %s", by.Role, all.String())
		}
	}
}

// TestAnotherEditWon: of two edits one runs, and the client of the other one is told.
func TestAnotherEditWon(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay)
	c.talk().is(t, "interrupt")
	key := s.asking("t")[0]
	edited := `{"to":"acme","amount":2}`
	if _, err := s.A.Client(gatewaytest.Ann).SubmitResponse(t.Context(), toolcall.Response{Key: key, Kind: toolcall.ResponseApprove, Digest: s.seen(key).Digest, Input: &edited}); err != nil {
		t.Fatal(err)
	}
	s.recordAgain("t") // as the run of another page does at the same moment
	a, told := c.talk(c.all(`{"approved":true,"editedArgs":{"to":"acme","amount":3}}`)...), 0
	for _, e := range a.events {
		if note, ok := e.(*wire.Custom); ok && note.Name == "askance.overtaken" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the client was told %d times that another edit runs:\n%s", told, show(a))
	}
}

// recordAgain repeats the last record of a run that ended with approval requests.
func (s *stage) recordAgain(session message.SessionID) {
	s.t.Helper()
	owner := s.A.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Everything})
	page, err := owner.Events(s.t.Context(), toolcall.EventsRequest{Session: session})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range slices.Backward(page.Events) {
		ev, err := message.DecodeEvent(e.Event)
		if custom, ok := ev.(*message.Custom); err == nil && ok && custom.Name == "askance.agui.park" {
			custom.ID = ""
			raw, err := json.Marshal(custom)
			if err == nil {
				_, err = owner.Emit(s.t.Context(), toolcall.EmitRequest{Session: session, Reply: "r", Events: []message.RawJSON{raw}})
			}
			if err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
	s.t.Fatal("no record")
}

// TestRefusedEditRunsNothing: of a run with an edit that the engine refuses, no response takes effect.
func TestRefusedEditRunsNothing(t *testing.T) {
	s := newStage(t)
	c := s.client(gatewaytest.Everything, "t").said(pay, `also pay {"to":"initech","amount":7}`)
	c.talk().is(t, "interrupt")
	both, bad := c.all(`{"approved":true}`), c.all(`{"approved":true}`)
	bad[1].Payload = message.RawJSON(`{"approved":true,"editedArgs":{"to":"acme","amount":-1}}`)
	c.talk(bad...).is(t, "error invalid")
	if open := s.asking("t"); len(open) != 2 {
		t.Errorf("open are %v, want both", open)
	}
	c.talk(both...).is(t, "success")
}

// TestEditsOfInexactNumbers: what the approver sent runs, and the vote is an edit only if a number has
// another exact value.
func TestEditsOfInexactNumbers(t *testing.T) {
	s := newStage(t)
	s.A.Work(gatewaytest.Ship)
	const proposed = `{"a":9007199254740993.0,"b":1.0}`
	for edited, want := range map[string]string{
		`{"a":9007199254740992.0,"b":1.0}`:  `{"a":9007199254740992.0,"b":1.0}`,
		`{"a":9007199254740992,"b":1}`:      `{"a":9007199254740992,"b":1}`, // a JavaScript client that edits nothing
		`{"b":1,"a":9007199254740993.00}`:   proposed,
		`{"a":9007199254740993,"b":100e-2}`: proposed,
	} {
		c := s.client(gatewaytest.Everything, "t"+strconv.Itoa(len(edited))).said("call ship " + proposed)
		c.talk().is(t, "interrupt")
		key := s.asking(c.thread)[0]
		answer := c.all(`{"approved":true,"editedArgs":` + edited + `}`)
		c.talk(answer...).is(t, "success")
		if call := s.seen(key); call.Input != want || len(call.Votes) != 1 || call.Votes[0].Edited != (want == edited) {
			t.Errorf("%s: %s ran, votes %+v", edited, call.Input, call.Votes)
		}
		c.talk(answer...).is(t, "success") // the same response again
	}
}

// seen returns a call as an approver sees it.
func (s *stage) seen(key toolcall.Key) *toolcall.Call {
	s.t.Helper()
	out, err := s.A.Client(gatewaytest.Ann).Show(s.t.Context(), toolcall.ShowRequest{Key: key})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.Call
}
