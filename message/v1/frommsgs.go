package v1

import (
	"cmp"
	"maps"
	"slices"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// FromMsgs converts AgentScope 2.0 messages to dicts. An assistant's message becomes a
// dict for the content before each run of results, and a dict of the system for each
// run. Messages that ToMsgs made become the dicts that they were made of, with their
// ids, and more dicts for what was added since. New ids are derived from the message's
// id: the same messages give the same dicts.
func (c Codec) FromMsgs(list []*message.Msg) ([]*Msg, error) {
	var out []*Msg
	for i, m := range list {
		if m == nil {
			return nil, message.Errorf(message.CodeInvalid, "convert to 1.x messages", "messages[%d]: there is none", i)
		}
		if err := m.Validate(); err != nil {
			return nil, message.Errorf(message.CodeInvalid, "convert to 1.x messages", "messages[%d] (id %.60q): %w", i, m.ID, err)
		}
		s := splitter{c: c, m: m, ended: map[message.CallID]bool{}}
		for _, r := range message.BlocksOf[*message.ToolResultBlock](m) {
			s.ended[r.ID] = s.ended[r.ID] || r.State != message.ToolResultRunning
		}
		s.fields()
		s.restore(partsOf(m))
		s.split()
		if s.err != nil {
			return nil, message.Errorf(message.CodeInvalid, "convert to 1.x messages", "messages[%d] (id %.60q): %w", i, m.ID, s.err)
		}
		out = append(out, s.out...)
	}
	return out, nil
}

// splitter splits one message into dicts.
type splitter struct {
	c Codec
	m *message.Msg
	// ended are the calls with a result that is no longer running.
	ended map[message.CallID]bool
	at    int // the first block that is in no dict yet
	out   []*Msg
	err   error
}

// fields reports the fields that dicts have no place for.
func (s *splitter) fields() {
	m := s.m
	if m.Usage != nil || m.FinishedReason != nil || m.StructuredOutput != nil || m.Error != nil {
		s.c.reportLoss(rowMsgFields, m.ID, "usage, finished_reason, structured_output or error")
	}
}

// restore writes the dicts that the message was made of.
func (s *splitter) restore(parts []part) {
	for i, p := range parts {
		blocks := s.m.Content[s.at : s.at+p.Blocks]
		s.at += p.Blocks
		d := &Msg{Dialect: s.c.Dialect, ID: p.ID, Name: p.Name, Role: p.Role, Timestamp: p.Timestamp, Content: s.content(blocks)}
		if p.Text {
			d.Content = Content{Text: blocks[0].(*message.TextBlock).Text}
		}
		md, _ := p.Metadata.(map[string]any)
		if i == 0 {
			md = maps.Clone(s.m.Metadata)
			delete(md, reserved)
		}
		if p.Invocation {
			md = maps.Clone(md)
			delete(md, "invocation_id")
		}
		if v := s.request(blocks); v != nil {
			md = maps.Clone(md)
			if md == nil {
				md = map[string]any{}
			}
			md[own] = v
		}
		s.put(d, md, p.Shape)
	}
}

// put adds a dict with its metadata.
func (s *splitter) put(d *Msg, md map[string]any, shape string) {
	value, isValue := md["value"]
	var v any = md
	switch {
	case shape == shapeNull && len(md) == 0:
		s.out = append(s.out, d)
		return
	case shape == shapeValue && isValue && len(md) == 1:
		v = value
	case md == nil:
		v = map[string]any{}
	}
	raw, err := strictjson.Marshal(v)
	if err != nil && s.err == nil {
		s.err = err
	}
	d.Metadata = raw
	s.out = append(s.out, d)
}

// kindOfRun says which blocks are together in one dict.
type kindOfRun int

const (
	runContent kindOfRun = iota
	runResults
	runHint
)

func runOf(b message.Block) kindOfRun {
	switch b.Type() {
	case message.BlockToolResult:
		return runResults
	case message.BlockHint:
		return runHint
	}
	return runContent
}

// split writes dicts for the remaining blocks.
func (s *splitter) split() {
	rest := s.m.Content[s.at:]
	if len(s.out) == 0 && (len(rest) == 0 || runOf(rest[0]) != runContent) {
		s.dict(runContent, nil) // has the speaker and the message's id
	}
	for len(rest) > 0 {
		kind, n := runOf(rest[0]), 1
		for n < len(rest) && runOf(rest[n]) == kind && kind != runHint {
			n++
		}
		s.dict(kind, rest[:n])
		rest = rest[n:]
	}
}

func (s *splitter) dict(kind kindOfRun, blocks []message.Block) {
	n := len(s.out)
	d := &Msg{Dialect: s.c.Dialect, ID: s.c.partID(s.m.ID, n), Name: s.m.Name, Role: s.m.Role, Timestamp: s.c.timestamp(s.m.CreatedAt)}
	md := map[string]any{}
	if n == 0 {
		maps.Copy(md, s.m.Metadata)
		delete(md, reserved)
	} else if at := createdAt(blocks); at != "" {
		d.Timestamp = s.c.timestamp(at)
	}
	switch kind {
	case runResults:
		d.Name, d.Role = "system", message.RoleSystem
	case runHint:
		s.c.reportLoss(rowHint, s.m.ID, "that a hint is not said by a user")
		d.Name, d.Role = "user", message.RoleUser
		if src := blocks[0].(*message.HintBlock).Source; src != nil && *src != "" {
			d.Name = *src
		}
	case runContent: // keeps the name and role of the message
	}
	d.Content = s.content(blocks)
	if kind == runResults && len(d.Content.Blocks) == 0 {
		return // only results that are still running
	}
	if _, taken := md[own]; taken {
		s.c.reportLoss(rowReserved, s.m.ID, "the member "+own+" of metadata")
	}
	v := s.request(blocks)
	if v == nil {
		v = map[string]any{}
	}
	v["reply_id"], v["part"] = s.m.ID, int64(n)
	md[own] = v
	s.put(d, md, "")
}

func createdAt(blocks []message.Block) string {
	if len(blocks) == 0 {
		return ""
	}
	switch b := blocks[0].(type) {
	case *message.TextBlock:
		return b.CreatedAt
	case *message.ThinkingBlock:
		return b.CreatedAt
	case *message.DataBlock:
		return b.CreatedAt
	case *message.HintBlock:
		return b.CreatedAt
	case *message.ToolCallBlock:
		return b.CreatedAt
	case *message.ToolResultBlock:
		return b.CreatedAt
	case *message.UnknownBlock:
	}
	return ""
}

// content converts blocks and leaves out those without a place.
func (s *splitter) content(blocks []message.Block) Content {
	out := Content{Blocks: []Block{}}
	for _, b := range blocks {
		out.Blocks = append(out.Blocks, s.block(b)...)
	}
	return out
}

// openCalls returns the calls among the blocks that have no result yet and whose state
// is not just pending.
func (s *splitter) openCalls(blocks []message.Block) []*message.ToolCallBlock {
	var out []*message.ToolCallBlock
	seen := map[message.CallID]bool{}
	for _, b := range blocks {
		call, ok := b.(*message.ToolCallBlock)
		if !ok || seen[call.ID] || s.ended[call.ID] || call.State == message.ToolCallFinished || call.State == message.ToolCallPending {
			continue
		}
		seen[call.ID] = true
		out = append(out, call)
	}
	return out
}

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
		if guessMediaType(src.URL, kindOf(src.MediaType)) != src.MediaType || b.Name != nil && *b.Name != lastPart(src.URL) {
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
	case message.ToolResultSuccess, message.ToolResultRunning:
		if isInterrupted(b.Output) { // 1.x has no other sign of it
			s.c.reportLoss(rowResult, s.m.ID, "that the result "+string(b.ID)+" is success")
		}
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
