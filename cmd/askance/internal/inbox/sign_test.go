package inbox_test

import (
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// newSigned returns a world in which ann has a key, and the path of its file.
func newSigned(t *testing.T) (w *world, key string) {
	t.Helper()
	w = newDir(t)
	key = filepath.Join(w.dir, "ann.key")
	pub, err := keyfile.CreateApproverKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.write("people.yaml", people+"approvers: {ann: {keys: ['"+toolcall.FormatPublicKey(pub)+"']}}\n")
	w.start("127.0.0.1:0")
	t.Cleanup(w.stop)
	return w, key
}

// If a rule requires the approver's signature, the inbox adds it and asks for nothing else.
func TestSign(t *testing.T) {
	w, key := newSigned(t)
	c := w.ask("call_1", "sell", `{"what":"all"}`)
	for _, tc := range []struct {
		name  string
		flags []string
		env   []string
	}{
		{"flag", []string{"--sign-key", key, "--sign-for", "2h"}, nil},
		{"environment", nil, []string{"ASKANCE_SIGN_KEY=" + key}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := w.ask("call_"+tc.name, "sell", `{}`)
			x := w.inboxWith(80, 40, tc.flags, tc.env...)
			x.See("> ")
			x.Press("G"+enter, "Sell?", "sell  call_"+tc.name)
			x.Press("a", "signed   with your key", "y approve  Y")
			x.Press("y", "approved by ann")
			now := w.voted(c, "ann", toolcall.ResponseApprove)
			if s := now.Votes[0].Signature; s == nil || now.State != message.ToolCallSubmitted {
				t.Errorf("%s, signed %v", now.State, s)
			}
			x.Press(ctrlC)
			x.Ends(cli.ExitInterrupted)
		})
	}

	// A bulk approval signs each request.
	d := w.ask("call_2", "sell", `{"what":"more"}`)
	x := w.inboxWith(80, 40, []string{"--sign-key", key})
	x.See("2 open")
	x.Press("b", "Approve 2 requests?")
	x.Press("y", "Responses", "call_1", "call_2")
	for _, c := range []*toolcall.Call{c, d} {
		if now := w.voted(c, "ann", toolcall.ResponseApprove); now.Votes[0].Signature == nil {
			t.Errorf("%s is not signed", c.Call)
		}
	}
}

// Without a key, the inbox says how to get one and sends nothing.
func TestSignWithoutKey(t *testing.T) {
	w, _ := newSigned(t)
	c := w.ask("call_1", "sell", `{}`)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "Sell?")
	x.Press("a", "requires your signature", "--sign-key FILE")
	x.Press("  y", "esc back")
	x.Press(esc, "Sell?")
	x.Press("r", "Feedback for the model") // a rejection needs no signature
	x.Press(enter, "y reject")
	if now := w.call(c); len(now.Votes) != 0 {
		t.Fatalf("votes %+v", now.Votes)
	}
	x.Press("y", "rejected by ann")

	y := open(t, 200, 24, nil, "inbox", "--nats", w.url, "--as", "ann", "--sign-key", filepath.Join(w.dir, "people.yaml"))
	y.See("is not an approver key")
	y.Ends(cli.ExitUsage)
}
