package v1

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// ToMsgs converts a conversation of dicts to AgentScope 2.0 messages. An assistant's
// dict, the dicts after it that contain only results, and the assistant's next dicts
// become one message with the id of the first dict. A result goes to the message with
// its call, wherever that is. ToMsgs fails on what 2.0 forbids and cannot be converted:
// calls and thinking of users and of the system.
func (c Codec) ToMsgs(list []*Msg) ([]*message.Msg, error) {
	j := joiner{c: c, calls: map[message.CallID][]*joined{}}
	for i, m := range list {
		if m == nil {
			return nil, message.Errorf(message.CodeInvalid, "convert 1.x messages", "messages[%d]: there is none", i)
		}
		if err := j.add(m); err != nil {
			return nil, message.Errorf(message.CodeInvalid, "convert 1.x messages", "messages[%d] (id %.60q): %w", i, m.ID, err)
		}
	}
	return j.finish()
}

// joiner builds messages from dicts.
type joiner struct {
	c     Codec
	out   []*joined
	group *joined // the assistant's message that may continue
	calls map[message.CallID][]*joined
}

// joined is a message and the dicts it was made of.
type joined struct {
	m     *message.Msg
	parts []part
	// results says that the last dict contained results, so the assistant's next dict
	// belongs to this message.
	results bool
	links   int // the number of dicts that are parts of this message, see link
	// names of the calls, and which of them have a result. They are maps because a
	// message may contain thousands of calls.
	names    map[message.CallID]string
	answered map[message.CallID]bool
}

func (j *joiner) add(m *Msg) error {
	switch {
	case onlyResults(m):
		j.results(m, m.Content.Blocks)
		return nil
	case m.Role == message.RoleAssistant:
		return j.assistant(m)
	case m.Role == message.RoleUser:
		j.group = nil
		return j.user(m, m.Content.Blocks, message.RoleUser)
	default:
		j.group = nil
		return j.system(m)
	}
}

// onlyResults reports whether a dict of the system or of a user contains only results.
func onlyResults(m *Msg) bool {
	return m.Role != message.RoleAssistant && len(m.Content.Blocks) > 0 &&
		!slices.ContainsFunc(m.Content.Blocks, func(b Block) bool { return b.Type() != BlockToolResult })
}

// assistant begins a message or continues the previous one.
func (j *joiner) assistant(m *Msg) error {
	l, linked := linkOf(m)
	g := j.group
	if g == nil || !g.results || g.m.Name != m.Name || linked && g.isLinked() && string(l.Reply) != g.m.ID {
		g = j.begin(m, message.RoleAssistant)
		j.group = g
	}
	g.results = false
	n := len(g.m.Content)
	if err := j.blocks(g, m, m.Content, message.RoleAssistant); err != nil {
		return err
	}
	g.notePart(m, l, linked, len(g.m.Content)-n)
	return nil
}

// begin makes an empty message from a dict.
func (j *joiner) begin(m *Msg, role message.MsgRole) *joined {
	at := j.c.iso(m.Timestamp)
	out := &message.Msg{ID: m.ID, Name: m.Name, Role: role, CreatedAt: at, Content: []message.Block{}, Metadata: metadataOf(m)}
	if role != message.RoleAssistant {
		out.FinishedAt = &at
	}
	if _, ok := out.Metadata[reserved]; ok {
		j.c.reportLoss(rowReserved, m.ID, "the member "+reserved+" of metadata")
		delete(out.Metadata, reserved)
	}
	if l, linked := linkOf(m); linked {
		delete(out.Metadata, own)
		if l.Part == 0 {
			out.ID = string(l.Reply)
		}
	}
	if m.InvocationID != "" {
		out.Metadata["invocation_id"] = m.InvocationID
	}
	g := &joined{m: out, names: map[message.CallID]string{}, answered: map[message.CallID]bool{}}
	j.out = append(j.out, g)
	return g
}

// results adds each result to the message with its call.
func (j *joiner) results(m *Msg, list []Block) {
	l, linked := linkOf(m)
	for len(list) > 0 {
		g := j.place(m, list[0].(*ToolResultBlock).ID)
		n := 1
		for n < len(list) && j.place(m, list[n].(*ToolResultBlock).ID) == g {
			n++
		}
		for _, b := range list[:n] {
			j.result(g, m, b.(*ToolResultBlock))
		}
		if g != j.group {
			j.c.reportLoss(rowResults, m.ID, "that results came after another message")
		} else {
			g.results = true
		}
		g.notePart(m, l, linked, n)
		list = list[n:]
	}
}

// place returns the message that a result belongs to: the latest one with that call and
// no result for it, else the latest one with the call, else the open one, else a new
// one.
func (j *joiner) place(m *Msg, id message.CallID) *joined {
	for _, unanswered := range []bool{true, false} {
		for _, g := range slices.Backward(j.calls[id]) {
			if !unanswered || !g.answered[id] {
				return g
			}
		}
	}
	j.c.reportLoss(rowResults, m.ID, "which call the result "+string(id)+" belongs to")
	if j.group == nil {
		j.group = j.begin(m, message.RoleAssistant)
	}
	return j.group
}

func (j *joiner) result(g *joined, m *Msg, b *ToolResultBlock) {
	if len(b.Extra) > 0 {
		j.c.reportLoss(rowExtra, m.ID, "members of the result "+string(b.ID))
	}
	at := j.c.iso(m.Timestamp)
	r := &message.ToolResultBlock{
		ID: b.ID, Name: cmp.Or(b.Name, g.names[b.ID]), Output: j.output(g, m, b), State: message.ToolResultSuccess,
		Metadata: map[string]any{}, CreatedAt: at, FinishedAt: &at,
	}
	g.answered[b.ID] = true
	if isInterrupted(r.Output) {
		r.State = message.ToolResultInterrupted
	}
	g.m.Content = append(g.m.Content, r)
}

// user makes a message from text and data. Results among them go to their calls.
func (j *joiner) user(m *Msg, list []Block, from message.MsgRole) error {
	var rest, results []Block
	for _, b := range list {
		if b.Type() == BlockToolResult {
			results = append(results, b)
		} else {
			rest = append(rest, b)
		}
	}
	if len(results) > 0 {
		j.c.reportLoss(rowResults, m.ID, "that results stood next to other content")
		j.results(m, results)
		j.group = nil
	}
	content := Content{Text: m.Content.Text, Blocks: rest}
	if m.Content.IsList() && rest == nil {
		content.Blocks = []Block{}
	}
	g := j.begin(m, from)
	l, linked := linkOf(m)
	if err := j.blocks(g, m, content, from); err != nil {
		return err
	}
	g.notePart(m, l, linked, len(g.m.Content))
	return nil
}

// system makes a message from text. Media, which a system message of 2.0 cannot
// contain, become a user's message; this removes authority and adds none.
func (j *joiner) system(m *Msg) error {
	isMedia := func(b Block) bool { _, ok := b.(*MediaBlock); return ok }
	if !slices.ContainsFunc(m.Content.Blocks, isMedia) {
		return j.user(m, m.Content.Blocks, message.RoleSystem)
	}
	var media []Block
	rest := slices.Clone(m.Content.Blocks)
	for i := 0; i < len(rest); {
		if isMedia(rest[i]) {
			media, rest = append(media, rest[i]), slices.Delete(rest, i, i+1)
		} else {
			i++
		}
	}
	if len(rest) > 0 {
		if err := j.user(m, rest, message.RoleSystem); err != nil {
			return err
		}
	}
	j.c.reportLoss(rowSystem, m.ID, "that the system showed media")
	shown := *m
	shown.Content = List(media...)
	if len(rest) > 0 {
		shown.ID = j.c.partID(m.ID, 1)
	}
	return j.user(&shown, media, message.RoleUser)
}

// finish sets the states of calls and records the dicts that messages were made of.
func (j *joiner) finish() ([]*message.Msg, error) {
	out := make([]*message.Msg, len(j.out))
	for i, g := range j.out {
		for _, call := range message.BlocksOf[*message.ToolCallBlock](g.m) {
			if g.answered[call.ID] {
				call.State = message.ToolCallFinished
			}
		}
		if err := g.m.Validate(); err != nil {
			return nil, err
		}
		if !g.isLinked() {
			g.m.Metadata[reserved] = partsValue(g.parts)
		}
		out[i] = g.m
	}
	return out, nil
}

// isLinked reports whether every dict is part of this very message, so nothing must be
// recorded.
func (j *joined) isLinked() bool { return j.links > 0 && j.links == len(j.parts) }

// notePart records a dict that became n blocks of the message.
func (j *joined) notePart(m *Msg, l link, linked bool, n int) {
	if linked && string(l.Reply) == j.m.ID && l.Part == len(j.parts) {
		j.links++
	}
	j.parts = append(j.parts, partOf(m, n, len(j.parts) == 0))
}

// blocks converts content into the message's blocks.
func (j *joiner) blocks(g *joined, m *Msg, content Content, role message.MsgRole) error {
	list := content.Blocks
	if !content.IsList() {
		list = []Block{&TextBlock{Text: content.Text}}
	}
	for _, b := range list {
		if r, ok := b.(*ToolResultBlock); ok { // of an assistant; other results were removed before
			j.result(g, m, r)
			continue
		}
		out, err := j.block(g, m, b, role)
		if err != nil {
			return err
		}
		if out != nil {
			g.m.Content = append(g.m.Content, out)
		}
		if call, ok := out.(*message.ToolCallBlock); ok {
			if _, twin := g.names[call.ID]; !twin {
				g.names[call.ID] = call.Name
				j.calls[call.ID] = append(j.calls[call.ID], g)
			}
		}
	}
	return nil
}

// block converts one block; it returns nil if the block is lost.
func (j *joiner) block(g *joined, m *Msg, b Block, role message.MsgRole) (message.Block, error) {
	id, at := blockID(g.m.ID, len(g.m.Content)), j.c.iso(m.Timestamp)
	switch b := b.(type) {
	case *TextBlock:
		j.c.loseExtra(rowExtra, m, b.Extra)
		return &message.TextBlock{Text: b.Text, ID: id, CreatedAt: at, FinishedAt: &at}, nil
	case *MediaBlock:
		j.c.loseExtra(rowExtra, m, b.Extra)
		return j.data(m, b, id), nil
	case *ThinkingBlock:
		if role != message.RoleAssistant {
			return nil, fmt.Errorf("a %s message cannot hold thinking", role)
		}
		return &message.ThinkingBlock{Thinking: b.Thinking, ID: id, CreatedAt: at, FinishedAt: &at, Extra: j.keepExtra(m, b.Extra)}, nil
	case *ToolUseBlock:
		if role != message.RoleAssistant {
			return nil, fmt.Errorf("a %s message cannot hold the call %.60q", role, string(b.ID))
		}
		j.c.loseExtra(rowExtra, m, b.Extra)
		return &message.ToolCallBlock{
			ID: b.ID, Name: b.Name, Input: j.input(m, b), State: message.ToolCallPending,
			SuggestedRules: []message.PermissionRule{}, CreatedAt: at, FinishedAt: &at,
		}, nil
	case *UnknownBlock:
		if role == message.RoleAssistant && b.Kind != "" {
			return keepUnknown(b), nil
		}
		j.c.reportLoss(rowUnknown, m.ID, "a block of type "+string(b.Kind))
		return nil, nil
	case *ToolResultBlock: // a result inside a result is never read
		return nil, errors.New("a result inside another")
	}
	return nil, errors.New("there is no block")
}

// keepUnknown passes a block on unchanged.
func keepUnknown(b *UnknownBlock) message.Block {
	u := new(message.UnknownBlock)
	if err := u.UnmarshalJSON(b.Raw); err != nil {
		return &message.UnknownBlock{Kind: message.BlockType(b.Kind), Raw: b.Raw}
	}
	return u
}

// keepExtra returns the members that a thinking block of 2.0 can have in addition to its own.
func (j *joiner) keepExtra(m *Msg, extra []message.Member) []message.Member {
	return slices.DeleteFunc(slices.Clone(extra), func(x message.Member) bool {
		own := x.Name == "id" || x.Name == "created_at" || x.Name == "finished_at"
		if own {
			j.c.loseExtra(rowExtra, m, []message.Member{x})
		}
		return own
	})
}

// input returns the call's input as text: what the model sent, or the canonical form of
// the object. RFC 8785 cannot represent every number; objects with such numbers are
// unchanged.
func (j *joiner) input(m *Msg, b *ToolUseBlock) string {
	input := canonical(b.Input)
	if b.RawInput == nil {
		return input
	}
	if sent, err := jcs.Canonicalize([]byte(*b.RawInput)); err == nil && string(sent) != input {
		j.c.reportLoss(rowRawInput, m.ID, "the input of "+string(b.ID)+", which is not what its raw_input says")
	}
	return *b.RawInput
}

// data converts a media block. A URL that is not valid becomes text.
func (j *joiner) data(m *Msg, b *MediaBlock, id string) message.Block {
	at := j.c.iso(m.Timestamp)
	d := &message.DataBlock{ID: id, CreatedAt: at, FinishedAt: &at}
	if b.URL == "" && b.MediaType != "" {
		if kindOf(b.MediaType) != b.Kind {
			j.c.reportLoss(rowMediaType, m.ID, "that "+b.MediaType+" was shown as "+string(b.Kind))
		}
		d.Source = &message.Base64Source{Data: b.Data, MediaType: b.MediaType}
		return d
	}
	if src, ok := readDataURL(b.URL); ok {
		if kindOf(src.MediaType) != b.Kind {
			j.c.reportLoss(rowMediaType, m.ID, "that "+src.MediaType+" was shown as "+string(b.Kind))
		}
		d.Source = src
		return d
	}
	src, err := message.NewURLSource(b.URL, guessMediaType(b.URL, b.Kind))
	if err != nil {
		j.c.reportLoss(rowURL, m.ID, "that "+b.URL+" is an "+string(b.Kind))
		return &message.TextBlock{Text: b.URL, ID: id, CreatedAt: at, FinishedAt: &at}
	}
	if src.URL != b.URL {
		j.c.reportLoss(rowURL, m.ID, "the spelling of "+b.URL)
	}
	d.Source = src
	if name := lastPart(b.URL); b.Kind == BlockFile && name != "" {
		d.Name = &name
	}
	return d
}

func (j *joiner) output(g *joined, m *Msg, b *ToolResultBlock) message.Content {
	switch {
	case b.Output.Raw != nil:
		j.c.reportLoss(rowOutput, m.ID, "that the output of "+string(b.ID)+" was JSON and no text")
		return message.Content{Text: string(b.Output.Raw)}
	case b.Output.Blocks == nil:
		return message.Content{Text: b.Output.Text}
	}
	out := []message.Block{}
	for i, x := range b.Output.Blocks {
		id, at := blockID(g.m.ID+"/"+string(b.ID), i), j.c.iso(m.Timestamp)
		switch x := x.(type) {
		case *TextBlock:
			j.c.loseExtra(rowExtra, m, x.Extra)
			out = append(out, &message.TextBlock{Text: x.Text, ID: id, CreatedAt: at, FinishedAt: &at})
		case *MediaBlock:
			j.c.loseExtra(rowExtra, m, x.Extra)
			out = append(out, j.data(m, x, id))
		default:
			j.c.reportLoss(rowUnknown, m.ID, "a block of type "+string(x.Type())+" in a result")
		}
	}
	return message.Content{Blocks: out}
}

// interruptedText is the result that 1.x gives a call that a person interrupted; some
// versions put it into a tag.
const interruptedText = "The tool call has been interrupted by the user."

// isInterrupted reports whether the content, or its last block, is that sentence.
func isInterrupted(c message.Content) bool {
	text := c.Text
	if n := len(c.Blocks); n > 0 {
		last, ok := c.Blocks[n-1].(*message.TextBlock)
		if !ok {
			return false
		}
		text = last.Text
	}
	for _, tag := range []string{"system-info", "system-reminder"} {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "<"+tag+">"), "</"+tag+">")
	}
	return text == interruptedText
}
