package v1

import (
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

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
		return nil, fmt.Errorf("a result inside another")
	}
	return nil, fmt.Errorf("there is no block")
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
	if src, ok := inline(b.URL); ok {
		if kindOf(src.MediaType) != b.Kind {
			j.c.reportLoss(rowMediaType, m.ID, "that "+src.MediaType+" was shown as "+string(b.Kind))
		}
		d.Source = src
		return d
	}
	src, err := message.NewURLSource(b.URL, guess(b.URL, b.Kind))
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
