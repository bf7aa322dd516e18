package message

import "fmt"

// applyBlock handles text, thinking and hint blocks.
func (c Codec) applyBlock(m *Msg, e Event) {
	switch e := e.(type) {
	case *TextBlockStart:
		m.Content = append(m.Content, &TextBlock{ID: e.BlockID, CreatedAt: c.stamp(e)})
	case *TextBlockDelta:
		with(c, m, e, e.BlockID, func(b *TextBlock) { b.Text += e.Delta })
	case *TextBlockEnd:
		with(c, m, e, e.BlockID, func(b *TextBlock) { b.FinishedAt = endTime(e) })
	case *ThinkingBlockStart:
		m.Content = append(m.Content, &ThinkingBlock{ID: e.BlockID, CreatedAt: c.stamp(e)})
	case *ThinkingBlockDelta:
		with(c, m, e, e.BlockID, func(b *ThinkingBlock) { b.Thinking += e.Delta })
	case *ThinkingBlockEnd:
		with(c, m, e, e.BlockID, func(b *ThinkingBlock) { b.FinishedAt = endTime(e) })
	case *HintBlockEvent:
		at := c.stamp(e)
		m.Content = append(m.Content, &HintBlock{
			Hint: e.Hint.Clone(), ID: e.BlockID, Source: clonePtr(e.Source), CreatedAt: at, FinishedAt: &at,
		})
	default: // of another family
	}
}

// applyData handles data blocks.
func (c Codec) applyData(m *Msg, e Event) (err error) {
	switch e := e.(type) {
	case *DataBlockStart:
		m.Content = append(m.Content, &DataBlock{
			ID: e.BlockID, Source: &Base64Source{MediaType: e.MediaType}, CreatedAt: c.stamp(e),
		})
	case *DataBlockDelta:
		with(c, m, e, e.BlockID, func(b *DataBlock) { err = appendData(b, e.Data) })
	case *DataBlockEnd:
		with(c, m, e, e.BlockID, func(b *DataBlock) { b.FinishedAt = endTime(e) })
	default: // of another family
	}
	return err
}

// appendData adds the bytes of one base64 text to those of another.
func appendData(b *DataBlock, chunk string) error {
	if chunk == "" {
		return nil
	}
	src, ok := b.Source.(*Base64Source)
	if !ok {
		return fmt.Errorf("data block %q: %w", b.ID, ErrURLSource)
	}
	joined, err := joinBase64(src.Data, chunk)
	if err != nil {
		return fmt.Errorf("data block %q: %w", b.ID, err)
	}
	src.Data = joined
	return nil
}

// with runs f on the first block of f's type with that id, or reports that
// there is none.
func with[B Block](c Codec, m *Msg, e Event, id string, f func(B)) {
	for _, b := range m.Content {
		if t, ok := b.(B); ok && b.BlockID() == id {
			f(t)
			return
		}
	}
	var none B
	c.skip(e, fmt.Sprintf("the message has no %s block %q", none.Type(), id))
}
