package executor

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// result turns what a handler returned into the block that ends the call. The block can
// always be stored, is within the limits and has a final state: if the engine had to refuse
// a result, the call would be stuck.
func result(t Task, out Output, err error) message.ToolResultBlock {
	return resultWithin(maxOutput, t, out, err)
}

// resultWithin is result with another limit, which must leave room for the faults.
func resultWithin(limit int, t Task, out Output, err error) message.ToolResultBlock {
	now := timestamp()
	res := message.ToolResultBlock{
		ID: t.Call.Call, Name: t.Tool, State: out.State, Metadata: map[string]any{},
		CreatedAt: now, FinishedAt: &now,
	}
	var faults []error // each turns a success into an error and is added to the text
	switch out.State {
	case "":
		res.State = message.ToolResultSuccess
	case message.ToolResultSuccess, message.ToolResultError, message.ToolResultInterrupted, message.ToolResultDenied:
	default:
		res.State = message.ToolResultError
		faults = append(faults, fmt.Errorf("the tool returned the state %q, which ends no call", clip(string(out.State), 64)))
	}
	content, cerr := clean(out.Content)
	metadata, metadataLen, merr := cleanMetadata(out.Metadata)
	if out.dropped == 0 && !isUTF8(out.Content) { // a cut can fall within a character
		metadata[RepairedMember] = true
		metadataLen += len(`,"":true`) + len(RepairedMember)
	}
	res.Metadata, faults = metadata, append(faults, err, cerr, merr)

	size := metadataLen + contentLen(content) + out.dropped
	note := faultText(faults)
	if n := size + noteLen(note); n > limit {
		faults = append(faults, &OutputError{Bytes: size, Limit: limit})
		note = faultText(faults)
		content = shortenContent(content, limit-metadataLen-noteLen(note))
	}
	if note != "" && res.State == message.ToolResultSuccess {
		res.State = message.ToolResultError
	}
	res.Output = appendNote(content, note)
	return res
}

// RepairedMember is the member of a result's metadata which says that the output was not UTF-8, and
// that U+FFFD stands for what could not be read.
const RepairedMember = "invalid_utf8"

func isUTF8(c message.Content) bool {
	return utf8.ValidString(c.Text) && !slices.ContainsFunc(c.Blocks, func(b message.Block) bool {
		t, ok := b.(*message.TextBlock)
		return ok && t != nil && !utf8.ValidString(t.Text)
	})
}

// maxOutput limits the content of a result. The engine's limit is for output, state and
// metadata as one JSON object; the difference is for the members around them.
const maxOutput = toolcall.MaxOutputBytes - 128

// noteLen returns an upper bound for the size of a note as JSON, as a line or a block.
func noteLen(note string) int {
	const block = 256 // more than a text block needs in addition to its text
	if note == "" {
		return 0
	}
	return jsonLen(note) + block
}

// faultText joins the faults, one per line, each of limited length.
func faultText(faults []error) string {
	var lines []string
	for _, err := range faults {
		if err == nil {
			continue
		}
		text := repair(err.Error())
		if short := clip(text, toolcall.MaxTextBytes); short != text {
			text = short + " […]"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// appendNote adds note after the content, as a separate line or block.
func appendNote(c message.Content, note string) message.Content {
	switch {
	case note == "":
	case c.IsList():
		c.Blocks = append(slices.Clip(c.Blocks), newText(note))
	case c.Text == "" || strings.HasSuffix(c.Text, "\n"):
		c.Text += note
	default:
		c.Text += "\n" + note
	}
	return c
}

// cleanMetadata copies m through its JSON form, so that it can be stored and the handler
// can no longer change it, and returns the size of that form. Metadata that is too large or
// has no JSON form is dropped.
func cleanMetadata(m map[string]any) (clean map[string]any, size int, err error) {
	none := map[string]any{}
	if len(m) == 0 {
		return none, 0, nil
	}
	b, err := strictjson.Marshal(m)
	if err != nil {
		return none, 0, fmt.Errorf("the result's metadata was dropped: %w", err)
	}
	if len(b) > toolcall.MaxTextBytes {
		return none, 0, fmt.Errorf("the result's metadata of %d bytes was dropped, the limit is %d", len(b), toolcall.MaxTextBytes)
	}
	if clean, err = strictjson.Object(b); err != nil {
		return none, 0, fmt.Errorf("the result's metadata was dropped: %w", err)
	}
	return clean, len(b), nil
}

// timestamp returns the current time in UTC, in AgentScope's format.
func timestamp() string { return message.Timestamp(time.Now().UTC()) }

// clean copies a content so that it can be stored. It repairs text, fills in missing ids
// and times of blocks, and leaves out blocks that no output may have; the error names the
// first of them.
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
			fillIn(&copied.ID, &copied.CreatedAt, &copied.FinishedAt)
			return &copied, nil
		}
	case *message.DataBlock:
		if b != nil && b.Source != nil {
			copied := *b
			fillIn(&copied.ID, &copied.CreatedAt, &copied.FinishedAt)
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

// fillIn sets the members of a block that a handler may leave out.
func fillIn(id, created *string, finished **string) {
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
	fillIn(&b.ID, &b.CreatedAt, &b.FinishedAt)
	return b
}

// contentLen returns the size of the content as JSON, without the quotes or brackets
// around it.
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

// blockLen returns the size of a clean block as JSON, with the comma after it.
func blockLen(b message.Block) int {
	j, err := strictjson.Marshal(message.List(b))
	if err != nil {
		return 0 // cannot happen: clean left such blocks out
	}
	return len(j)
}

// shortenContent returns the beginning of a content, at most limit bytes of JSON: whole
// blocks, then the beginning of a text block.
func shortenContent(c message.Content, limit int) message.Content {
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

// line turns a text into a valid line of progress.
func line(text string) string {
	return clip(repair(strings.TrimRight(text, "\r\n")), toolcall.MaxTextBytes)
}

// repair replaces invalid UTF-8 with U+FFFD.
func repair(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// clip returns the beginning of s, which is valid UTF-8, with at most limit bytes as
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

// jsonLen returns the size of s, which is valid UTF-8, as a JSON string without the quotes.
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
