package v1

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// AppendMsg appends a dict in the codec's dialect. DecodeMsgs can read what it writes.
// It reports to OnLoss what the dialect has no place for.
func (c Codec) AppendMsg(dst []byte, m *Msg) ([]byte, error) {
	out, err := c.appendMsg(dst, m)
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, "encode "+c.Dialect.String()+" message", "%w", err)
	}
	return out, nil
}

func (c Codec) appendMsg(dst []byte, m *Msg) ([]byte, error) {
	if m == nil {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "there is no message")
	}
	content := Content{Text: m.Content.Text, Blocks: c.inDialect(m, m.Content.Blocks)}
	at := c.timestamp(m.Timestamp)
	var out []byte
	var err error
	if c.Dialect == V01 {
		out, err = format.Append(dst, &dict01{
			Module: "agentscope.message.msg", Class: "Msg", ID: m.ID, Name: m.Name, Role: m.Role,
			Content: content01(content), Metadata: m.Metadata, Timestamp: at,
		})
	} else {
		d := &dict1{ID: &m.ID, Name: m.Name, Role: m.Role, Content: content, Metadata: m.Metadata, Timestamp: &at}
		if m.Metadata != nil && strictjson.KindOf(m.Metadata) != "object" {
			d.Metadata, err = asObject(m.Metadata)
		}
		if err == nil {
			out, err = format.Append(dst, d)
		}
	}
	if err == nil { // a more deeply nested dict could not be read
		err = strictjson.Check(out[len(dst):], strictjson.MaxBytes(len(out)), strictjson.MaxDepth(maxDepth))
	}
	return out, err
}

// asObject wraps metadata that is not an object in one.
func asObject(raw message.RawJSON) (message.RawJSON, error) {
	return format.Append(nil, &struct {
		Value message.RawJSON `json:"value" wire:"any"`
	}{raw})
}

// inDialect returns the blocks as the dialect has them; nil if list is nil.
func (c Codec) inDialect(m *Msg, list []Block) []Block {
	if list == nil {
		return nil
	}
	out := []Block{}
	for _, b := range list {
		if c.Dialect == V01 {
			b = c.to01(m, b)
		} else {
			b = c.to1(m, b)
		}
		if b != nil {
			out = append(out, b)
		}
	}
	return out
}

// to1 returns 1.x's block for b.
func (c Codec) to1(m *Msg, b Block) Block {
	if r, ok := b.(*ToolResultBlock); ok {
		out := *r
		out.Output.Blocks = c.inDialect(m, r.Output.Blocks)
		if r.Output.Raw != nil {
			c.reportLoss(rowOutput, m.ID, "that an output was JSON and no text")
			out.Output = Output{Text: string(r.Output.Raw)}
		}
		return &out
	}
	media, ok := b.(*MediaBlock)
	if !ok || media.Kind != BlockFile {
		return b
	}
	if media.URL == "" {
		c.reportLoss(rowFile, m.ID, "a file of type "+media.MediaType)
		return &TextBlock{Text: "[file of type " + media.MediaType + "]"}
	}
	c.reportLoss(rowFile, m.ID, "that "+media.URL+" is a file and no text")
	return &TextBlock{Text: media.URL}
}

// to01 returns 0.1.x's block for b, or nil if there is none.
func (c Codec) to01(m *Msg, b Block) Block {
	switch b := b.(type) {
	case *TextBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		return &TextBlock{Text: b.Text}
	case *ThinkingBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a thinking block")
		return nil
	case *MediaBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		d := *b
		d.Extra, d.flat = nil, true
		if d.URL == "" && b.MediaType != "" {
			d.URL = "data:" + b.MediaType + ";base64," + b.Data
		}
		return &d
	case *ToolUseBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		if b.RawInput != nil {
			c.reportLoss(rowOnlyV1, m.ID, "raw_input of "+string(b.ID))
		}
		return &ToolUseBlock{ID: b.ID, Name: b.Name, Input: b.Input}
	case *ToolResultBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		out := ToolResultBlock{ID: b.ID, Name: b.Name, Output: b.Output}
		out.Output.Blocks = c.inDialect(m, b.Output.Blocks)
		return &out
	case *UnknownBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a block of type "+string(b.Kind))
		return nil
	}
	return nil
}

func (c Codec) loseExtra(row int, m *Msg, extra []message.Member) {
	for _, x := range extra {
		c.reportLoss(row, m.ID, "the member "+x.Name+" of a block")
	}
}
