package v1

import (
	"cmp"
	"slices"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// block converts a block of a 2.0 message into any number of blocks.
func (s *splitter) block(b message.Block) []Block {
	switch b := b.(type) {
	case *message.TextBlock:
		return []Block{&TextBlock{Text: b.Text}}
	case *message.ThinkingBlock:
		return []Block{&ThinkingBlock{Thinking: b.Thinking, Extra: slices.Clone(b.Extra)}}
	case *message.DataBlock:
		return []Block{s.media(b)}
	case *message.HintBlock:
		if b.Hint.IsList() {
			return s.content(b.Hint.Blocks).Blocks
		}
		return []Block{&TextBlock{Text: b.Hint.Text}}
	case *message.ToolCallBlock:
		return []Block{s.call(b)}
	case *message.ToolResultBlock:
		return s.result(b)
	case *message.UnknownBlock:
		return s.keepUnknown(b)
	}
	return nil
}

// known are the types that the reader of a dict recognizes. A block of a type unknown
// to 2.0 must not become one of them in the conversion.
var known = []message.BlockType{"text", "thinking", "image", "audio", "video", "file", "tool_use", "tool_result", "tool_call", "data", "hint"}

func (s *splitter) keepUnknown(b *message.UnknownBlock) []Block {
	if slices.Contains(known, b.Kind) || strictjson.Check(b.Raw, strictjson.MaxBytes(len(b.Raw)), strictjson.MaxDepth(maxDepth-4)) != nil {
		s.c.reportLoss(rowUnknown, s.m.ID, "a block of type "+string(b.Kind))
		return nil
	}
	return []Block{&UnknownBlock{Kind: BlockType(b.Kind), Raw: slices.Clone(b.Raw)}}
}

func (s *splitter) media(b *message.DataBlock) Block {
	switch src := b.Source.(type) {
	case *message.URLSource:
		if guess(src.URL, kindOf(src.MediaType)) != src.MediaType || b.Name != nil && *b.Name != lastPart(src.URL) {
			s.c.reportLoss(rowData, s.m.ID, "media_type and name of "+src.URL)
		}
		return &MediaBlock{Kind: kindOf(src.MediaType), URL: src.URL}
	case *message.Base64Source:
		if b.Name != nil {
			s.c.reportLoss(rowData, s.m.ID, "the name "+*b.Name)
		}
		mediaType := cmp.Or(src.MediaType, "application/octet-stream")
		return &MediaBlock{Kind: kindOf(mediaType), Data: src.Data, MediaType: mediaType}
	}
	return &TextBlock{}
}

// call writes the input as an object and, if the object does not lead back to it byte
// for byte, also as the model sent it.
func (s *splitter) call(b *message.ToolCallBlock) Block {
	if b.State != message.ToolCallFinished && b.State != message.ToolCallPending || len(b.SuggestedRules) > 0 {
		s.c.reportLoss(RowCallState, s.m.ID, "state and suggested_rules of "+string(b.ID))
	}
	u := &ToolUseBlock{ID: b.ID, Name: b.Name, Input: message.RawJSON(b.Input)}
	canonical, err := s.canonical(b.Input)
	if err != nil {
		u.Input = message.RawJSON("{}")
	}
	if err != nil || canonical != b.Input {
		input := b.Input
		u.RawInput = &input
	}
	return u
}

// canonical returns what an input that is an object is read back as.
func (s *splitter) canonical(input string) (string, error) {
	raw := []byte(input)
	if k := strictjson.KindOf(raw); k != "object" {
		return "", strictjson.Wrong(strictjson.ErrType, "want object, got %s", k)
	}
	if err := strictjson.Check(raw, strictjson.MaxBytes(len(raw)), strictjson.MaxDepth(maxDepth-4)); err != nil {
		return "", err
	}
	return canonical(raw), nil
}

// canonical returns RFC 8785's form of an object, or the object unchanged if a number
// in it has none.
func canonical(raw []byte) string {
	out, err := jcs.Canonicalize(raw)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// result writes how the call ended into its text, because dicts have no state. A result
// that is still running is left out, so the call stays open.
func (s *splitter) result(b *message.ToolResultBlock) []Block {
	if b.State == message.ToolResultRunning || b.State == "" {
		s.c.reportLoss(rowRunning, s.m.ID, "the output so far of "+string(b.ID))
		return nil
	}
	if len(b.Metadata) > 0 {
		s.c.reportLoss(rowResult, s.m.ID, "metadata of the result "+string(b.ID))
	}
	r := &ToolResultBlock{ID: b.ID, Name: b.Name, Output: Output{Text: b.Output.Text}}
	if b.Output.IsList() {
		r.Output.Blocks = s.content(b.Output.Blocks).Blocks
	}
	say := ""
	switch b.State {
	case message.ToolResultInterrupted:
		if !isInterrupted(b.Output) {
			say = tagSystemInfo(interruptedText)
		}
	case message.ToolResultDenied, message.ToolResultError:
		s.c.reportLoss(rowResult, s.m.ID, "that the result "+string(b.ID)+" is "+string(b.State))
		say = tagSystemInfo("The tool call ended with the state " + string(b.State) + ".")
	case message.ToolResultSuccess, message.ToolResultRunning: // nothing to say
	}
	switch {
	case say == "":
	case r.Output.Blocks != nil:
		r.Output.Blocks = append(r.Output.Blocks, &TextBlock{Text: say})
	case r.Output.Text == "":
		r.Output.Text = say
	default:
		r.Output.Blocks = []Block{&TextBlock{Text: r.Output.Text}, &TextBlock{Text: say}}
	}
	return []Block{r}
}

func tagSystemInfo(text string) string { return "<system-info>" + text + "</system-info>" }
