package gatewaytest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Cut sends POST requests whose bodies are incomplete, in every way that HTTP/1.1 allows. It
// fails the test if one is accepted. header is a line with credentials.
func (w *World) Cut(header, path, kind, body string) {
	w.t.Helper()
	half, n := body[:len(body)/2], len(body)
	for what, rest := range map[string]string{
		"no byte of the length":         fmt.Sprintf("Content-Length: %d\r\n\r\n", n),
		"half of the length":            fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, half),
		"all but one byte":              fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n+1, body),
		"no chunk":                      "Transfer-Encoding: chunked\r\n\r\n",
		"half a chunk":                  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", n, half),
		"all chunks but not their end":  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", n, body),
		"half the line after the chunk": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0", n, body),
	} {
		c := w.Dial()
		_ = c.SetDeadline(time.Now().Add(Patience)) // a connection that has none fails below
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Type: %s\r\n%s", path, strings.TrimPrefix(w.URL, "http://"), header, kind, rest); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		if half, ok := c.(*net.TCPConn); !ok || half.CloseWrite() != nil {
			w.t.Fatalf("%s: the connection cannot be closed in one direction", what)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			continue // the server closed the connection without a response
		}
		_ = res.Body.Close() // only the status matters
		if res.StatusCode < 400 {
			w.t.Errorf("POST %s with %s of its body: %s, want a refusal", path, what, res.Status)
		}
	}
}
