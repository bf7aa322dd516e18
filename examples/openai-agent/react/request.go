package react

import (
	"encoding/json"
	"strings"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/message"
)

// request is the body of a request in OpenAI's format.
type request struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	Tools         []chatTool     `json:"tools,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // text, parts, or null
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// request returns the request for a conversation.
func (a *Agent) request(msgs []*message.Msg, names names) request {
	out := request{Model: a.cfg.Model, Stream: true, StreamOptions: map[string]any{"include_usage": true}, Tools: names.tools}
	if a.cfg.System != "" {
		out.Messages = append(out.Messages, chatMessage{Role: "system", Content: a.cfg.System})
	}
	for _, m := range msgs {
		switch m.Role {
		case message.RoleAssistant:
			for _, r := range rounds(m) {
				out.Messages = append(out.Messages, r.messages(names)...)
			}
		case message.RoleSystem:
			text, _ := m.TextContent("\n")
			out.Messages = append(out.Messages, chatMessage{Role: "system", Content: text})
		case message.RoleUser:
			out.Messages = append(out.Messages, chatMessage{Role: "user", Content: userContent(m)})
		}
	}
	return out
}

// userContent returns the content of a user's message: a text, or parts if there are images.
func userContent(m *message.Msg) any {
	if !m.HasBlocks(message.BlockData) {
		text, _ := m.TextContent("\n")
		return text
	}
	parts := []map[string]any{}
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			parts = append(parts, map[string]any{"type": "text", "text": b.Text})
		case *message.DataBlock:
			parts = append(parts, dataPart(b))
		default: // a user's message has no other blocks
		}
	}
	return parts
}

// dataPart returns an image, or a text about data that cannot be sent.
func dataPart(b *message.DataBlock) map[string]any {
	url, media := "", ""
	switch src := b.Source.(type) {
	case *message.Base64Source:
		url, media = "data:"+src.MediaType+";base64,"+src.Data, src.MediaType
	case *message.URLSource:
		url, media = src.URL, src.MediaType
	}
	if !strings.HasPrefix(media, "image/") {
		return map[string]any{"type": "text", "text": "[an attachment of type " + media + " that cannot be shown]"}
	}
	return map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}
}

// round is one answer of the model within a reply, and the results of its calls.
type round struct {
	text    []string
	calls   []*message.ToolCallBlock
	results map[message.CallID]*message.ToolResultBlock
}

// rounds splits a reply: a new answer begins after a result.
func rounds(m *message.Msg) []round {
	var out []round
	cur := round{results: map[message.CallID]*message.ToolResultBlock{}}
	said := func() {
		if len(cur.results) > 0 {
			out = append(out, cur)
			cur = round{results: map[message.CallID]*message.ToolResultBlock{}}
		}
	}
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			said()
			cur.text = append(cur.text, b.Text)
		case *message.ToolCallBlock:
			said()
			cur.calls = append(cur.calls, b)
		case *message.ToolResultBlock:
			cur.results[b.ID] = b
		default: // the model does not get its own thinking
		}
	}
	if len(cur.text) > 0 || len(cur.calls) > 0 {
		out = append(out, cur)
	}
	return out
}

// messages returns a round in OpenAI's format, in which every call has a result.
func (r round) messages(names names) []chatMessage {
	answer := chatMessage{Role: "assistant"}
	if len(r.text) > 0 {
		answer.Content = strings.Join(r.text, "\n")
	}
	var results []chatMessage
	for _, c := range r.calls {
		call := chatCall{ID: string(c.ID), Type: "function"}
		call.Function.Name, call.Function.Arguments = names.name(c.Name), chatstream.Arguments(c.Input)
		answer.ToolCalls = append(answer.ToolCalls, call)
		text := "The call was interrupted; it has no result."
		if res := r.results[c.ID]; res != nil {
			text = output(res.Output)
		}
		results = append(results, chatMessage{Role: "tool", ToolCallID: string(c.ID), Content: text})
	}
	return append([]chatMessage{answer}, results...)
}

// output returns a result as text.
func output(c message.Content) string {
	if !c.IsList() {
		return c.Text
	}
	var parts []string
	for _, b := range c.Blocks {
		switch b := b.(type) {
		case *message.TextBlock:
			parts = append(parts, b.Text)
		case *message.DataBlock:
			parts = append(parts, dataText(b))
		default: // results have no other blocks
		}
	}
	return strings.Join(parts, "\n")
}

func dataText(b *message.DataBlock) string {
	if src, ok := b.Source.(*message.URLSource); ok {
		return src.URL
	}
	return "[data that cannot be shown]"
}

// names maps the tools to names that every server accepts: letters, digits, "_" and
// "-", at most 64.
type names struct {
	tools  []chatTool
	toName map[string]string
	toTool map[string]string
}

func newNames(tools []agent.Tool) names {
	n := names{toName: map[string]string{}, toTool: map[string]string{}}
	for _, t := range tools {
		name := n.fit(t.Name)
		n.toName[t.Name], n.toTool[name] = name, t.Name
		c := chatTool{Type: "function"}
		c.Function.Name, c.Function.Description, c.Function.Parameters = name, t.Description, t.Parameters
		n.tools = append(n.tools, c)
	}
	return n
}

// maxName is the maximum length of a name.
const maxName = 64

// fit returns an accepted name that is not in use.
func (n names) fit(tool string) string {
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, tool)
	base = base[:min(len(base), maxName-2)]
	name := base
	for i := 'a'; n.toTool[name] != "" && i <= 'z'; i++ {
		name = base + "_" + string(i)
	}
	return name
}

// tool returns the tool that a model means. An unknown name is unchanged, and the
// engine reports it.
func (n names) tool(name string) string {
	if t, ok := n.toTool[name]; ok {
		return t
	}
	return name
}

func (n names) name(tool string) string {
	if name, ok := n.toName[tool]; ok {
		return name
	}
	return n.fit(tool)
}
