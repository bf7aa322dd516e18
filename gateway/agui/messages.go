package agui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
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
