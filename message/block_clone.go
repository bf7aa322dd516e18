package message

import (
	"bytes"
	"slices"
)

// Clone returns a deep copy of the message.
func (m *Msg) Clone() *Msg {
	d := *m
	d.Content = cloneBlocks(m.Content)
	d.Metadata = cloneMap(m.Metadata)
	d.Usage = clonePtr(m.Usage)
	d.FinishedAt = clonePtr(m.FinishedAt)
	d.FinishedReason = clonePtr(m.FinishedReason)
	d.StructuredOutput = cloneMap(m.StructuredOutput)
	d.Error = clonePtr(m.Error)
	return &d
}

// Clone returns a deep copy of the content.
func (c Content) Clone() Content { return Content{Text: c.Text, Blocks: cloneBlocks(c.Blocks)} }

func cloneBlocks(blocks []Block) []Block {
	if blocks == nil {
		return nil
	}
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		out[i] = cloneBlock(b)
	}
	return out
}

func cloneBlock(b Block) Block {
	switch b := b.(type) {
	case *TextBlock:
		d := *b
		d.FinishedAt = clonePtr(b.FinishedAt)
		return &d
	case *ThinkingBlock:
		d := *b
		d.FinishedAt = clonePtr(b.FinishedAt)
		d.Extra = slices.Clone(b.Extra)
		return &d
	case *DataBlock:
		d := *b
		d.Source, d.Name, d.FinishedAt = cloneSource(b.Source), clonePtr(b.Name), clonePtr(b.FinishedAt)
		return &d
	case *HintBlock:
		d := *b
		d.Hint, d.Source, d.FinishedAt = b.Hint.Clone(), clonePtr(b.Source), clonePtr(b.FinishedAt)
		return &d
	case *ToolCallBlock:
		d := *b
		d.SuggestedRules, d.FinishedAt = cloneRules(b.SuggestedRules), clonePtr(b.FinishedAt)
		return &d
	case *ToolResultBlock:
		return b.clone()
	case *UnknownBlock:
		d := *b
		d.Raw = bytes.Clone(b.Raw)
		return &d
	}
	return nil
}

func (b *ToolResultBlock) clone() *ToolResultBlock {
	d := *b
	d.Output, d.Metadata, d.FinishedAt = b.Output.Clone(), cloneMap(b.Metadata), clonePtr(b.FinishedAt)
	return &d
}

func cloneSource(s Source) Source {
	switch s := s.(type) {
	case *Base64Source:
		return clonePtr(s)
	case *URLSource:
		return clonePtr(s)
	}
	return nil
}

func cloneRules(rules []PermissionRule) []PermissionRule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].RuleContent = clonePtr(out[i].RuleContent)
	}
	return out
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// cloneMap copies a JSON object as decoded; values of other types are shared.
func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = cloneAny(v)
	}
	return out
}

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneMap(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}
