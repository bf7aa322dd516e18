package inbox_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/toolcall"
)

// Two people of a group must approve. The inbox shows who has and who still must, counts down to
// the escalation, and shows no hidden argument.
func TestSeveralMustAgree(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "wire", `{"to":"acme","pin":"0000-secret"}`)
	x := w.inbox(80, 30)
	x.See("> ")
	x.Press(enter, "0 of 2 from group finance")
	golden(t, "several", x.Match(`escalates in 5\dm`, `denied in 2h 5\dm`))
	w.answer(c, func(*toolcall.Response) {})
	x.See("1 of 2 from group finance (rule two): bob (in process)", "approved by bob")
	x.Press("a", "These arguments run")
	golden(t, "several-confirm", x.Press("  G", "y approve  Y"))
	x.Press("y", "call_1: approved, the call is queued")
	if now := w.call(c); len(now.Votes) != 2 || now.Votes[1].By.Name != "ann" {
		t.Errorf("votes: %+v", now.Votes)
	}
	if raw := x.Raw(); strings.Contains(raw, "0000-secret") {
		t.Error("the hidden argument reached the terminal")
	}
}

// The first approval leaves the approval request open for others.
func TestFirstOfTwo(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "wire", `{"to":"acme","pin":"1"}`)
	x := w.inbox(80, 40)
	x.See("> ")
	x.Press(enter, "0 of 2")
	x.Press("a", "y approve  Y")
	golden(t, "first-of-two", x.Press("y", "call_1: approved, 1 more approval needed", "1 of 2 from group finance (rule two): ann"))
	x.Press(esc, "(you approved)", "1 open")
	w.answer(c, func(*toolcall.Response) {})
	x.See("approved by bob", "0 open")
}

func TestHandOver(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "wire", `{"to":"acme","pin":"1"}`)
	x := w.inbox(80, 40)
	x.See("> ")
	x.Press(enter, "0 of 2")
	x.Press("h", "Delegate to")
	x.Press(enter, "enter a value")
	x.Press("eve"+enter, "> eve", "Note for the next approver")
	x.Press("you know them", "> you know them")
	x.Press(enter, "to       eve", "note     you know them", "y delegate")
	x.Press("y", "delegated to eve by ann", "you know", "2 more approvals needed")
	if v := w.voted(c, "ann", toolcall.ResponseDelegate).Votes[0]; v.To != "eve" || v.Note != "you know them" {
		t.Errorf("the vote is %+v", v)
	}
	for _, key := range []string{"a", "e", "t", "s"} {
		x.Press(key, "You delegated to eve: you can only reject this request now.", "\nr reject  n next")
	}
}

func TestStandAside(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "wire", `{"to":"acme","pin":"1"}`)
	x := w.inbox(80, 40)
	x.See("> ")
	x.Press(enter, "0 of 2")
	x.Press("s", "Note for the next approver")
	x.Press("my cousin"+enter, "note     my cousin", "y skip")
	x.Press("y", "skipped by ann", "my cousin")
	w.voted(c, "ann", toolcall.ResponseSkip)
}

// An edit keeps the placeholder of a hidden value, and the engine restores the value.
func TestEditKeepsWhatIsHidden(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "wire", `{"to":"acme","pin":"0000-secret"}`)
	x := w.inbox(80, 50, "EDITOR=sed -i s/acme/emca/")
	x.See("> ")
	x.Press(enter, "acme")
	x.Press("e", `+   "to": "emca"`, "y approve as edited")
	x.Press("y", "edited and approved by ann")
	bot := w.node.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	r, err := bot.Show(t.Context(), toolcall.ShowRequest{V: 1, Key: c.Key})
	if err != nil || !strings.Contains(r.Call.Input, "emca") || !strings.Contains(r.Call.Input, "0000-secret") {
		t.Errorf("the edited call asks about %s, %v", r.Call.Input, err)
	}
}

// With logins, the inbox needs only the permissions of an approver to receive updates.
func TestWithLogin(t *testing.T) {
	w := newDir(t)
	data := filepath.Join(w.dir, "data")
	login := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Main(t.Context(), cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs}, append(args, "--data", data)); code != cli.ExitOK {
			t.Fatalf("%v: exit %d\n%s", args, code, errs.String())
		}
		var made struct{ File string }
		_ = json.Unmarshal(out.Bytes(), &made) // creds init prints something else
		return made.File
	}
	login("creds", "init")
	ann := login("creds", "add", "approver", "ann", "--json")
	w.creds = node.Dir(data).Creds()
	w.start("127.0.0.1:0")
	t.Cleanup(w.stop)

	x := open(t, 80, 24, nil, "inbox", "--nats", w.url, "--creds", ann)
	x.See("askance inbox: ann", "No open approval requests")
	c := w.pay("call_1", 1900) // found by a hint, not by the next list
	x.See("Pay 1900", "1 open")
	x.Press(enter, "A-1042")
	x.Press("a", "y approve  Y")
	x.Press("y", "approved by ann")
	if v := w.voted(c, "ann", toolcall.ResponseApprove).Votes[0]; v.By.Auth == "" || strings.Contains(v.By.Auth, "in-process") {
		t.Errorf("how ann was authenticated: %q", v.By.Auth)
	}
}
