package hook

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// promptSchema describes what Claude Code sends to its permission-prompt tool.
const promptSchema = `{"type":"object","properties":{"tool_name":{"type":"string"},"input":{"type":"object"},"tool_use_id":{"type":"string"}},"required":["tool_name","input"]}`

// ServePrompt serves MCP with the tool approve, for claude --permission-prompt-tool. It
// ends with its input.
func ServePrompt(ctx context.Context, c Client, version string, in io.Reader, out io.Writer) error {
	// Claude Code names its session to the processes that it starts, so a result that a
	// hook reports reaches the same call.
	session := cmp.Or(os.Getenv("CLAUDE_CODE_SESSION_ID"), "permission-prompt-"+rand.Text())
	s := mcp.NewServer(&mcp.Implementation{Name: "askance", Version: version}, nil)
	s.AddTool(&mcp.Tool{
		Name: "approve", Description: "Decides whether a tool call may run.", InputSchema: message.RawJSON(promptSchema),
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := string(dialect.PromptText(c.prompt(ctx, session, r.Params.Arguments)))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	return s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: openWriter{out}})
}

type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// prompt asks about one call; every failure is a denial.
func (c Client) prompt(ctx context.Context, session string, arguments message.RawJSON) (input message.RawJSON, answer []byte, err error) {
	began := time.Now()
	var asked struct {
		Tool  string          `json:"tool_name"`
		Input message.RawJSON `json:"input"`
		Call  string          `json:"tool_use_id"`
	}
	if err := strictjson.UnmarshalOpen(arguments, &asked, strictjson.MaxBytes(dialect.MaxEventBytes)); err != nil {
		return nil, nil, err
	}
	cwd, err := os.Getwd() // Claude Code starts its servers in the project
	if err != nil {
		return nil, nil, err
	}
	event, err := strictjson.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": session, "tool_use_id": cmp.Or(asked.Call, "prompt-"+rand.Text()),
		"tool_name": asked.Tool, "tool_input": asked.Input, "cwd": cwd, "cwd_assumed": true,
	})
	if err != nil {
		return nil, nil, err
	}
	answer, err = c.Answer(ctx, event, began)
	return asked.Input, answer, err
}
