package toolimport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/toolcall"
)

// TestMain runs the tests, or the MCP server that they start.
func TestMain(m *testing.M) {
	switch os.Getenv("ASKANCE_TEST_SERVER") {
	case "good":
		if err := server().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
	case "broken":
		fmt.Fprintln(os.Stderr, "no \x1b[31mdatabase")
		os.Exit(1)
	case "hanging":
		select {}
	default:
		os.Exit(m.Run())
	}
}

const tools = 5

// server has more tools than fit on a page, and a number that a float cannot hold.
func server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	for i := range tools {
		s.AddTool(&mcp.Tool{
			Name: fmt.Sprintf("tool_%d", i), Description: "Does it.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	return s
}

// check writes the tools and loads the file.
func check(t *testing.T, found *toolimport.Found, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := found.Write(toolimport.Options{Source: "test", Placement: toolcall.PlaceRemote})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := toolfile.Parse("tools.yaml", file)
	if err != nil || len(loaded) != tools {
		t.Fatalf("%d tools, %v; want %d:\n%s", len(loaded), err, tools, file)
	}
	for i, tool := range loaded {
		if tool.Name != fmt.Sprintf("tool_%d", i) || tool.ReadOnly || !tool.Destructive || !tool.OpenWorld || !strings.Contains(string(tool.Schema.JSON()), "9007199254740993") {
			t.Errorf("tool %d is %+v with the schema %s", i, tool, tool.Schema.JSON())
		}
	}
}

func TestFromCommand(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("good", func(t *testing.T) {
		t.Setenv("ASKANCE_TEST_SERVER", "good")
		found, err := toolimport.FromCommand(t.Context(), []string{exe})
		check(t, found, err)
	})
	t.Run("broken", func(t *testing.T) {
		t.Setenv("ASKANCE_TEST_SERVER", "broken")
		_, err := toolimport.FromCommand(t.Context(), []string{exe})
		if err == nil || !strings.Contains(err.Error(), "the server said: no ") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("FromCommand = %v, want the server's error output", err)
		}
	})
	t.Run("hanging", func(t *testing.T) {
		t.Setenv("ASKANCE_TEST_SERVER", "hanging")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := toolimport.FromCommand(ctx, []string{exe}); err == nil {
			t.Error("FromCommand of a silent server succeeds")
		}
	})
	if _, err := toolimport.FromCommand(t.Context(), []string{"/does/not/exist"}); err == nil {
		t.Error("FromCommand of a missing program succeeds")
	}
}

func TestFromURL(t *testing.T) {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server() }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "no", http.StatusUnauthorized)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	found, err := toolimport.FromURL(t.Context(), srv.URL+"/mcp", "secret")
	check(t, found, err)
	for _, tt := range []struct{ path, token string }{{"/mcp", ""}, {"/mcp", "wrong"}, {"/moved", "secret"}} {
		if _, err := toolimport.FromURL(t.Context(), srv.URL+tt.path, tt.token); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("FromURL(%s, %q) = %v, want an error without the token", tt.path, tt.token, err)
		}
	}
}

// A list that never ends is refused before it takes the memory.
func TestEndlessList(t *testing.T) {
	pages := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body := `"error":{"code":-32601,"message":"no"}`
		switch q.Method {
		case "initialize":
			body = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`, q.Params.Version)
		case "tools/list":
			pages++
			body = fmt.Sprintf(`"result":{"nextCursor":"c","tools":[{"name":"t%d","description":%q,"inputSchema":{"type":"object"}}]}`, pages, strings.Repeat("x", 1<<20))
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, body)
	}))
	defer srv.Close()
	if _, err := toolimport.FromURL(t.Context(), srv.URL, ""); err == nil || !strings.Contains(err.Error(), "bytes") || pages > 10 {
		t.Errorf("after %d pages: %v", pages, err)
	}
}

// A reply that never ends is cut, and its connection ends.
func TestEndlessReply(t *testing.T) {
	const most = 256 << 20
	sent := make(chan int, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		part, n := []byte(strings.Repeat(" ", 1<<20)), 0
		for err := error(nil); err == nil && n < most; n += len(part) {
			_, err = w.Write(part)
		}
		sent <- n
	}))
	defer srv.Close()
	if _, err := toolimport.FromURL(t.Context(), srv.URL, ""); err == nil {
		t.Error("an endless reply is a list")
	}
	if n := <-sent; n >= most {
		t.Errorf("the import read %d bytes", n)
	}
}
