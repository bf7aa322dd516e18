package mcp

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fixed is a wire to a server that answers each request with the same lines.
type fixed struct {
	l     *link
	lines []string
}

func (w *fixed) send(_ context.Context, f *frame, of *waiting) error {
	for _, line := range w.lines {
		if of == nil {
			return nil // a notification
		}
		if got, _ := readMessage([]byte(strings.ReplaceAll(line, "ID", string(f.id)))); got != nil {
			w.l.receive(got, nil)
		}
	}
	return nil
}

func (w *fixed) close() {}

func linkTo(lines ...string) *link {
	l := &link{up: &Upstream{}, log: slog.New(slog.DiscardHandler), pending: map[string]*waiting{}}
	l.wire = &fixed{l, lines}
	return l
}

// A request ends with the response that has its id, or with an error once the server sends what answers
// no request. What is not a response, or answers an earlier request, ends nothing.
func TestWrongResponses(t *testing.T) {
	t.Parallel()
	const own = `{"jsonrpc":"2.0","id":ID,"result":{}}`
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":999,"result":{}}`:                                      "the id 999, which is not that of the request",
		`{"jsonrpc":"2.0","id":"ID","result":{}}`:                                     `the id "3", which is not that of the request`,
		`{"jsonrpc":"2.0","id":ID.0,"result":{}}`:                                     "the id 3.0, which",
		`{"jsonrpc":"2.0","id":-1,"result":{}}`:                                       "the id -1, which",
		`{"jsonrpc":"2.0","id":99999999999999999999,"result":{}}`:                     "the id 99999999999999999999, which",
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                     "the id null, which",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`: "Parse error",
		`{"jsonrpc":"2.0","id":{},"result":{}}`:                                       "the id null, which",
		`{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}`:                               "its message cannot be read",
		`{"jsonrpc":"2.0","id":ID,"result":`:                                          "its message cannot be read",
		`[` + own + `]`:                                                               "it is a batch",
		`[{"jsonrpc":"2.0","method":"notifications/progress"},` + own + `]`:           "it is a batch",
		`[{"jsonrpc":"2.0","method":"notifications/progress"}]`:                       "",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{`:               "",
		`[DEBUG] sent {"jsonrpc":"2.0","id":ID,"result":{}}`:                          "",
		`DEBUG {"jsonrpc":"2.0","id":ID,"result":{}}`:                                 "",
		`[]`: "",
		own:  "",
		`{"jsonrpc":"2.0","id":1,"result":{"late":true}}`:                  "",
		`[INFO] {"level":"info","msg":"a line of a log"}`:                  "",
		`{"jsonrpc":"2.0","method":"notifications/progress","method":"x"}`: "",
		`{"jsonrpc":"2.0","id":{},"method":"ping","method":"ping"}`:        "",
	} {
		l := linkTo(line, own)
		l.next = 2 // earlier requests
		result, err := l.call(t.Context(), "tools/call", nil, nil)
		switch {
		case want == "" && (err != nil || string(result) != "{}"):
			t.Errorf("%s: %s, %v", line, result, err)
		case want != "" && (!errors.Is(err, errLost) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", line, err, want)
		}
		if _, is := errors.AsType[*rpcError](err); is {
			t.Errorf("%s counts as the answer of the server: %v", line, err)
		}
	}
}

// Some servers answer a notification, which ends no request.
func TestResponseToANotification(t *testing.T) {
	t.Parallel()
	l := linkTo(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`, `{"jsonrpc":"2.0","id":ID,"result":{}}`)
	if err := l.notify(t.Context(), "notifications/initialized", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := l.call(t.Context(), "tools/list", nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := l.call(t.Context(), "tools/list", nil, nil); !errors.Is(err, errLost) {
		t.Errorf("a second response to one notification: %v", err)
	}
}

// A call does not wait for ever for a server that does not list its tools.
func TestSilentList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if _, err := linkTo().findTool(t.Context(), "lookup", true); !errors.Is(err, errSlow) || time.Since(begun) != connectTime {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}

// Clients see no tool whose name looks like that of another one.
func TestNamesThatLookAlike(t *testing.T) {
	t.Parallel()
	var tools []string
	for _, name := range []string{"lookup", "lookup", `look\u200bup`, `lookup\u202e`, `lookup\u0000`, `lookup\n`, `\ufefflookup`, "", "browse"} {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	list, err := linkTo(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[`+strings.Join(tools, ",")+`]}}`).readTools(t.Context(), true)
	if err != nil || len(list.tools) != 2 || list.tools[0].name != "lookup" || list.tools[1].name != "browse" {
		t.Errorf("%+v, %v", list, err)
	}
}
