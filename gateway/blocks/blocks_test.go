package blocks_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// TestTurn covers a turn with an approval request.
func TestTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: "think hm\nsay I pay.\n" + payLine + "\nsay done"})
	if start := wait[*blockstream.MessageStart](c); start.Session != "s1" {
		t.Errorf("the turn begins as %+v", start)
	}
	block[*blockstream.Thinking](c)
	block[*blockstream.Text](c)
	ask := block[*blockstream.ApprovalRequest](c)
	if len(ask.Actions) != 1 || ask.Actions[0].Name != gatewaytest.Pay || !strings.Contains(string(ask.Actions[0].Args), "acme") {
		t.Errorf("the card is %+v", ask)
	}
	if _, ok := c.next().(*blockstream.BlockDelta); !ok {
		t.Error("the card has no delta")
	}
	if _, ok := c.next().(*blockstream.BlockStop); !ok {
		t.Error("the card is not closed at once: a published client does not show it")
	}
	c.send(decide(ask.ApprovalKey, yes))
	result := wait[*blockstream.BlockDelta](c)
	for {
		if d, ok := result.Delta.(*blockstream.DecisionsDelta); ok {
			if d.Decisions[0].DecidedBy != gatewaytest.Everything || d.Decisions[0].Type != blockstream.DecisionApprove {
				t.Errorf("decided as %+v", d)
			}
			break
		}
		result = wait[*blockstream.BlockDelta](c)
	}
	if r := block[*blockstream.ToolResult](c); r.Status != blockstream.ResultSuccess {
		t.Errorf("the result is %+v", r)
	}
	wait[*blockstream.MessageStop](c)
	if call := finished(s, "s1"); call.Votes[0].By.Name != gatewaytest.Everything || call.Votes[0].By.Auth != gatewaytest.AuthToken {
		t.Errorf("the vote is %+v", call.Votes)
	}
	c.send(decide(ask.ApprovalKey, yes))
	c.refused(blockstream.CodeApprovalResolved)
}

// TestCardShowsTheProposal: a card shows the call that its digest names, not what was streamed.
func TestCardShowsTheProposal(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	s.A.Say("s1", "r1", &message.ReplyStart{Session: "s1", Name: "bot", Role: message.RoleAssistant},
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: "read_note"}, &message.ToolCallDelta{ToolCallID: "c1", Delta: "{}"}, &message.ToolCallEnd{ToolCallID: "c1"},
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Echo})
	s.A.Ask("s1", "r1", "c1")
	s.A.Say("s1", "r1", &message.ToolCallDelta{ToolCallID: "c1", Delta: "more"})
	c := s.me("")
	c.send(&blockstream.Subscribe{Session: "s1"})
	if ask := block[*blockstream.ApprovalRequest](c); len(ask.Actions) != 1 || ask.Actions[0].Name != gatewaytest.Pay || string(ask.Actions[0].Args) != gatewaytest.PayInput {
		t.Errorf("the card is %+v", ask)
	}
}

// TestDecisions edits, rejects and responds in place of the tool.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	for session, row := range map[message.SessionID]struct {
		d    blockstream.Decision
		want func(*toolcall.Call) bool
	}{
		"edit": {
			blockstream.Decision{Type: blockstream.DecisionEdit, Edited: &blockstream.EditedAction{Args: message.RawJSON(`{"to":"acme","amount":9}`)}},
			func(c *toolcall.Call) bool {
				return strings.Contains(c.Input, "9") && c.Result.State == message.ToolResultSuccess
			},
		},
		"reject": {
			blockstream.Decision{Type: blockstream.DecisionReject, Message: "too much"},
			func(c *toolcall.Call) bool {
				return c.Result.State == message.ToolResultDenied && strings.Contains(c.Result.Output.Text+text(c), "too much")
			},
		},
		"respond": {
			blockstream.Decision{Type: blockstream.DecisionRespond, Message: "paid by hand"},
			func(c *toolcall.Call) bool { return strings.Contains(c.Result.Output.Text+text(c), "paid by hand") },
		},
	} {
		c := s.me("")
		c.send(&blockstream.Chat{Session: session, Text: payLine})
		ask := block[*blockstream.ApprovalRequest](c)
		c.send(decide("", row.d)) // only one request is open, so no key is needed
		wait[*blockstream.MessageStop](c)
		if call := finished(s, session); !row.want(call) {
			t.Errorf("%s of %s: the call is %+v %+v", row.d.Type, ask.ApprovalKey, call, call.Result)
		}
	}
}

func text(c *toolcall.Call) string {
	var out strings.Builder
	for _, b := range c.Result.Output.Blocks {
		if b, ok := b.(*message.TextBlock); ok {
			out.WriteString(b.Text)
		}
	}
	return out.String()
}

// TestReconnect disconnects and returns at every frame of a turn with an approval request.
func TestReconnect(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: "say I pay.\n" + payLine + "\nsay done"})
	ask := block[*blockstream.ApprovalRequest](c)
	ids := []string{"", "nonsense"}
	for range 2 {
		c.next()
		ids = append(ids, c.last)
	}
	key := ask.ApprovalKey
	// The approval request is shown to every client, no matter how it connects.
	for _, id := range ids {
		d := s.me("")
		d.send(&blockstream.Subscribe{Session: "s1", LastEventID: id})
		if sub := wait[*blockstream.Subscribed](d); sub.Status != blockstream.StatusRunning {
			t.Errorf("subscribed as %+v", sub)
		}
		d.resumed = strings.HasPrefix(id, "0")
		if again := block[*blockstream.ApprovalRequest](d); again.ApprovalKey != key {
			t.Errorf("shown again as %s, first as %s", again.ApprovalKey, key)
		}
	}
	// Answer after a restart of the engine, as another person, with the old key.
	s.A.Restart()
	d := s.dial(s.A.Token(gatewaytest.Ann), "")
	wait[*blockstream.Connected](d)
	d.send(&blockstream.Subscribe{Session: "s1"})
	if again := block[*blockstream.ApprovalRequest](d); again.ApprovalKey != key {
		t.Errorf("shown again as %s, first as %s", again.ApprovalKey, key)
	}
	d.send(decide(key, yes))
	wait[*blockstream.MessageStop](d)
	wait[*blockstream.MessageStop](c)
	if d.last != c.last {
		t.Errorf("one is at %s, the other at %s", d.last, c.last)
	}
	// No client is shown a card of a resolved request.
	e := s.me("")
	e.send(&blockstream.Subscribe{Session: "s1"})
	if sub := wait[*blockstream.Subscribed](e); sub.Status != blockstream.StatusCompleted {
		t.Errorf("subscribed as %+v", sub)
	}
	for {
		f := e.next()
		if start, ok := f.(*blockstream.BlockStart); ok && blockstream.BlockTypeOf(start.Block) == blockstream.BlockApprovalRequest {
			t.Error("a resolved card is shown")
		}
		if blockstream.FrameTypeOf(f) == blockstream.FrameMessageStop {
			break
		}
	}
	e.send(&blockstream.Subscribe{Session: "s1", LastEventID: c.last})
	wait[*blockstream.Subscribed](e)
	e.send(&blockstream.PingCommand{})
	if f := e.next(); blockstream.FrameTypeOf(f) != blockstream.FramePong {
		t.Errorf("the frame after the last one is %s", blockstream.FrameTypeOf(f))
	}
}

// TestAuth tries every way to authenticate.
func TestAuth(t *testing.T) {
	t.Parallel()
	inBubble(t, blocks.Config{AuthWithin: 300 * time.Millisecond}, auth)
}

func auth(t *testing.T, s *stage) {
	c := s.dial("", "")
	wait[*blockstream.Connected](c)
	c.send(&blockstream.Subscribe{Session: "s1"})
	c.refused(blockstream.CodeUnauthenticated)
	c.send(&blockstream.Auth{Token: s.A.Token(gatewaytest.Ann)})
	wait[*blockstream.AuthOK](c)
	c.send(&blockstream.Auth{Token: s.A.Token(gatewaytest.Ann)})
	wait[*blockstream.AuthOK](c)
	c.send(&blockstream.Chat{Session: "s1", Text: "say hi"})
	c.refused(blockstream.CodeForbidden)

	// A socket has one identity, and never says that another token is good.
	for _, token := range []string{"wrong", s.A.Token(gatewaytest.Bob), s.A.Token(gatewaytest.Robot)} {
		c = s.dial(s.A.Token(gatewaytest.Ann), "")
		c.send(&blockstream.Auth{Token: token})
		c.refused(blockstream.CodeUnauthenticated)
		if code := c.closed(); code != blockstream.CloseUnauthenticated {
			t.Errorf("another token ends with %d", code)
		}
	}

	c = s.dial("", "")
	c.send(&blockstream.Auth{Token: "wrong"})
	c.refused(blockstream.CodeUnauthenticated)
	if code := c.closed(); code != blockstream.CloseUnauthenticated {
		t.Errorf("a wrong token ends with %d", code)
	}
	c = s.dial("", "")
	if code := c.closed(); code != blockstream.CloseUnauthenticated {
		t.Errorf("no token in time ends with %d", code)
	}
	if _, res, err := s.try("wrong", ""); err == nil || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		t.Errorf("a wrong token in the header: %v %v", res, err)
	}
	if _, res, err := s.try(s.A.Token(gatewaytest.Wendy), ""); err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a worker: %v %v", res, err)
	}
	// Runtimes see only their own sessions, and no principal sees sessions of another space.
	s.A.Ask("s1", "r1", "c1")
	c = s.dial(s.A.Token(gatewaytest.Robot), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	c.refused(blockstream.CodeForbidden)
	c = s.dial(s.B.Token(gatewaytest.Ann), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	if sub := wait[*blockstream.Subscribed](c); sub.Status != blockstream.StatusCompleted {
		t.Errorf("the other space's session is %+v", sub)
	}
	// A runtime without the role cannot approve.
	c = s.dial(s.A.Token(gatewaytest.Bot), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	ask := block[*blockstream.ApprovalRequest](c)
	c.send(decide(ask.ApprovalKey, yes))
	c.refused(blockstream.CodeForbidden)
}

// TestRace has two people answer; one edits before the other answers.
func TestRace(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	k := s.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"version":"1"}`).Key
	ann := s.dial(s.A.Token(gatewaytest.Ann), "")
	ann.send(&blockstream.Subscribe{Session: "s1"})
	old := block[*blockstream.ApprovalRequest](ann)
	input := `{"version":"2"}`
	s.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Input: &input})
	ann.send(decide(old.ApprovalKey, yes))
	if e := wait[*blockstream.Error](ann); e.Code != blockstream.CodeApprovalChanged && e.Code != blockstream.CodeApprovalResolved {
		t.Errorf("an answer to the old approval request: %+v", e)
	}
	if c := s.A.Show(k); c.State != message.ToolCallAsking {
		t.Fatalf("the call is %s", c.State)
	}
	fresh := s.dial(s.A.Token(gatewaytest.Ann), "")
	fresh.send(&blockstream.Subscribe{Session: "s1"})
	now := block[*blockstream.ApprovalRequest](fresh)
	fresh.send(decide(now.ApprovalKey, yes))
	if c := s.A.Finished(k); c.Input != input {
		t.Errorf("the call ran with %s", c.Input)
	}
}

// TestStop interrupts a turn.
func TestStop(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Stop{})
	c.refused(blockstream.CodeNotFound)
	c.send(&blockstream.Chat{Session: "s1", Text: payLine})
	block[*blockstream.ApprovalRequest](c)
	c.send(&blockstream.Chat{Session: "s1", Text: "say more"})
	if e := wait[*blockstream.Error](c); e.Message == "" {
		t.Error("a message during an open turn is accepted")
	}
	for _, other := range []*blockstream.Stop{{Session: "s2"}, {MessageID: "r2"}, {Session: "s2", MessageID: "r2"}} {
		c.send(other)
		c.refused(blockstream.CodeNotFound)
		s.opened("s1")
	}
	c.send(&blockstream.Stop{Session: "s1"})
	for {
		d, ok := c.next().(*blockstream.BlockDelta)
		if !ok {
			continue
		}
		if txt, ok := d.Delta.(*blockstream.TextDelta); ok && txt.Extras != nil && txt.Extras.Subtype == blockstream.SubtypeUserStopped {
			break
		}
	}
	wait[*blockstream.MessageStop](c)
}

// TestFiles: a turn with files begins with the files, for every client.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("?agent=bot&display_mode=chat")
	c.send(&blockstream.Chat{Text: "say seen", ContentURLs: []string{"https://files.example/a.png"}})
	start := wait[*blockstream.MessageStart](c)
	if f := block[*blockstream.FileProcessing](c); len(f.Files) != 1 || f.Files[0].URL != "https://files.example/a.png" {
		t.Errorf("the files are %+v", f)
	}
	wait[*blockstream.MessageStop](c)
	d := s.me("")
	d.send(&blockstream.Subscribe{Session: start.Session})
	block[*blockstream.FileProcessing](d)
	c.send(&blockstream.Chat{Text: "say no", ContentURLs: []string{"not a url"}})
	c.refused(blockstream.CodeInvalidCommand)
}

// TestEnds closes connections for each reason.
func TestEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, blocks.Config{Heartbeat: 200 * time.Millisecond}, ends)
}

func ends(t *testing.T, s *stage) {
	c := s.me("")
	c.raw(websocket.MessageBinary, []byte("{}"))
	if code := c.closed(); code != blockstream.CloseUnsupported {
		t.Errorf("a binary frame ends with %d", code)
	}
	c = s.me("")
	c.raw(websocket.MessageText, []byte(`{"type":"chat","message":"`+strings.Repeat("x", blockstream.MaxCommandBytes)+`"}`))
	if code := c.closed(); code != blockstream.CloseTooBig {
		t.Errorf("a long command ends with %d", code)
	}
	if code := s.silent(); code != blockstream.CloseHeartbeat {
		t.Errorf("silence ends with %d", code)
	}
	pings := make(chan struct{}, 100) // a client that answers pings stays connected
	c = s.dial(s.A.Token(gatewaytest.Everything), "", func(o *websocket.DialOptions) {
		o.OnPingReceived = func(context.Context, []byte) bool { pings <- struct{}{}; return true }
	})
	go func() {
		for range 4 {
			<-pings
		}
		c.send(&blockstream.PingCommand{})
	}()
	wait[*blockstream.Pong](c)
	for _, bad := range []string{``, `x`, `[]`, `{"type":"dance"}`, `{"type":"approval","decisions":["approve"],"by":"ann"}`, `{"type":"approval","decisions":[]}`} {
		c.raw(websocket.MessageText, []byte(bad))
		if e := wait[*blockstream.Error](c); e.Message == "" {
			t.Errorf("%s: %+v", bad, e)
		}
	}
	go s.Gateway.Close()
	if code := c.closed(); code != blockstream.CloseGoingAway {
		t.Errorf("the end of the server ends with %d", code)
	}
}

// A client without credentials cannot make the server keep large commands.
func TestCommandsOfStrangers(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	long := []byte(`{"type":"chat","session_id":"s1","message":"say ` + strings.Repeat("x", 100<<10) + `"}`)
	c := s.dial("", "")
	c.raw(websocket.MessageText, long)
	if code := c.closed(); code != blockstream.CloseTooBig {
		t.Errorf("a long command without credentials ends with %d", code)
	}
	c = s.dial("", "")
	c.send(&blockstream.Auth{Token: s.A.Token(gatewaytest.Everything)})
	c.raw(websocket.MessageText, long) // without waiting for auth_ok
	if start := wait[*blockstream.MessageStart](c); start.Session != "s1" {
		t.Errorf("the turn begins as %+v", start)
	}
}

// silent is a client that reads and never answers a ping. It returns the code with which the
// server closes the socket.
func (s *stage) silent() websocket.StatusCode {
	s.t.Helper()
	conn := s.Dial()
	_, err := io.WriteString(conn, "GET "+blocks.Path+" HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer "+s.A.Token(gatewaytest.Ann)+"\r\n\r\n")
	if err != nil {
		s.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("upgrade: %v %v", res, err)
	}
	res.Body.Close()
	for {
		head := make([]byte, 2) // no frame of this test is longer than 125 bytes
		if _, err := io.ReadFull(in, head); err != nil {
			s.t.Fatal(err)
		}
		body := make([]byte, head[1])
		if _, err := io.ReadFull(in, body); err != nil {
			s.t.Fatal(err)
		}
		if head[0]&0x0f == 8 {
			return websocket.StatusCode(binary.BigEndian.Uint16(body))
		}
	}
}

// TestPlainHTTP sends plain HTTP requests instead of a WebSocket.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	for query, want := range map[string]string{"": "this is a WebSocket", "?display_mode=loud": `display_mode is \"loud\"`} {
		res, err := s.A.HTTP(gatewaytest.Ann).Get(s.URL + blocks.Path + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%q: %d %s, %v, want %s", query, res.StatusCode, body, err, want)
		}
	}
}

// TestExpiry lets an approval request expire. Every client is told, and the request can no longer
// be answered.
func TestExpiry(t *testing.T) {
	t.Parallel()
	inBubble(t, blocks.Config{}, expiry, gatewaytest.Policy("version: 1\nname: world\nrules:\n  - {name: soon, tool: pay, behavior: ask, expiry: 1s, on_expiry: deny}\n"))
}

func expiry(t *testing.T, s *stage) {
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: payLine})
	ask := block[*blockstream.ApprovalRequest](c)
	for {
		d, ok := c.next().(*blockstream.BlockDelta)
		if !ok {
			continue
		}
		if r, ok := d.Delta.(*blockstream.DecisionsDelta); ok {
			if r.Decisions[0].Type != blockstream.DecisionReject {
				t.Errorf("after expiry the approval is %+v", r.Decisions)
			}
			break
		}
	}
	if r := block[*blockstream.ToolResult](c); r.Status != blockstream.ResultError {
		t.Errorf("after expiry the result is %+v", r)
	}
	c.send(decide(ask.ApprovalKey, yes))
	if e := wait[*blockstream.Error](c); e.Code != blockstream.CodeApprovalExpired && e.Code != blockstream.CodeApprovalResolved {
		t.Errorf("an answer that comes too late: %+v", e)
	}
}

// TestFailure: an agent's error is shown as a terminal block, and the turn ends.
func TestFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: "say hi\nfail rate_limit the model is busy"})
	for {
		d, ok := c.next().(*blockstream.BlockDelta)
		if !ok {
			continue
		}
		if txt, ok := d.Delta.(*blockstream.TextDelta); ok && txt.Extras != nil && txt.Extras.Subtype == blockstream.SubtypeError {
			break
		}
	}
	wait[*blockstream.MessageStop](c)
}

// TestLongResult: a long result is shortened on this surface and complete in the journal.
func TestLongResult(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	long := strings.Repeat("é", 2000)
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: `call echo {"text":"` + long + `"}`})
	r := block[*blockstream.ToolResult](c)
	if n := len([]rune(r.Content)); n != blockstream.MaxContent {
		t.Errorf("the result has %d characters", n)
	}
	wait[*blockstream.MessageStop](c)
	if call := finished(s, "s1"); !strings.Contains(call.Result.Output.Text+text(call), long) {
		t.Error("the whole output is not kept")
	}
}
