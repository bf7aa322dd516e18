package v1

import (
	"maps"

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
