package blocks_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
)

// TestCommandThatBreaksOff: a command whose last frame never arrives does nothing, even if the
// earlier frames contain all of its JSON.
func TestCommandThatBreaksOff(t *testing.T) {
	s := newStage(t, blocks.Config{})
	b, err := blocktest.EncodeCommand(&blockstream.Chat{Session: "s1", Text: "say hi"})
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 125 {
		t.Fatalf("%d bytes do not fit into a short frame", len(b))
	}
	const text, last, masked = 0x1, 0x80, 0x80
	mask := []byte{0, 0, 0, 0}
	for name, tc := range map[string]struct {
		head   byte
		length int
		begins bool
	}{
		"no last frame": {text, len(b), false},
		"half a frame":  {text | last, len(b) + 1, false},
		"whole":         {text | last, len(b), true},
	} {
		c := s.Dial()
		if err := c.SetDeadline(time.Now().Add(gatewaytest.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			blocks.Path, strings.TrimPrefix(s.URL, "http://"), s.A.Token(gatewaytest.Everything)); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %v %v", name, res, err)
		}
		if _, err := c.Write(append(append([]byte{tc.head, masked | byte(tc.length)}, mask...), b...)); err != nil {
			t.Fatal(err)
		}
		if tc.begins { // the client reads an answer to the command, then leaves
			untilSession(t, in)
			continue
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(in) // until the server closes the connection
		if strings.Contains(string(said), `"s1"`) {
			t.Errorf("%s: the server answered a command: %q", name, said)
		}
	}
}

// untilSession reads until a frame contains the session of the command.
func untilSession(t *testing.T, in *bufio.Reader) {
	t.Helper()
	var said strings.Builder
	for !strings.Contains(said.String(), `"s1"`) {
		b, err := in.ReadByte()
		if err != nil {
			t.Fatalf("the complete command was not answered: %v, %q", err, said.String())
		}
		said.WriteByte(b)
	}
}
