package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// serverArg makes the test binary an MCP server on standard input and output. The next argument
// names the file to which it adds a line for each run of a tool.
const serverArg = "mcp-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == serverArg {
		serverMain(os.Args[2], os.Args[3])
		return
	}
	gatewaytest.Main(m)
}

// serverMain speaks one era, as far as the tests need it.
func serverMain(era, ran string) {
	if _, err := os.Stat(ran + ".gone"); err == nil {
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	lines.Split(func(data []byte, end bool) (int, []byte, error) { // like text in Python: a carriage return also ends a line
		if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
			return i + 1, data[:i], nil
		}
		return bufio.ScanLines(data, end)
	})
	out := bufio.NewWriter(os.Stdout)
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...) // if the gateway is gone, standard input ends
		_ = out.Flush()
	}
	note := func(text string) {
		f, err := os.OpenFile(ran, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, text)
		}
		if err != nil {
			panic(err)
		}
		_ = f.Close() // what was written stays
	}
	answered := 0
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
			Params struct {
				Name, RequestState string
				Arguments          json.RawMessage
				InputResponses     json.RawMessage
				Meta               map[string]json.RawMessage `json:"_meta"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			continue // as servers do with an invalid line
		}
		result := func(text string) { say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text) }
		switch {
		case m.Method == "notifications/cancelled":
			note("cancelled")
		case m.ID == nil:
		case m.Method == "" && strings.Contains(string(m.ID), " "):
			if answered++; answered == 2 {
				id, _, _ := strings.Cut(strings.Trim(string(m.ID), `"`), " ")
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"both"}]}}`, id)
			}
		case m.Method == "": // the response to a request of this server
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, strings.Trim(string(m.ID), `"`), string(m.Result)+string(m.Error))
		case m.Method == "initialize" && era == "legacy":
			result(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fixture","version":"1"},"instructions":"be kind"}`)
		case m.Method == "server/discover" && era == "modern":
			result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"instructions":"be kind","ttlMs":0,"cacheScope":"public"}`)
		case m.Method == "tools/list":
			_, notDeaf := os.Stat(ran + ".deaf")
			extra := ""
			if _, err := os.Stat(ran + ".changed"); err == nil {
				extra = `,"description":"now it does something else"`
			}
			result(`{"tools":[{"name":"lookup","inputSchema":{"type":"object"},"big":9007199254740993},{"name":"browse","inputSchema":{"type":"object"},` +
				`"outputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}` + extra + `}],"ttlMs":0,"cacheScope":"public"}`)
			if notDeaf == nil {
				if _, err := os.Stdin.Read(make([]byte, 1)); err == nil { // the next message arrives, and nothing reads it
					note("deaf")
					time.Sleep(time.Hour) // until the gateway kills it
				}
			}
		case m.Method == "tools/call":
			note(m.Params.Name + " " + string(m.Params.Arguments))
			switch arguments := string(m.Params.Arguments); {
			case strings.Contains(arguments, "hang"):
			case strings.Contains(arguments, "unreadable"):
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"result":{"content":[]}}`, m.ID)
			case strings.Contains(arguments, "stranger"):
				say(`{"jsonrpc":"2.0","id":999,"result":{"content":[]}}`)
			case strings.Contains(arguments, "batch"):
				say(`[{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, m.ID)
			case strings.Contains(arguments, "half"):
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[`, m.ID)
			case strings.Contains(arguments, "cut"):
				result(`{"content":[{"type":"text","text":"cut \ud83d"}]}`)
			case strings.Contains(arguments, "both"):
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"no error"}]},"error":null}`, m.ID)
			case strings.Contains(arguments, "codeless"):
				say(`{"jsonrpc":"2.0","id":%s,"error":{"message":"boom"}}`, m.ID)
			case strings.Contains(arguments, "plain"):
				say(`{"jsonrpc":"2.0","id":%s,"error":"boom"}`, m.ID)
			case strings.Contains(arguments, "errand"):
				result(`{"task":{"taskId":"1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`)
			case strings.Contains(arguments, "null"):
				result("null")
			case strings.Contains(arguments, "listless"):
				result(`{"content":"did it"}`)
			case strings.Contains(arguments, "empty"):
				result(`{"content":null,"structuredContent":{"n":1}}`)
			case strings.Contains(arguments, "escapes"):
				result(`{"content":[{"type":"text","text":"` + strings.Repeat(`\\`, 99<<10) + `"}]}`)
			case strings.Contains(arguments, "flood"):
				for i := range 16 {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, m.Params.Meta["progressToken"], i, strings.Repeat("x", 1<<20))
				}
				result(`{"content":[]}`)
			case strings.Contains(arguments, "curious"):
				for i := range 1000 {
					say(`{"jsonrpc":"2.0","id":"%d","method":"elicitation/create","params":{"message":"name?"}}`, i)
				}
				result(`{"content":[]}`)
			case strings.Contains(arguments, "gate"):
				for _, err := os.Stat(ran + ".open"); err != nil; _, err = os.Stat(ran + ".open") {
					time.Sleep(5 * time.Millisecond)
				}
				result(`{"content":[{"type":"text","text":"passed"}]}`)
			case strings.Contains(arguments, "endless"):
				result(`{"resultType":"input_required","requestState":"more"}`)
			case strings.Contains(arguments, "vague"):
				result(`{"resultType":"input_required"}`)
			case strings.Contains(arguments, "orphan"):
				child := exec.Command("sleep", "60")
				child.Stdout = os.Stdout
				_ = child.Start()
				os.Exit(3)
			case strings.Contains(arguments, "twice"):
				for _, part := range []string{"a", "b"} {
					say(`{"jsonrpc":"2.0","id":"%s %s","method":"elicitation/create","params":{"message":"name?"}}`, m.ID, part)
				}
			case strings.Contains(arguments, "meta"):
				result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, fmt.Sprint(slices.Sorted(maps.Keys(m.Params.Meta)), string(m.Params.InputResponses), m.Params.RequestState)))
			case strings.Contains(arguments, "die"):
				if strings.Contains(arguments, "forever") {
					_ = os.WriteFile(ran+".gone", nil, 0o600) // otherwise the next process runs it again
				}
				os.Exit(3)
			case strings.Contains(arguments, "breaks"):
				result("{\"content\":[\r{\"type\":\"text\",\"text\":\"did it\"}\r]}")
			case strings.Contains(arguments, "fault"):
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32055,"message":"no","data":{"n":9007199254740993}}}`, m.ID)
			case strings.Contains(arguments, "elicit") && era == "legacy":
				say(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"name?"}}`, `"`+string(m.ID)+`"`)
			case strings.Contains(arguments, "elicit") && m.Params.RequestState == "":
				result(`{"resultType":"input_required","requestState":"own","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"name?"}}}}`)
			case strings.Contains(arguments, "elicit"):
				result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, m.Params.RequestState+" "+string(m.Params.InputResponses)))
			default:
				result(`{"content":[{"type":"text","text":"did ` + m.Params.Name + `"},{"type":"hologram","n":9007199254740993}],"odd":9007199254740993}`)
			}
		default:
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		}
	}
}
