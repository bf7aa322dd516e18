package message

import (
	"encoding/base64"
	"fmt"
)

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
	default: // handled elsewhere
	}
}

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
	default: // handled elsewhere
	}
	return err
}

// appendData appends the bytes of a base64 text to a block.
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

// with calls f with the first block of its type with that id, or reports that there is none.
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

// joinBase64 decodes two base64 texts, each with its own padding, and encodes their bytes
// as one.
func joinBase64(a, b string) (string, error) {
	bytes, err := decodeBase64(nil, a)
	if err != nil {
		return "", fmt.Errorf("the existing data is %w", err)
	}
	if bytes, err = decodeBase64(bytes, b); err != nil {
		return "", fmt.Errorf("the chunk is %w", err)
	}
	return base64.StdEncoding.EncodeToString(bytes), nil
}

// decodeBase64 appends the bytes of s as Python's lenient decoder reads them: ASCII
// characters outside the standard alphabet (including line ends, - and _) are dropped,
// everything after complete padding is ignored, and missing padding or text that is not
// ASCII is an error.
func decodeBase64(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return nil, fmt.Errorf("%w: byte %d is not ASCII", ErrNotBase64, i)
		}
	}
	var quad uint32 // the bits of the characters since the last complete group
	n, pads := 0, 0 // number of characters in quad, and of padding after them
	for i := range len(s) {
		if s[i] == '=' {
			if n >= 2 {
				if pads++; n+pads >= 4 {
					return appendQuad(dst, quad, n), nil
				}
			}
			continue
		}
		v := sextet(s[i])
		if v < 0 {
			continue
		}
		pads = 0
		quad = quad<<6 | uint32(v)
		if n++; n == 4 {
			dst = append(dst, byte(quad>>16), byte(quad>>8), byte(quad))
			quad, n = 0, 0
		}
	}
	switch n {
	case 0:
		return dst, nil
	case 1:
		return nil, fmt.Errorf("%w: one character is left over", ErrNotBase64)
	default:
		return nil, fmt.Errorf("%w: the padding is missing", ErrNotBase64)
	}
}

// appendQuad appends the complete bytes of a group that ended after n characters.
func appendQuad(dst []byte, quad uint32, n int) []byte {
	switch n {
	case 2:
		return append(dst, byte(quad>>4))
	case 3:
		return append(dst, byte(quad>>10), byte(quad>>2))
	}
	return dst
}

// sextet returns the value of a base64 character, or -1.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	}
	return -1
}
