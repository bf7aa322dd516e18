package v1

import (
	"errors"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// AppendMsg appends a dict in the codec's dialect. What it writes, DecodeMsgs
// reads back. What the dialect has no place for is told to OnLoss.
func (c Codec) AppendMsg(dst []byte, m *Msg) ([]byte, error) {
	out, err := c.appendMsg(dst, m)
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, "encode "+c.Dialect.String()+" message", "%w", err)
	}
	return out, nil
}

func (c Codec) appendMsg(dst []byte, m *Msg) ([]byte, error) {
	if m == nil || !m.Role.Valid() {
		return dst, strictjson.Wrong(strictjson.ErrType, "there is no message, or its role is none of user, assistant, system")
	}
	w := object.Write(dst)
	if c.Dialect == V01 {
		w.Text("__module__", "agentscope.message.msg")
		w.Text("__name__", "Msg")
	}
	w.Text("id", m.ID)
	w.Text("name", m.Name)
	w.Text("role", string(m.Role))
	w.Put("content", func(dst []byte) ([]byte, error) {
		if !m.Content.IsList() {
			return strictjson.AppendString(dst, m.Content.Text)
		}
		return c.appendBlocks(dst, m, m.Content.Blocks)
	})
	w.Put("metadata", func(dst []byte) ([]byte, error) {
		if c.Dialect == V1 && m.Metadata != nil && strictjson.KindOf(m.Metadata) != "object" {
			v := object.Write(dst)
			v.Raw("value", m.Metadata)
			return v.End()
		}
		return object.Raw(dst, m.Metadata)
	})
	w.Text("timestamp", c.timestamp(m.Timestamp))
	out, err := w.End()
	if err == nil {
		err = strictjson.Check(out[len(dst):], strictjson.MaxBytes(len(out)), strictjson.MaxDepth(maxDepth)) // or nobody could read it
	}
	return out, err
}

// appendBlocks writes the blocks that the dialect has.
func (c Codec) appendBlocks(dst []byte, m *Msg, list []Block) ([]byte, error) {
	var kept []Block
	for _, b := range list {
		if c.Dialect == V01 {
			b = c.to01(m, b)
		} else {
			b = c.to1(m, b)
		}
		if b != nil {
			kept = append(kept, b)
		}
	}
	return object.Array(dst, len(kept), func(dst []byte, i int) ([]byte, error) { return c.appendBlock(dst, m, kept[i]) })
}

// to1 gives the block that 1.x has for b.
func (c Codec) to1(m *Msg, b Block) Block {
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

// to01 gives the block that 0.1.x has for b, nil if none.
func (c Codec) to01(m *Msg, b Block) Block {
	switch b := b.(type) {
	case *TextBlock:
		c.loseExtra(m, b.Extra)
		return &TextBlock{Text: b.Text}
	case *ThinkingBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a thinking block")
		return nil
	case *MediaBlock:
		c.loseExtra(m, b.Extra)
		d := *b
		d.Extra = nil
		if d.URL == "" && b.MediaType != "" {
			d.URL = "data:" + b.MediaType + ";base64," + b.Data
		}
		return &d
	case *ToolUseBlock:
		c.loseExtra(m, b.Extra)
		if b.RawInput != nil {
			c.reportLoss(rowOnlyV1, m.ID, "raw_input of "+string(b.ID))
		}
		return &ToolUseBlock{ID: b.ID, Name: b.Name, Input: b.Input}
	case *ToolResultBlock:
		c.loseExtra(m, b.Extra)
		return &ToolResultBlock{ID: b.ID, Name: b.Name, Output: b.Output}
	case *UnknownBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a block of type "+string(b.Kind))
		return nil
	}
	return nil
}

func (c Codec) loseExtra(m *Msg, extra []message.Member) {
	for _, x := range extra {
		c.reportLoss(rowOnlyV1, m.ID, "the member "+x.Name+" of a block")
	}
}

func (c Codec) appendBlock(dst []byte, m *Msg, b Block) ([]byte, error) {
	if u, ok := b.(*UnknownBlock); ok {
		return object.Raw(dst, u.Raw)
	}
	w := object.Write(dst)
	w.Text("type", string(b.Type()))
	switch b := b.(type) {
	case *TextBlock:
		w.Text("text", b.Text)
		writeExtra(w, b.Extra)
	case *ThinkingBlock:
		w.Text("thinking", b.Thinking)
		writeExtra(w, b.Extra)
	case *MediaBlock:
		c.writeMedia(w, b)
	case *ToolUseBlock:
		w.Text("id", string(b.ID))
		w.Text("name", b.Name)
		w.Put("input", func(dst []byte) ([]byte, error) {
			if strictjson.KindOf(b.Input) != "object" {
				return dst, strictjson.Wrong(strictjson.ErrType, "want object")
			}
			return object.Raw(dst, b.Input)
		})
		if b.RawInput != nil {
			w.Text("raw_input", *b.RawInput)
		}
		writeExtra(w, b.Extra)
	case *ToolResultBlock:
		w.Text("id", string(b.ID))
		w.Text("name", b.Name)
		w.Put("output", func(dst []byte) ([]byte, error) { return c.appendOutput(dst, m, b.Output) })
		writeExtra(w, b.Extra)
	case *UnknownBlock: // above
	}
	return w.End()
}

func (c Codec) writeMedia(w *object.Writer, b *MediaBlock) {
	switch {
	case b.Kind != BlockImage && b.Kind != BlockAudio && b.Kind != BlockVideo && b.Kind != BlockFile:
		w.Put("source", func(dst []byte) ([]byte, error) { return dst, errKind })
	case c.Dialect == V01:
		w.Text("url", b.URL)
	case b.URL != "" || b.MediaType == "":
		w.Object("source", func(w *object.Writer) {
			w.Text("type", "url")
			w.Text("url", b.URL)
		})
	default:
		w.Object("source", func(w *object.Writer) {
			w.Text("type", "base64")
			w.Text("media_type", b.MediaType)
			w.Text("data", b.Data)
		})
	}
	writeExtra(w, b.Extra)
}

var errKind = errors.New("a media block is an image, audio, video or file")

func (c Codec) appendOutput(dst []byte, m *Msg, o Output) ([]byte, error) {
	switch {
	case o.Raw != nil && c.Dialect == V01:
		return object.Raw(dst, o.Raw)
	case o.Raw != nil:
		c.reportLoss(rowOutput, m.ID, "that an output was JSON and no text")
		return strictjson.AppendString(dst, string(o.Raw))
	case o.Blocks != nil:
		return c.appendBlocks(dst, m, o.Blocks)
	default:
		return strictjson.AppendString(dst, o.Text)
	}
}

func writeExtra(w *object.Writer, extra []message.Member) {
	for _, m := range extra {
		w.Raw(m.Name, m.Value)
	}
}
