package agui

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// userMessage converts a person's message to AG-UI.
func userMessage(m *message.Msg) wire.Message {
	out := wire.Message{ID: m.ID, Role: wire.RoleUser}
	if m.Role == message.RoleSystem {
		text, _ := m.TextContent("\n")
		out.Role, out.Content = wire.RoleSystem, wire.Text(text)
		return out
	}
	var parts []wire.Part
	var text strings.Builder
	plain := true
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			text.WriteString(b.Text)
			parts = append(parts, wire.Part{Type: wire.PartText, Text: b.Text})
		case *message.DataBlock:
			plain = false
			parts = append(parts, wire.MediaPart(b))
		default: // a person sends no other
		}
	}
	if plain && len(parts) <= 1 {
		out.Content = wire.Text(text.String())
		return out
	}
	out.Content = &wire.Content{Parts: parts}
	return out
}

// isLocal reports whether a message is one that clients keep for themselves.
func isLocal(m wire.Message) bool {
	return m.Role == wire.RoleActivity || m.Role == wire.RoleReasoning
}

// counterpart returns the index in list of the message that corresponds to m: the one with its id
// or, for results, with its call, because clients choose the ids of their results.
func counterpart(list []wire.Message, m wire.Message) int {
	return slices.IndexFunc(list, func(o wire.Message) bool {
		return o.ID == m.ID || o.Role == wire.RoleTool && m.Role == wire.RoleTool && o.ToolCallID == m.ToolCallID
	})
}

// needsSnapshot reports whether a client with the messages have lacks something in want, or has
// it in another order.
func needsSnapshot(have, want []wire.Message) bool {
	at := -1
	for _, w := range want {
		if isLocal(w) {
			continue
		}
		i := counterpart(have, w)
		if i <= at || (w.Role == wire.RoleAssistant || w.Role == wire.RoleTool) && !hasSameText(have[i], w) {
			return true
		}
		at = i
	}
	return false
}

func hasSameText(a, b wire.Message) bool {
	text := func(m wire.Message) string {
		switch {
		case m.Content == nil:
			return ""
		case m.Error != nil: // it is the result of a call that failed without content
			return cmp.Or(m.Content.String(), *m.Error)
		}
		return m.Content.String()
	}
	return text(a) == text(b) && slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(x, y wire.ToolCall) bool {
		return x.ID == y.ID && x.Name == y.Name && x.Arguments == y.Arguments
	})
}

// hasSeenMore reports whether the client has messages of now that are not in then: it saw a part
// of what came in between.
func hasSeenMore(have, then, now []wire.Message) bool {
	return slices.ContainsFunc(now, func(m wire.Message) bool {
		if m.Role == wire.RoleUser || counterpart(then, m) >= 0 {
			return false
		}
		return slices.ContainsFunc(have, func(h wire.Message) bool { return h.ID == m.ID })
	})
}

// mergeMessages returns the server's conversation, with the messages that only the client has in
// the client's places, and with the client's own messages and accepted results in its form.
func mergeMessages(have, want []wire.Message) []wire.Message {
	out := slices.Clone(want)
	for i, m := range out {
		if at := counterpart(have, m); at >= 0 && m.Role != wire.RoleAssistant && (m.Role != wire.RoleTool || hasSameText(have[at], m)) {
			out[i] = have[at]
		}
	}
	last := -1 // of the client's messages that both have
	for i, m := range have {
		if counterpart(out, m) >= 0 {
			last = i
		}
	}
	at := 0 // after the message that both have
	for i, m := range have {
		if j := counterpart(out, m); j >= 0 {
			at = j + 1
			continue
		}
		if isLocal(m) || m.Role == wire.RoleAssistant || m.Role == wire.RoleTool {
			continue // a message of the agent that the server does not have
		}
		if i > last {
			at = len(out) // newer than the messages that both have
		}
		out = slices.Insert(out, at, m)
		at++
	}
	return out
}

// planSnapshots returns the snapshots after which a client has the messages want in their order.
// A snapshot does not move messages that the client has; if they are in the wrong place, a
// shorter snapshot removes them first.
func planSnapshots(have, want []wire.Message) [][]wire.Message {
	h := wire.NewHistory(have)
	h.Apply(&wire.MessagesSnapshot{Messages: want})
	same := 0
	for same < len(want) && same < len(h.Messages()) && h.Messages()[same].ID == want[same].ID {
		same++
	}
	if same == len(want) {
		return [][]wire.Message{want}
	}
	return [][]wire.Message{append([]wire.Message{}, want[:same]...), want}
}

// readInput reads and checks the body of a request. Its errors are HTTP errors, because no run
// has begun.
func readInput(r *http.Request) (*wire.RunInput, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read run input", What: "the body is not declared as JSON", Hint: "send Content-Type: application/json"}
	}
	body, err := gateway.ReadBody("read run input", r)
	if err != nil {
		return nil, err
	}
	return decodeInput(body)
}

// decodeInput reads a run's input and checks its size.
func decodeInput(body []byte) (*wire.RunInput, error) {
	in, err := wire.DecodeRunInput(body)
	if err != nil {
		return nil, err
	}
	large := func(what string, n, limit int) error {
		return &message.Error{Code: message.CodeTooLarge, Op: "read run input", What: fmt.Sprintf("%s has %d, the limit is %d", what, n, limit), Hint: "send less"}
	}
	switch {
	case in.ThreadID == "":
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read run input", What: "threadId is empty", Hint: "name the thread, for example by a UUID"}
	case len(in.ThreadID) > toolcall.MaxIDBytes:
		return nil, large("threadId (in bytes)", len(in.ThreadID), toolcall.MaxIDBytes)
	case len(in.RunID) > toolcall.MaxIDBytes:
		return nil, large("runId (in bytes)", len(in.RunID), toolcall.MaxIDBytes)
	case len(in.Messages) > MaxMessages:
		return nil, large("messages", len(in.Messages), MaxMessages)
	case len(in.Tools) > MaxTools:
		return nil, large("tools", len(in.Tools), MaxTools)
	case len(in.Resume) > MaxEntries:
		return nil, large("resume", len(in.Resume), MaxEntries)
	}
	return in, nil
}

// agentOf returns the agent that the path names, or else the first.
func agentOf(r *http.Request, runner *agent.Runner) (string, error) {
	all := runner.Agents()
	name := r.PathValue("agent")
	if name == "" && len(all) > 0 {
		return all[0].Name, nil
	}
	if slices.ContainsFunc(all, func(a agent.Info) bool { return a.Name == name }) {
		return name, nil
	}
	return "", &message.Error{Code: message.CodeNotFound, Op: "run", What: fmt.Sprintf("there is no agent %q", name), Hint: "GET /agui lists them"}
}

// turnInput returns a run's input for the agent's turn: the new messages, the client's tools, and
// what else the frontend sends.
func (r *run) turnInput(fresh []*wire.Message) (agent.Input, error) {
	in := agent.Input{Input: map[string]message.RawJSON{}}
	for _, m := range fresh {
		msg, err := r.userMsg(m)
		if err != nil {
			return in, err
		}
		in.Messages = append(in.Messages, msg)
	}
	for _, t := range r.in.Tools {
		in.Tools = append(in.Tools, agent.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Client: true})
	}
	for name, raw := range map[string]message.RawJSON{"state": r.in.State, "context": contextOf(r.in), "forwardedProps": r.in.ForwardedProps} {
		if raw != nil {
			in.Input[name] = raw
		}
	}
	return in, nil
}

// userMsg converts a message of the person, or of the program in front of them.
func (r *run) userMsg(m *wire.Message) (*message.Msg, error) {
	if m.Role == wire.RoleUser {
		return m.UserMsg(message.Codec{}, r.peer.Name)
	}
	return message.Codec{}.SystemMsg(r.peer.Name, message.Content{Text: m.Content.String()}, message.WithID(m.ID))
}

func contextOf(in *wire.RunInput) message.RawJSON {
	if len(in.Context) == 0 {
		return nil
	}
	raw, _ := strictjson.Marshal(in.Context) // it was read as UTF-8
	return raw
}

// origin returns the metadata of RUN_STARTED.
func (f *follower) origin() message.RawJSON {
	of := map[string]any{"sessionId": string(f.session)}
	if f.reply != "" {
		of["replyId"] = string(f.reply)
	}
	return object(map[string]any{"agentscope": of})
}

var _ gateway.Surface = (*Surface)(nil)
