package agui

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
)

// userMessage is a person's message as AG-UI has it.
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

// counterpart is the message of list that says the same thing as m: the one
// with its id, or, of results, with its call. Clients make up the ids of the
// results that they bring.
func counterpart(list []wire.Message, m wire.Message) int {
	return slices.IndexFunc(list, func(o wire.Message) bool {
		return o.ID == m.ID || o.Role == wire.RoleTool && m.Role == wire.RoleTool && o.ToolCallID == m.ToolCallID
	})
}

// needsSnapshot reports whether a client that has the messages have must be told of
// something in want, or of their order.
func needsSnapshot(have, want []wire.Message) bool {
	at := -1
	for _, w := range want {
		if isLocal(w) {
			continue
		}
		i := counterpart(have, w)
		if i <= at || w.Role == wire.RoleAssistant && !hasSameText(have[i], w) {
			return true
		}
		at = i
	}
	return false
}

func hasSameText(a, b wire.Message) bool {
	text := func(m wire.Message) string {
		if m.Content == nil {
			return ""
		}
		return m.Content.String()
	}
	return text(a) == text(b) && slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(x, y wire.ToolCall) bool {
		return x.ID == y.ID && x.Arguments == y.Arguments
	})
}

// hasSeenMore reports whether the client has something of now that was not there
// then: it saw a part of what came between.
func hasSeenMore(have, then, now []wire.Message) bool {
	return slices.ContainsFunc(now, func(m wire.Message) bool {
		if m.Role == wire.RoleUser || counterpart(then, m) >= 0 {
			return false
		}
		return slices.ContainsFunc(have, func(h wire.Message) bool { return h.ID == m.ID })
	})
}

// mergeMessages is the conversation as the server has it, with what only the client
// has at the places where it has it, and its own words and results as it has
// them.
func mergeMessages(have, want []wire.Message) []wire.Message {
	out := slices.Clone(want)
	for i, m := range out {
		if at := counterpart(have, m); m.Role != wire.RoleAssistant && at >= 0 {
			out[i] = have[at]
		}
	}
	last := -1 // of the client's messages that both have
	for i, m := range have {
		if counterpart(out, m) >= 0 {
			last = i
		}
	}
	at := 0 // behind the message that both have
	for i, m := range have {
		if j := counterpart(out, m); j >= 0 {
			at = j + 1
			continue
		}
		if isLocal(m) || m.Role == wire.RoleAssistant || m.Role == wire.RoleTool {
			continue // words of the agent that it has not said
		}
		if i > last {
			at = len(out) // said since
		}
		out = slices.Insert(out, at, m)
		at++
	}
	return out
}

// planSnapshots are the snapshots that give a client the messages want, in their
// order. A snapshot leaves messages that the client has where it has them; where
// that is not their place, a shorter one takes them away first.
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
