package v1

import (
	"math"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// reserved is the member of a 2.0 message's metadata that records its dicts; own is our
// member of a dict's metadata.
const (
	reserved = "askance_v1"
	own      = "askance"
)

// part is what a message itself does not say about one of the dicts that it was made
// of.
type part struct {
	ID, Name, Timestamp string
	Role                message.MsgRole
	Blocks              int  // how many of the message's blocks
	Text                bool // the content was a string
	Shape               string
	Metadata            any // nil for the first dict, which has the message's metadata
	Invocation          bool
}

// The shapes of metadata that is not an object.
const (
	shapeNull  = "null"
	shapeValue = "value"
)

// partOf describes a dict.
func partOf(m *Msg, n int, first bool) part {
	p := part{ID: m.ID, Name: m.Name, Timestamp: m.Timestamp, Role: m.Role, Blocks: n, Text: !m.Content.IsList(), Invocation: m.InvocationID != ""}
	switch {
	case m.Metadata == nil:
		p.Shape = shapeNull
	case strictjson.KindOf(m.Metadata) != "object":
		p.Shape = shapeValue
	}
	if !first {
		p.Metadata = metadataOf(m)
	}
	return p
}

// metadataOf returns a dict's metadata as an object, without the request in it, which
// is about a past moment.
func metadataOf(m *Msg) map[string]any {
	if m.Metadata == nil {
		return map[string]any{}
	}
	raw := m.Metadata
	if strictjson.KindOf(raw) != "object" {
		raw, _ = asObject(raw) // it was checked when it was read
	}
	v, err := strictjson.Object(raw, strictjson.MaxBytes(math.MaxInt), strictjson.KeepBigIntegers())
	if err != nil {
		return map[string]any{} // it was checked when it was read
	}
	if o, ok := v[own].(map[string]any); ok {
		if _, decides := o["decisions"]; !decides {
			delete(o, "request_id")
			delete(o, "calls")
		}
		if len(o) == 0 {
			delete(v, own)
		}
	}
	return v
}

// partsValue returns the value in the metadata that records the parts.
func partsValue(parts []part) map[string]any {
	list := make([]any, len(parts))
	for i, p := range parts {
		v := map[string]any{"id": p.ID, "name": p.Name, "role": string(p.Role), "timestamp": p.Timestamp, "blocks": int64(p.Blocks)}
		if p.Text {
			v["text"] = true
		}
		if p.Shape != "" {
			v["metadata_is"] = p.Shape
		}
		if p.Invocation {
			v["invocation"] = true
		}
		if p.Metadata != nil {
			v["metadata"] = p.Metadata
		}
		list[i] = v
	}
	return map[string]any{"parts": list}
}

// partsOf reads what partsValue wrote; nil if it does not fit the message, which may
// have grown since. A part cannot claim another speaker: only parts with nothing but
// results may have another role than the message.
func partsOf(m *message.Msg) []part {
	top, _ := m.Metadata[reserved].(map[string]any)
	list, _ := top["parts"].([]any)
	var out []part
	at := 0
	for i, item := range list {
		v, _ := item.(map[string]any)
		p, ok := readPart(v, i == 0)
		end := at + p.Blocks
		if !ok || end > len(m.Content) || !isVoiceOf(m, p, m.Content[at:end]) || p.Text && !isText(m.Content[at:end]) {
			return nil
		}
		at = end
		out = append(out, p)
	}
	return out
}

func readPart(v map[string]any, first bool) (part, bool) {
	var p part
	role, okRole := v["role"].(string)
	id, okID := v["id"].(string)
	name, okName := v["name"].(string)
	timestamp, okTime := v["timestamp"].(string)
	n, okBlocks := v["blocks"].(int64)
	if !okRole || !okID || !okName || !okTime || !okBlocks || n < 0 || n > math.MaxInt32 {
		return p, false
	}
	p = part{ID: id, Name: name, Timestamp: timestamp, Role: message.MsgRole(role), Blocks: int(n)}
	p.Text, _ = v["text"].(bool)
	p.Shape, _ = v["metadata_is"].(string)
	p.Invocation, _ = v["invocation"].(bool)
	md, isObject := v["metadata"].(map[string]any)
	if isObject {
		p.Metadata = md
	}
	return p, first || isObject
}

// isVoiceOf reports whether the part may contain these blocks of the message.
func isVoiceOf(m *message.Msg, p part, blocks []message.Block) bool {
	if p.Role == m.Role {
		return p.Name == m.Name
	}
	onlyResults := !slices.ContainsFunc(blocks, func(b message.Block) bool { return b.Type() != message.BlockToolResult })
	return onlyResults && m.Role == message.RoleAssistant && p.Role.Valid() && len(blocks) > 0
}

func isText(blocks []message.Block) bool {
	return len(blocks) == 1 && blocks[0] != nil && blocks[0].Type() == message.BlockText
}
