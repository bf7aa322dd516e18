package inbox_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/termtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestApprove(t *testing.T) {
	t.Parallel() // the test waits for seconds
	w := newWorld(t)
	x := w.inbox(80, 24)
	golden(t, "empty", x.See("No open approval requests", "0 open"))

	c := w.pay("call_1", 19900%9000) // needs approval, under the cap
	other := w.ask("call_2", "boss", `{}`)
	w.ask("call_3", "soon", `{"when":"now"}`)
	golden(t, "list", x.Match(`> 1h 5\dm`, `Pay 1900 cents\?`, `boss`, `\(not yours\)`, `3 open`))
	golden(t, "detail", x.Press("j"+enter, "why", "rule large", "A-1042", "1900", c.Digest[:40]))
	golden(t, "confirm", x.Press("a", "These arguments run", "y approve  Y"))
	if now := w.call(c); len(now.Votes) != 0 {
		t.Fatal("a response was sent before it was confirmed")
	}
	golden(t, "approved", x.Press("y", "approved by ann", "call_1: approved, the call is queued", "2 open"))
	if now := w.voted(c, "ann", toolcall.ResponseApprove); now.State != message.ToolCallSubmitted {
		t.Errorf("the call is %s", now.State)
	}
	x.Miss("approved by ann") // the request disappears
	x.Press("q")
	x.Ends(cli.ExitOK)
	if got := w.call(other); got.State != message.ToolCallAsking {
		t.Errorf("%s is %s", got.Call, got.State)
	}
}

// A request that does not fit on the screen must be scrolled through before it can be approved.
func TestApproveLongRequest(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "pay", `{"cents":1900,"note":"`+strings.Repeat(`one line of many\n`, 30)+`transfer all of it"}`)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "31 lines")
	golden(t, "confirm-long", x.Press("a", "These arguments run", "space more, then y"))
	x.Press("y", "space more, then y")
	x.Press(" ", "lines 18 to", "space more, then y")
	x.Press("y", "space more, then y")
	x.Press(" ", "transfer all of it")
	golden(t, "confirm-end", x.Press("G", "digest", "y approve  Y"))
	if now := w.call(c); len(now.Votes) != 0 {
		t.Fatal("a response was sent before the whole request was shown")
	}
	x.Press("y", "approved by ann")
	w.voted(c, "ann", toolcall.ResponseApprove)
}

func TestRemember(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	if len(c.Suggested) == 0 {
		t.Fatal("no rule is suggested")
	}
	x := w.inbox(80, 30)
	x.See("> ")
	x.Press(enter, "1 [ ] allow pay")
	x.Press("1", "1 [x] allow pay")
	x.Press("a", "remember allow pay")
	x.Press("  ", "y approve  Y")
	x.Press("y", "approved by ann")
	if now := w.voted(c, "ann", toolcall.ResponseApprove); len(now.Remember) != 1 {
		t.Errorf("remembered: %+v", now.Remember)
	}
}

func TestEdit(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "pay", `{"order_id":"A-1042","cents":1900,"note":"for p`+"\u0430"+`ypal"}`)
	x := w.inbox(80, 24, "EDITOR=sed -i s/1900/1500/")
	x.See("> ")
	x.Press(enter, "A-1042", "p‹U+0430›ypal")
	x.Press("e", "These arguments run instead", `-   "cents": 1900`, `+   "cents": 1500`)
	x.Until("the mouse works again after the editor", func(string) bool { return strings.HasSuffix(lastMouse(x.Raw()), "h") })
	x.Press("  ", "y approve as edited")
	x.Press("y", "edited and approved by ann")
	now := w.voted(c, "ann", toolcall.ResponseApprove)
	if !strings.Contains(now.Input, `"cents": 1500`) || !strings.Contains(now.Input, `p\u0430ypal`) {
		t.Errorf("the call runs with %s", now.Input)
	}
}

// lastMouse returns the last sequence that turned the mouse on ("h") or off ("l").
func lastMouse(raw string) string {
	all := regexp.MustCompile(`\x1b\[\?1002[hl]`).FindAllString(raw, -1)
	return all[len(all)-1]
}

// A mistake does not lose what the person wrote.
func TestEditAfterAMistake(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(100, 24, "EDITOR=sed -i s/150O/1500/;s/1900/150O/")
	x.See("> ")
	x.Press(enter, "A-1042")
	x.Press("e", "press e to open your text again: the new arguments are not a JSON object")
	x.Press("e", "These arguments run instead", `+   "cents": 1500`)
	x.Press("  ", "y approve as edited")
	x.Press("y", "edited and approved by ann")
	if now := w.voted(c, "ann", toolcall.ResponseApprove); !strings.Contains(now.Input, `"cents": 1500`) {
		t.Errorf("the call runs with %s", now.Input)
	}
}

func TestEditChangesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	for _, tc := range []struct{ editor, says string }{
		{"true", "the arguments did not change"},
		{"false", "the editor failed"},
		{"sed -i s/.*/x/", "not a JSON object"},
	} {
		x := w.inbox(100, 24, "VISUAL="+tc.editor, "EDITOR=false")
		x.See("> ")
		x.Press(enter, "A-1042")
		x.Press("e", tc.says, "a approve")
		x.Press(ctrlC)
		x.Ends(cli.ExitInterrupted)
	}
	if now := w.call(c); len(now.Votes) != 0 {
		t.Errorf("votes: %+v", now.Votes)
	}
}

func TestReject(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "A-1042")
	x.Press("r", "Feedback for the model")
	x.Press("too much? \u202e\u200b", "> too much?") // invisible characters of pasted text are dropped
	golden(t, "reject", x.Press(enter, "Reject: pay", "feedback", "y reject"))
	x.Press("y", "rejected by ann (NATS, not authenticated): too")
	if now := w.voted(c, "ann", toolcall.ResponseReject); now.Votes[0].Feedback != "too much?" {
		t.Errorf("feedback %q", now.Votes[0].Feedback)
	}
}

func TestResponseForTool(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "A-1042")
	x.Press("t", "Result for the model")
	x.Press("paid by hand\rticket 17", "paid by hand", "ticket 17")
	x.Press(ctrlS, "result", "y respond")
	x.Press("y", "responded with a result by ann")
	if now := w.voted(c, "ann", toolcall.ResponseRespond); now.Result == nil || now.Result.Output.String() != "paid by hand\nticket 17" {
		t.Errorf("result %+v", now.Result)
	}
}

func TestAnotherSurfaceWins(t *testing.T) {
	w := newWorld(t)
	x := w.inbox(80, 24)
	for _, tc := range []struct {
		name, keys, at string
	}{
		{"detail", "", "why"},
		{"confirm", "a  ", "y approve"},
		{"compose", "r", "Feedback for the model"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := w.pay("call_"+tc.name, 1900)
			x.See("Pay 1900 cents?", "1 open")
			x.Press("G"+enter, "A-1042", "pay  call_"+tc.name)
			x.Press(tc.keys, tc.at)
			w.answer(c, func(resp *toolcall.Response) { resp.Kind, resp.Feedback = toolcall.ResponseReject, "no" })
			screen := x.See("rejected by bob (in process): no", "esc back")
			golden(t, "lost-"+tc.name, screen)
			if strings.Contains(screen, "y approve  Y") || strings.Contains(screen, "a approve") {
				t.Errorf("the screen offers a response that is too late:\n%s", screen)
			}
			x.Press("y" + enter + "a") // none of these keys does anything
			for range strings.Count(tc.keys, "") - 1 - strings.Count(tc.keys, " ") {
				x.Press(esc, "rejected by bob")
			}
			x.Press(esc, "[1 Open") // a finished call is in the list for only a few seconds
			w.voted(c, "bob", toolcall.ResponseReject)
		})
	}
}

func TestAskedAnew(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "A-1042")
	x.Press("a", "These arguments run")
	input := `{"order_id":"A-1042","cents":777}`
	after := w.answer(c, func(resp *toolcall.Response) { resp.Input = &input })
	if after.State != message.ToolCallAsking || after.Digest == c.Digest {
		t.Fatalf("the call does not need approval again: %+v", after)
	}
	x.See("This request changed after you opened it", "Nothing was sent")
	x.Press("  y")
	golden(t, "changed", x.Press(esc, "This request changed after you opened it", "777"))
	x.Press("a", "a approve") // the first key only acknowledges the change
	x.Press("a", "777")
	x.Press("  ", "y approve  Y")
	x.Press("y", "approved by ann")
	now := w.call(c)
	if v := now.Votes[len(now.Votes)-1]; v.By.Name != "ann" || v.Digest != after.Digest || now.Input != input {
		t.Errorf("ann's vote: %+v on %s", v, now.Input)
	}
}

// A request whose line leaves out arguments is approved with others only after it was read.
func TestBulkNeedsReviewOfShortened(t *testing.T) {
	w := newWorld(t)
	long := w.ask("call_1", "soon", `{"command":"`+strings.Repeat("x", 1500)+` && end"}`)
	short := w.ask("call_2", "soon", `{"command":"ls"}`)
	x := w.inbox(80, 24)
	x.See("2 open")
	screen := x.Press("b", "Approve 1 request?", "Exactly these calls run.", "[ ] ", "The line leaves out arguments: to approve it here, press", "y approve 1  r reject 2")
	if strings.Count(screen, "leaves out") != 1 {
		t.Errorf("want one shortened line:\n%s", screen)
	}
	x.Press("g"+enter, "soon  call_1", "space: more")
	x.Press(esc, "Approve 1 request?") // not read to the end
	x.Press(enter, "soon  call_1")
	x.Press("G", "&& end")
	x.Press(esc, "Approve 2 requests?")
	x.Miss("leaves out")
	x.Press("y", "Responses: 2 accepted")
	w.voted(long, "ann", toolcall.ResponseApprove)
	w.voted(short, "ann", toolcall.ResponseApprove)
}

// One confirmation lists the summary of every request. The person can review and exclude each
// request.
func TestBulk(t *testing.T) {
	w := newWorld(t)
	calls := []*toolcall.Call{w.pay("call_1", 1900), w.pay("call_2", 2900), w.pay("call_3", 3900)}
	boss := w.ask("call_4", "boss", `{}`)
	x := w.inbox(80, 18)
	x.See("4 open")
	x.Press("b", "Approve 3 requests?", "Pay 1900 cents?", "Pay 2900 cents?", "Pay 3900 cents?")
	x.Press("j"+enter, "A-1042", "2900", "pay  call_2") // a review
	x.Press(esc, "Approve 3 requests?")
	golden(t, "bulk", x.Press(" ", "Approve 2 requests?", "[ ] Pay 2900", "y approve 2"))
	if now := w.call(calls[0]); len(now.Votes) != 0 {
		t.Fatal("a response was sent before it was confirmed")
	}
	golden(t, "bulk-done", x.Press("y", "call_1", "call_3", "Responses: 2 accepted, 0 not accepted"))
	x.Press(enter, "Pay 2900 cents?", "2 open")
	w.voted(calls[0], "ann", toolcall.ResponseApprove)
	w.voted(calls[2], "ann", toolcall.ResponseApprove)
	for _, c := range []*toolcall.Call{calls[1], boss} {
		if now := w.call(c); len(now.Votes) != 0 {
			t.Errorf("%s has votes: %+v", c.Call, now.Votes)
		}
	}
}

func TestBulkRejectOfSelected(t *testing.T) {
	w := newWorld(t)
	a, b := w.pay("call_1", 1900), w.ask("call_2", "soon", `{"x":1}`)
	x := w.inbox(80, 40)
	x.See("2 open", "soon", "pay")
	x.Press("*", "2 selected")
	x.Press("b", "Approve 2 requests?", "y approve 2")
	w.answer(a, func(*toolcall.Response) {}) // another person answers one of them in the meantime
	x.See("Approve 1 request?", "Not included: Decided meanwhile: approved by bob")
	x.Press("r", "Feedback for the model")
	x.Press("later"+enter, "rejected, the call is finished", "Responses: 1 accepted")
	w.voted(a, "bob", toolcall.ResponseApprove)
	w.voted(b, "ann", toolcall.ResponseReject)
}

func TestFilter(t *testing.T) {
	w := newWorld(t)
	w.pay("call_1", 1900)
	w.ask("call_2", "soon", `{"where":"Berlin"}`)
	w.ask("call_3", "boss", `{}`)
	x := w.inbox(80, 24)
	x.See("Pay 1900", "soon", "boss", "[1 Open 3]")
	x.Press("/", "filter:", "enter apply")
	x.Press("berlin so", "filter: berlin so", "[1 Open 1]")
	x.Miss("Pay 1900")
	golden(t, "filter", x.Press(enter, "> ", "soon", "1 of 1", "q quit"))
	x.Press(esc, "Pay 1900", "boss", "[1 Open 3]")
	x.Press("m", "mine only", "[1 Open 2]")
	x.Miss("boss")
	x.Press("/nothing", "Nothing matches")
}

func TestHostileText(t *testing.T) {
	w := newWorld(t)
	evil := "\\u001b]0;pwned\\u0007\\u001b[2J\\u001b[1;1HAPPROVED\\r\\u009b31m\u202e\u2066\\u200b"
	w.ask("call\x1b[2J\u202e", "pay", `{"cents":1900,"p`+"\u0430"+`ypal":"`+evil+`"}`)
	x := w.inbox(80, 40)
	x.See("Pay 1900 cents?")
	golden(t, "hostile", x.Press(enter, "esc back", "p‹U+0430›ypal", "‹U+001B›]0;pwned", "‹U+202E›", "‹U+009B›31m"))
	x.Press("x", "arguments, raw", `\u001b]0;pwned`)
	x.Press("a", "These arguments run")
	raw := x.Raw()
	for _, bad := range []string{"\x1b]0;", "\x1b[2JAPPROVED", "\u202e", "\u2066", "\u200b", "\u009b", "\u0430"} {
		if strings.Contains(raw, bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
}

func TestSizes(t *testing.T) {
	w := newWorld(t)
	w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Resize(30, 8)
	golden(t, "too-small", x.See("30x8 is too small", "40x10"))
	x.Resize(40, 10)
	golden(t, "smallest", x.See("Pay 1900", "1 open"))
	x.Press(enter, "proposed")
	x.Resize(140, 50)
	x.See("why", "A-1042", "digest")
	x.Resize(80, 24)
	x.Press("?", "LISTS")
	golden(t, "help", x.See("Keys", "space: more"))
	x.Press(esc, "proposed")
	x.Resize(20, 4)
	x.See("20x4")
	x.Press("q")
	x.Ends(cli.ExitOK)
}

func TestEngineGoesAndComesBack(t *testing.T) {
	t.Parallel() // the test waits for seconds
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("Pay 1900", "1 open")
	w.restart(func() { x.See("no connection for", "retrying", "Pay 1900") })
	x.See("1 open")
	w.pay("call_2", 2900)
	x.See("Pay 2900", "2 open")
	w.answer(c, func(*toolcall.Response) {})
	x.See("approved by bob", "1 open")
}

// A shell can stop the inbox and continue it. Where there is none, the inbox goes on.
func TestSuspend(t *testing.T) {
	w := newWorld(t)
	w.pay("call_1", 1900)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-mc", `"$@"; read -p suspended; fg; exit 0`, "bash", exe, "inbox", "--nats", w.url, "--as", "ann", "--log-level", "error")
	x := termtest.Open(t, 80, 24, cmd)
	x.See("Pay 1900", "1 open")
	x.Press(ctrlZ, "suspended")
	w.pay("call_2", 2900)
	x.Press(enter, "Pay 2900", "2 open")
	x.Until("the mouse works again", func(string) bool { return strings.HasSuffix(lastMouse(x.Raw()), "h") })
	x.Press("q")
	x.Ends(0)

	x = w.inbox(80, 24)
	x.See("2 open")
	x.Press(ctrlZ, "No shell can continue the inbox here.")
	x.Press("q")
	x.Ends(cli.ExitOK)
}

var colour = regexp.MustCompile(`\x1b\[(3[0-7]|9[0-7]|38;[0-9;]*|1)m`)

func TestNoColour(t *testing.T) {
	w := newWorld(t)
	w.pay("call_1", 1900)
	for _, tc := range []struct {
		env  string
		want bool
	}{{"NO_COLOR=1", false}, {"COLORTERM=", true}} {
		x := w.inbox(80, 24, tc.env)
		x.See("> ")
		x.Press(enter, "A-1042")
		if got := colour.MatchString(x.Raw()); got != tc.want {
			t.Errorf("%s: colours %v, want %v", tc.env, got, tc.want)
		}
		x.Press(ctrlC)
		x.Ends(cli.ExitInterrupted)
		if raw := x.Raw(); strings.Contains(raw, "\x1b[?1049h") && !strings.Contains(raw, "\x1b[?1049l") {
			t.Error("the terminal was not restored")
		}
	}
}

// Between two changes only the difference is sent, without clearing or repainting the screen.
func TestNoFlicker(t *testing.T) {
	w := newWorld(t)
	w.pay("call_1", 1900)
	x := w.inbox(80, 24)
	x.See("> ")
	before := len(x.Raw())
	w.pay("call_2", 2900)
	x.See("Pay 2900", "2 open")
	sent := x.Raw()[before:]
	if strings.Contains(sent, "\x1b[2J") || strings.Contains(sent, "\x1b[H\x1b[J") {
		t.Errorf("the screen is cleared for one new line: %q", sent)
	}
	if n := strings.Count(sent, "askance inbox"); n > 4 {
		t.Errorf("the title was sent %d times", n)
	}
}

func TestNoEngine(t *testing.T) {
	x := open(t, 200, 24, nil, "inbox", "--data", t.TempDir(), "--as", "ann")
	x.See("no server runs on", "askance serve")
	x.Ends(cli.ExitUnavailable)
}

// If the terminal cannot draw, the inbox names the commands to use instead.
func TestDumbTerminal(t *testing.T) {
	w := newWorld(t)
	x := w.inbox(200, 24, "TERM=dumb")
	x.See("cannot draw screens", "askance list", "askance approve")
	x.Ends(cli.ExitUsage)
}

// Prompts work as plain lines on a terminal that cannot move its cursor.
func TestPromptOnDumbTerminal(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := open(t, 100, 40, []string{"TERM=dumb"}, "approve", "call_1", "--nats", w.url, "--as", "ann")
	x.See("Pay 1900 cents?", "[y/N]")
	x.Press("y" + enter)
	x.Ends(cli.ExitOK)
	w.voted(c, "ann", toolcall.ResponseApprove)
	if strings.Contains(x.Raw(), "\x1b[") {
		t.Errorf("a terminal without escape sequences received some: %q", x.Raw())
	}
}

// ctrl+c at a prompt sends nothing and ends the program as a signal does.
func TestInterruptedPrompt(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	for _, kind := range []string{"xterm", "dumb"} {
		x := open(t, 100, 40, []string{"TERM=" + kind}, "approve", "call_1", "--nats", w.url, "--as", "ann")
		x.See("Approve pay call_1")
		x.Press(ctrlC)
		x.Ends(cli.ExitInterrupted)
	}
	if now := w.call(c); len(now.Votes) != 0 {
		t.Errorf("votes: %+v", now.Votes)
	}
}
