package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// clean copies a content so that it can be written: text repaired, ids and
// times that a block lacks filled in, and blocks that no output may hold left
// out and named in the error.
func clean(c message.Content) (message.Content, error) {
	if !c.IsList() {
		return message.Content{Text: repair(c.Text)}, nil
	}
	kept := message.List()
	var first error
	for i, b := range c.Blocks {
		copied, err := cleanBlock(b)
		if err == nil {
			_, err = strictjson.Marshal(message.List(copied))
		}
		if err == nil {
			kept.Blocks = append(kept.Blocks, copied)
		} else if first == nil {
			first = fmt.Errorf("block %d of the output was left out: %w", i, err)
		}
	}
	return kept, first
}

func cleanBlock(b message.Block) (message.Block, error) {
	switch b := b.(type) {
	case *message.TextBlock:
		if b != nil {
			copied := *b
			copied.Text = repair(b.Text)
			complete(&copied.ID, &copied.CreatedAt, &copied.FinishedAt)
			return &copied, nil
		}
	case *message.DataBlock:
		if b != nil && b.Source != nil {
			copied := *b
			complete(&copied.ID, &copied.CreatedAt, &copied.FinishedAt)
			return &copied, nil
		}
	case *message.UnknownBlock:
		if b != nil {
			copied := *b
			return &copied, nil
		}
	case *message.ThinkingBlock, *message.HintBlock, *message.ToolCallBlock, *message.ToolResultBlock:
		return nil, fmt.Errorf("an output holds text and data, not %T", b)
	}
	return nil, fmt.Errorf("%T is empty", b)
}

// complete fills in what a handler may leave out of a block.
func complete(id, created *string, finished **string) {
	now := timestamp()
	if *id == "" {
		*id = newID()
	}
	if *created == "" {
		*created = now
	}
	if *finished == nil {
		*finished = &now
	}
}

func newText(text string) *message.TextBlock {
	b := &message.TextBlock{Text: text}
	complete(&b.ID, &b.CreatedAt, &b.FinishedAt)
	return b
}

// contentLen is how many bytes the content takes as JSON, without the quotes or
// brackets around it.
func contentLen(c message.Content) int {
	if !c.IsList() {
		return jsonLen(c.Text)
	}
	n := 0
	for _, b := range c.Blocks {
		n += blockLen(b)
	}
	return n
}

// blockLen is the length of a clean block's JSON form and the comma after it.
func blockLen(b message.Block) int {
	j, err := strictjson.Marshal(message.List(b))
	if err != nil {
		return 0 // cannot be: clean left such blocks out
	}
	return len(j)
}

// shortened keeps the beginning of a content within limit bytes of JSON: whole
// blocks, then the beginning of a text block.
func shortened(c message.Content, limit int) message.Content {
	if contentLen(c) <= limit {
		return c
	}
	if !c.IsList() {
		return message.Content{Text: clip(c.Text, limit)}
	}
	kept := message.List()
	for _, b := range c.Blocks {
		n := blockLen(b)
		if n > limit {
			if t, ok := b.(*message.TextBlock); ok {
				short := *t
				short.Text = clip(t.Text, limit-(n-jsonLen(t.Text)))
				if short.Text != "" {
					kept.Blocks = append(kept.Blocks, &short)
				}
			}
			break
		}
		kept.Blocks = append(kept.Blocks, b)
		limit -= n
	}
	return kept
}

// line makes a text fit to be a line of progress.
func line(text string) string {
	return clip(repair(strings.TrimRight(text, "\r\n")), toolcall.MaxTextBytes)
}

// repair replaces what is not UTF-8 by U+FFFD.
func repair(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// clip keeps the beginning of s, which is valid UTF-8, within limit bytes as
// jsonLen counts them. It cuts between characters.
func clip(s string, limit int) string {
	n := 0
	for i, r := range s {
		if n += runeLen(r); n > limit {
			return s[:i]
		}
	}
	return s
}

// jsonLen is how many bytes s, which is valid UTF-8, takes as a JSON string,
// without the quotes.
func jsonLen(s string) int {
	n := 0
	for _, r := range s {
		n += runeLen(r)
	}
	return n
}

func runeLen(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
		return 2
	case r < ' ':
		return len(`\u0000`)
	}
	return utf8.RuneLen(r)
}
