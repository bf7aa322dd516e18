package agui

import (
	"cmp"

	"github.com/askance-dev/askance/message"
)

// ToolResults returns the results in the history for calls that the server waits for
// ([Mapper.Pending]: by the client's id, with the call's own id and the tool's name), in the
// order of the history. The first of several results for one call counts. A tool message
// with an error becomes a result of state error; the error is the output if there is no
// content, and otherwise in the metadata.
func (in *RunInput) ToolResults(waiting map[string]message.ToolCallBlock) []message.ToolResultBlock {
	var out []message.ToolResultBlock
	done := map[string]bool{}
	for _, m := range in.Messages {
		call, waits := waiting[m.ToolCallID]
		if m.Role != RoleTool || !waits || done[m.ToolCallID] || m.Content == nil {
			continue
		}
		done[m.ToolCallID] = true
		b := message.ToolResultBlock{ID: call.ID, Name: call.Name, Output: scopeContent(*m.Content), State: message.ToolResultSuccess}
		if m.Error != nil {
			b.State = message.ToolResultError
			if m.Content.Parts == nil && m.Content.Text == "" {
				b.Output.Text = *m.Error
			} else {
				b.Metadata = map[string]any{reservedName: map[string]any{"error": *m.Error}}
			}
		}
		out = append(out, b)
	}
	return out
}

// UserMsg converts a person's message to AgentScope: text and media. The name is the
// message's own, or else name. The caller's codec provides times and ids; the message's id
// is AG-UI's.
func (m *Message) UserMsg(codec message.Codec, name string) (*message.Msg, error) {
	if m.Role != RoleUser || m.Content == nil {
		return nil, message.Errorf(message.CodeInvalid, "read AG-UI message", "message %.60q is not a user message", m.ID)
	}
	if m.Name != nil {
		name = *m.Name
	}
	content := scopeContent(*m.Content)
	for i, b := range content.Blocks {
		switch b := b.(type) {
		case *message.TextBlock:
			content.Blocks[i] = codec.NewText(b.Text)
		case *message.DataBlock:
			d := codec.NewData(b.Source)
			d.ID = cmp.Or(b.ID, d.ID)
			content.Blocks[i] = d
		default: // scopeContent makes no other blocks
		}
	}
	return codec.UserMsg(name, content, message.WithID(m.ID))
}

// scopeContent converts parts to blocks. A handle that only a provider can read is kept as
// text, in AG-UI's form.
func scopeContent(c Content) message.Content {
	if c.Parts == nil {
		return message.Content{Text: c.Text}
	}
	out := message.List()
	for _, p := range c.Parts {
		out.Blocks = append(out.Blocks, scopeBlock(p))
	}
	return out
}

func scopeBlock(p Part) message.Block {
	if p.Type == PartText || p.Source == nil {
		return &message.TextBlock{Text: p.Text, ID: valueOr(p.ID, "")}
	}
	mime := valueOr(p.Source.MimeType, "application/octet-stream")
	switch p.Source.Type {
	case SourceData:
		return &message.DataBlock{ID: valueOr(p.ID, ""), Source: &message.Base64Source{Data: p.Source.Value, MediaType: mime}}
	case SourceURL:
		if src, err := message.NewURLSource(p.Source.Value, mime); err == nil {
			return &message.DataBlock{ID: valueOr(p.ID, ""), Source: src}
		}
	case SourceFile:
	}
	raw, err := format.Append(nil, &p)
	if err != nil {
		raw = nil
	}
	return &message.TextBlock{Text: string(raw), ID: valueOr(p.ID, "")}
}
